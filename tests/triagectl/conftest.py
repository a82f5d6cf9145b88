# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures of the command's tests."""

from pathlib import Path

import pytest

from tests.triagectl.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")
