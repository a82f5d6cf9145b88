# SPDX-License-Identifier: GPL-2.0-only
"""Locks: of two triages, whoever's they are, one has it."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from triagelab import rundir
from triagelab.errors import LabError

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """As /tmp is, which what pytest has is not, with a umask that lets nobody else read."""
    umask = os.umask(0o077)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        yield Path(name)
    os.umask(umask)


@contextlib.contextmanager
def somebody_else() -> Iterator[None]:
    """Be another user meanwhile."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_any_user_can_lock_what_another_made(folder: Path) -> None:
    """Where fs.protected_regular is 2, root is no exception."""
    lock = folder / "lock"
    with somebody_else(), rundir.exclusive(lock, "taken"):
        pass
    with rundir.exclusive(lock, "taken"):
        pass
    lock.unlink()
    with rundir.exclusive(lock, "taken"):
        pass
    with somebody_else(), rundir.exclusive(lock, "taken"):
        pass


def test_one_has_it(folder: Path) -> None:
    lock = folder / "lock"
    with (
        rundir.exclusive(lock, "taken"),
        somebody_else(),
        pytest.raises(LabError, match="taken"),
        rundir.exclusive(lock, "taken"),
    ):
        pass
