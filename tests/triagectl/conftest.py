# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures for the tests of triagectl."""

from pathlib import Path

import pytest

from tests.triagectl.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")
