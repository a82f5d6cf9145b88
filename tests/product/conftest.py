# SPDX-License-Identifier: GPL-2.0-only
"""Start this folder's longest files first.

A worker of pytest-xdist takes a whole file at a time. If the last file were long, one worker would
run it while the others have nothing to do. The first file, test_recipes.py, mostly waits, so it
costs little beside files that keep all cores busy.
"""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LONGEST = ("test_recipes.py", "test_storm.py", "test_readme.py", "test_matrix.py", "test_run.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests of the longest files before this folder's others."""
    ours = [at for at, item in enumerate(items) if item.path.parent == HERE]
    ordered = sorted((items[at] for at in ours), key=lambda item: _rank(item.path.name))
    for at, item in zip(ours, ordered, strict=True):
        items[at] = item


def _rank(name: str) -> int:
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)
