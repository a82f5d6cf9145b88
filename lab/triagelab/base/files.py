# SPDX-License-Identifier: GPL-2.0-only
"""Write files that appear whole or not at all, and lock files."""

import asyncio
import contextlib
import fcntl
import json
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from triagelab.base.errors import LabError

#: The suffix of a file's name until the file is complete.
PART = ".part"

_LOCK_POLL_S = 0.1


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file that appears whole or not at all."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file that appears whole or not at all."""
    with whole(path) as scratch:
        # `text` may contain file names that are not valid UTF-8. Escape their bytes as json.dumps()
        # does.
        scratch.write_text(text, encoding="utf-8", errors="backslashreplace")


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary path that becomes the file `path` on success and is deleted on failure."""
    scratch = path.with_name(path.name + PART)
    try:
        yield scratch
        scratch.replace(path)
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        scratch.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` (created if missing); wait while another holds the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.asynccontextmanager
async def locked_meanwhile(path: Path) -> AsyncIterator[None]:
    """Hold the lock like locked(), but let other asyncio tasks run while this one waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        while not _try_lock(handle):
            await asyncio.sleep(_LOCK_POLL_S)
        yield


@contextlib.contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Hold an exclusive lock on `path` and yield True, or yield False if another holds the lock."""
    with path.open("a") as handle:
        yield _try_lock(handle)


@contextlib.contextmanager
def exclusive(
    path: Path, message: str, waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold a lock on `path`; raise LabError with `message` if another process holds it.

    If `waiting` is given, call it and wait for the lock instead. Raise LabError if `path` cannot be
    opened or is not a regular file.

    The file may belong to another user, so open it for reading only, which is enough for a lock.
    Create the file in a separate step: in /tmp the kernel refuses O_CREAT on another user's
    existing file, even to root.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # O_NONBLOCK: the path may be a FIFO
    with contextlib.suppress(FileExistsError):
        made = os.open(path, flags | os.O_CREAT | os.O_EXCL)
        os.fchmod(made, 0o644)  # so that every user can open it, whatever the umask is
        os.close(made)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        raise LabError(f"{path} cannot be locked: {error.strerror}; remove it") from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise LabError(f"{path} is not a regular file, so the lab cannot lock it; remove it")
        if not _try_lock(handle):
            if waiting is None:
                raise LabError(message)
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: TextIO | int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
