# SPDX-License-Identifier: GPL-2.0-only
"""The cache folder: what was downloaded, unpacked or built, and is needed again.

Entries appear whole or not at all, whoever is interrupted while making them,
and two processes that want the same entry make it once. What was downloaded stays;
what was made can be made again, and goes when nobody has used it for long: each change
to what it is made from makes another.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TextIO

_LOCK_POLL_S = 0.1
_UNUSED_S = 30 * 24 * 3600
_PART = ".part-"


def root() -> Path:
    """The cache folder: $TRIAGE_CACHE, or `triage` in the user's cache folder."""
    given = os.environ.get("TRIAGE_CACHE")
    if given:
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "triage"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` (made if missing); waits for whoever holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.asynccontextmanager
async def locked_meanwhile(path: Path) -> AsyncIterator[None]:
    """As `locked`, but what else is to be done goes on while it waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        while not _try_lock(handle):
            await asyncio.sleep(_LOCK_POLL_S)
        yield


def _try_lock(handle: TextIO) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def handed_over(folder: Path) -> Iterator[None]:
    """What is made in `folder` is in the end that user's who has called sudo."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    finally:
        if os.geteuid() == 0 and (user := os.environ.get("SUDO_UID", "")).isdecimal():
            group = os.environ.get("SUDO_GID", "")
            owner = int(user), int(group) if group.isdecimal() else -1
            for path in filter(Path.exists, made):
                os.chown(path, *owner, follow_symlinks=False)
            for _, names, files, here in os.fwalk(folder) if folder.is_dir() else ():
                os.fchown(here, *owner)
                for name in (*names, *files):
                    os.chown(name, *owner, dir_fd=here, follow_symlinks=False)


def fetched(name: str, make: Callable[[Path], None]) -> Path:
    """The cache folder's directory `name`, for good; `make` fills an empty one if it is missing."""
    path = root() / name
    if path.exists():
        return path
    with locked(_lock(path)):
        if not path.exists():
            with _whole(path) as scratch:
                make(scratch)
    return path


def made(name: str, make: Callable[[Path], None]) -> Path:
    """As `fetched`, but it goes when nobody has asked for it for long, and another is made."""
    path = root() / name
    # Held for whoever finds it too: nobody takes it away before it says that it is used.
    with locked(_lock(path)):
        if not path.exists():
            with _whole(path) as scratch:
                make(scratch)
            _remove_unused(path.parent)
        os.utime(path)
    return path


async def made_meanwhile(name: str, make: Callable[[Path], Awaitable[None]]) -> Path:
    """As `made`, but what else is to be done goes on meanwhile."""
    path = root() / name
    async with locked_meanwhile(_lock(path)):
        if not path.exists():
            with _whole(path) as scratch:
                await make(scratch)
            _remove_unused(path.parent)
        os.utime(path)
    return path


def _remove_unused(kind: Path) -> None:
    """Remove what nobody has used for long, and what those killed in making an entry have left."""
    folders = [path for path in kind.iterdir() if path.is_dir()]
    for path in {path.with_name(path.name.partition(_PART)[0]) for path in folders}:
        # What cannot be removed, for it is another user's, stays.
        with contextlib.suppress(OSError), _lock(path).open("a") as handle:
            if not _try_lock(handle):
                continue  # somebody is at it
            if path.exists() and time.time() - path.stat().st_mtime > _UNUSED_S:
                path.rename(_scratch(path))
            _remove_parts(path)


def _lock(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A folder to be filled that becomes `path` if all goes well, for who holds its lock."""
    _remove_parts(path)
    scratch = _scratch(path)
    try:
        scratch.chmod(0o755)
        yield scratch
        scratch.rename(path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _scratch(path: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=path.parent, prefix=path.name + _PART))


def _remove_parts(path: Path) -> None:
    """Remove what is of one who was killed: with the lock held, nobody is at it."""
    for left in path.parent.glob(f"{path.name}{_PART}*"):
        shutil.rmtree(left, ignore_errors=True)
