# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures for the tests of triagectl."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.triagectl.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


@pytest.fixture
def vanishing(monkeypatch: pytest.MonkeyPatch) -> str:
    """Make each folder named `vanishing` vanish just before it is listed; return that name."""
    scandir = os.scandir

    def scan(path: Any = ".") -> Any:
        if str(path).endswith("/vanishing"):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    return "vanishing"
