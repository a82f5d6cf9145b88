# SPDX-License-Identifier: GPL-2.0-only
"""Select a quarter of the tests of a kind, if the kind has many tests.

Such tests show that checks can fail, or repeat checks under nearly the same conditions. With
TESTS=due in the environment, as in `make test`, a quarter of each kind is selected. The number of
commits decides which quarter: a commit always selects the same one, and four successive commits
select all tests. A test is also selected if the last commit, or the work since then, changed one of
its own files. Without TESTS, all tests are selected.
"""

import functools
import hashlib
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet
from triagelab.base import sources

#: The type of a test's parameter.
Case = TypeVar("Case")

#: One in this many tests of a kind is due.
PARTS = 4
#: The folders on which the tests depend. If git cannot count commits, their content decides which
#: quarter is due.
FOLDERS = ("drives", "experiments", "kernel", "lab/triagelab", "tests")


def selected(
    cases: Sequence[Case], own_files: Callable[[Case], Sequence[Path]] = lambda _: ()
) -> list[ParameterSet]:
    """Return the cases as parameters of a test, and mark those that are not selected.

    `own_files` returns files that belong to a case and to few other cases. A change of one of these
    files selects the case.
    """
    chosen = chosen_of(cases, own_files)
    return [pytest.param(case, marks=() if case in chosen else left_out()) for case in cases]


def chosen_of(
    cases: Sequence[Case], own_files: Callable[[Case], Sequence[Path]] = lambda _: ()
) -> Sequence[Case]:
    """Return the cases that are selected."""
    if not is_asked():
        return cases
    number, _ = decider()
    chosen = due(cases, number)
    return [case for case in cases if case in chosen or not changed().isdisjoint(own_files(case))]


def is_asked() -> bool:
    """Return whether only the tests that are due are selected."""
    choice = os.environ.get("TESTS", "all")
    if choice not in ("all", "due"):
        raise pytest.UsageError(f"TESTS is {choice}, not all or due")
    return choice == "due"


def due(cases: Sequence[Case], number: int) -> Sequence[Case]:
    """Return the quarter of the cases that is due with this number of commits."""
    assert len(cases) >= PARTS, f"{len(cases)} cases are too few for {PARTS} parts"
    return cases[number % PARTS :: PARTS]


def left_out() -> pytest.MarkDecorator:
    """Return the mark of a test that is not selected."""
    return pytest.mark.skip(reason=f"left out; {described()}")


def is_left_out(item: pytest.Item) -> bool:
    """Return whether a test is not selected."""
    return item.get_closest_marker("skip") is not None


def described() -> str:
    """Return which quarter is due, and why this one."""
    number, why = decider()
    return f"due: part {number % PARTS + 1} of {PARTS} {why} (TESTS=all has all)"


@functools.cache
def decider() -> tuple[int, str]:
    """Return the number that decides which quarter is due, and words that name its origin.

    The number is the count of commits. If git cannot count them, the number is a hash of the
    sources. Any number of changes may then pass before each quarter has been due.
    """
    count = git("rev-list", "--count", "HEAD").strip()
    if count and git("rev-parse", "--is-shallow-repository") == "false\n":
        return int(count), f"after {count} commits"
    return int.from_bytes(hashlib.sha256(content()).digest()), "for these sources"


@functools.cache
def changed() -> frozenset[Path]:
    """Return the files that the last commit or the work since then changed."""
    names = git("diff", "--name-only", "-z", "HEAD~1")
    names += git("ls-files", "--others", "--exclude-standard", "-z")
    return frozenset(sources.ROOT / name for name in names.split("\0") if name)


def git(*words: str) -> str:
    """Return the output of git in this repository; "" if it fails, or if there is no git."""
    # Without --git-dir, git would use an outer repository, if a copy without .git lies in one.
    places = [f"--git-dir={sources.ROOT / '.git'}", f"--work-tree={sources.ROOT}"]
    try:
        done = subprocess.run(
            ["git", *places, *words], cwd=sources.ROOT, capture_output=True, text=True
        )
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def content() -> bytes:
    """Return the names and the content of the files in FOLDERS."""
    found = sorted(
        path
        for folder in FOLDERS
        for path in (sources.ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    return b"".join(
        b"%s\0%s" % (str(path.relative_to(sources.ROOT)).encode(), path.read_bytes())
        for path in found
    )
