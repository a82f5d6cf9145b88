# SPDX-License-Identifier: GPL-2.0-only
"""The cache folder: what was downloaded, unpacked or built, and is needed again.

Entries appear whole or not at all, whoever is interrupted while making them,
and two processes that want the same entry make it once.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TextIO

_LOCK_POLL_S = 0.1


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


def entry(name: str, make: Callable[[Path], None]) -> Path:
    """The cache folder's directory `name`; `make` fills an empty one if it is missing."""
    path = root() / name
    if path.exists():
        return path
    with locked(_lock(path)):
        if not path.exists():
            with _whole(path) as scratch:
                make(scratch)
    return path


async def entry_meanwhile(name: str, make: Callable[[Path], Awaitable[None]]) -> Path:
    """As `entry`, but what else is to be done goes on meanwhile."""
    path = root() / name
    if path.exists():
        return path
    async with locked_meanwhile(_lock(path)):
        if not path.exists():
            with _whole(path) as scratch:
                await make(scratch)
    return path


def _lock(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A folder to be filled that becomes `path` if all goes well, for who holds its lock."""
    # Of one who was killed: with the lock held, nobody is at it.
    for left in path.parent.glob(f"{path.name}.part-*"):
        shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=path.name + ".part-"))
    try:
        scratch.chmod(0o755)
        yield scratch
        scratch.rename(path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
