# SPDX-License-Identifier: GPL-2.0-only
"""Tests of locks and results: only one ./triage gets a lock, and results belong to the user."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from triagelab.ask import devices
from triagelab.base import files
from triagelab.base.errors import LabError
from triagelab.plan import plan
from triagelab.run import records, rundir

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder in which all users may write, like /tmp; set a umask for private files."""
    umask = os.umask(0o077)
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        yield Path(name)
    os.umask(umask)


@contextlib.contextmanager
def somebody_else() -> Iterator[None]:
    """Run the block as another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_any_user_can_lock_what_another_made(folder: Path) -> None:
    """Any user can lock another user's file, even where the kernel refuses O_CREAT on it.

    The kernel refuses it in sticky folders like /tmp, if fs.protected_regular is 1 or 2.
    """
    lock = folder / "lock"
    with somebody_else(), files.exclusive(lock, "taken"):
        pass
    with files.exclusive(lock, "taken"):
        pass
    lock.unlink()
    with files.exclusive(lock, "taken"):
        pass
    with somebody_else(), files.exclusive(lock, "taken"):
        pass


def test_one_has_it(folder: Path) -> None:
    lock = folder / "lock"
    with (
        files.exclusive(lock, "taken"),
        somebody_else(),
        pytest.raises(LabError, match="taken"),
        files.exclusive(lock, "taken"),
    ):
        pass


def test_a_fifo_or_a_link_in_its_place_is_told_and_not_waited_for(folder: Path) -> None:
    """A FIFO, link or folder in place of a lock is an error: in /tmp, any user may put it there."""
    lock, other = folder / "lock", folder / "other"
    os.mkfifo(lock)
    with pytest.raises(LabError, match="is not a regular file"), files.exclusive(lock, "taken"):
        pass
    lock.unlink()
    lock.symlink_to(other)
    for _ in range(2):
        with pytest.raises(LabError, match="remove it"), files.exclusive(lock, "taken"):
            pass
        other.touch()
    lock.unlink()
    lock.mkdir()
    with pytest.raises(LabError, match="remove it"), files.exclusive(lock, "taken"):
        pass


def test_what_is_left_of_who_was_killed_in_writing_goes(tmp_path: Path) -> None:
    left = tmp_path / "out/runs/kyber/run.json.part"
    left.parent.mkdir(parents=True)
    left.write_text("hal")
    with rundir.owned(tmp_path / "out"):
        assert not left.exists()


def test_with_sudo_results_are_the_users(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user who called sudo owns the results. The target of a link keeps its owner."""
    if os.geteuid() != 0:
        pytest.skip("only root can give anything away")
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    monkeypatch.setenv("SUDO_GID", str(NOBODY))
    theirs = folder / "theirs"
    theirs.touch()
    out = folder / "results/mixed"
    with pytest.raises(LabError), rundir.owned(out):
        (out / "runs").mkdir()
        (out / "runs/run.json").touch()
        (out / "link").symlink_to(theirs)
        raise LabError("whatever ends it")
    made = [out.parent, out, *out.rglob("*")]
    assert len(made) == 6  # one of them is the lock
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in made} == {(NOBODY, NOBODY)}
    assert theirs.stat().st_uid == folder.stat().st_uid == 0


def test_what_varied_of_a_device_is_not_told_as_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    for number, depth in enumerate((128, 16, 16)):
        run = SimpleNamespace(id=str(number), device=devices.find("null", {}))
        folder = tmp_path / "runs" / run.id
        (folder / "out").mkdir(parents=True)
        (folder / "run.json").write_text('{"status": "done"}')
        (folder / "out/device").write_text(f"hw_queue_depth={depth}\nirqmode=2\n")
        runs.append(cast(plan.Run, run))
    monkeypatch.setattr(records, "_ALWAYS", ("device",))
    (tmp_path / "environment.json").write_text('{"schema": 1, "device": {}}')
    rundir.conclude(runs, tmp_path)
    told = json.loads((tmp_path / "environment.json").read_text())["device"]["settings"]
    assert told == {"hw_queue_depth": "16 or 128", "irqmode": "2"}
