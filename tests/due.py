# SPDX-License-Identifier: GPL-2.0-only
"""Select a quarter of the tests of each kind that has many.

Such tests show that checks can fail, or run checks again where little differs. With TESTS=due in
the environment, as in `make test`, a quarter of each kind is selected. A hash of the sources
decides which quarter, so a change of the sources mostly selects another one. Without TESTS, all
tests are selected.
"""

import functools
import hashlib
import os
from collections.abc import Sequence
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet
from triagelab.base import sources

#: The type of a test's parameter.
Case = TypeVar("Case")

#: One in this many tests of a kind is due.
PARTS = 4
LEFT_OUT = pytest.mark.skip(reason="due for other sources; `make test TESTS=all` has all")


def selected(cases: Sequence[Case]) -> list[ParameterSet]:
    """Return the cases as parameters of a test, and mark those that are not selected."""
    chosen = chosen_of(cases)
    return [pytest.param(case, marks=() if case in chosen else LEFT_OUT) for case in cases]


def chosen_of(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases that are selected."""
    choice = os.environ.get("TESTS", "all")
    assert choice in ("all", "due"), f"TESTS is {choice}, not all or due"
    return cases if choice == "all" else due(cases, content())


def due(cases: Sequence[Case], content: bytes) -> Sequence[Case]:
    """Return the quarter of the cases that is due for sources with this content."""
    return cases[hashlib.sha256(content).digest()[0] % PARTS :: PARTS]


def is_left_out(item: pytest.Item) -> bool:
    """Return whether a test is not selected."""
    return item.get_closest_marker("skip") is not None


@functools.cache
def content() -> bytes:
    """Return the sources of the modules, of their checks and of the model."""
    tests = sources.MODULES.parent / "tests"
    found = [
        path
        for folder in (sources.MODULES, tests / "kernel", tests / "proof")
        for path in folder.rglob("*")
        if path.suffix in (".c", ".h", ".sh", ".pml", ".patch")
    ]
    return b"".join(path.read_bytes() for path in sorted(found))
