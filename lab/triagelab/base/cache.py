# SPDX-License-Identifier: GPL-2.0-only
"""Keep downloads, unpacked archives and builds in the cache folder, to use them again.

An entry appears whole or not at all, even if the process that makes it is killed. If two processes
want the same entry, one makes it and the other waits. Downloads stay for good. An entry that
the lab built can be built again, so the lab removes this entry after 30 days without use. If an
input of a build changes, the build gets a new entry.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from triagelab.base import files

_UNUSED_S = 30 * 24 * 3600
_PART = ".part-"


def root() -> Path:
    """Return the cache folder: $TRIAGE_CACHE, or `triage` in the user's cache folder."""
    given = os.environ.get("TRIAGE_CACHE")
    if given:
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "triage"


@contextlib.contextmanager
def handed_over(folder: Path) -> Iterator[None]:
    """After the block, give `folder` and its content to the user who called sudo, if any.

    The user also becomes the owner of each parent of `folder` that the block makes.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    finally:
        if os.geteuid() == 0 and (user := os.environ.get("SUDO_UID", "")).isdecimal():
            group = os.environ.get("SUDO_GID", "")
            owner = int(user), int(group) if group.isdecimal() else -1
            for path in filter(Path.exists, made):
                os.chown(path, *owner, follow_symlinks=False)
            for _, names, leaves, here in os.fwalk(folder) if folder.is_dir() else ():
                os.fchown(here, *owner)
                for name in (*names, *leaves):
                    os.chown(name, *owner, dir_fd=here, follow_symlinks=False)


def fetched(name: str, make: Callable[[Path], None]) -> Path:
    """Return the permanent cache entry `name`. If it is missing, call `make` to fill its folder."""
    path = root() / name
    if path.exists():
        return path
    with files.locked(_lock(path)):
        if not path.exists():
            with _whole(path) as scratch:
                make(scratch)
    return path


def made(name: str, make: Callable[[Path], None]) -> Path:
    """Return the cache entry `name` like fetched(), but do not keep the entry for good.

    If the entry was missing, also remove entries of the same folder that were unused for 30 days.
    """
    path = root() / name
    # Lock an existing entry too, so that no other process removes it before utime() marks its use.
    with files.locked(_lock(path)):
        if not path.exists():
            with _whole(path) as scratch:
                make(scratch)
            _remove_unused(path.parent)
        os.utime(path)
    return path


async def made_meanwhile(name: str, make: Callable[[Path], Awaitable[None]]) -> Path:
    """Do the same as made(), but let other asyncio tasks run while it waits or makes the entry."""
    path = root() / name
    async with files.locked_meanwhile(_lock(path)):
        if not path.exists():
            with _whole(path) as scratch:
                await make(scratch)
            _remove_unused(path.parent)
        os.utime(path)
    return path


def _remove_unused(kind: Path) -> None:
    """In `kind`, a folder of similar entries, remove each entry that was unused for 30 days.

    Also remove the leftovers of processes that were killed while they made an entry.
    """
    folders = [path for path in kind.iterdir() if path.is_dir()]
    for path in {path.with_name(path.name.partition(_PART)[0]) for path in folders}:
        # An entry of another user cannot be removed and stays.
        with contextlib.suppress(OSError), files.locked_if_free(_lock(path)) as ours:
            if not ours:
                continue  # another process makes or uses this entry
            if path.exists() and time.time() - path.stat().st_mtime > _UNUSED_S:
                path.rename(_scratch(path))
            _remove_parts(path)


def _lock(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Yield a folder that is renamed to `path` on success. The caller holds the entry's lock."""
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
    """Remove unfinished folders of the entry `path`, left by processes that were killed.

    The caller holds the entry's lock, so no process is making the entry now.
    """
    for left in path.parent.glob(f"{path.name}{_PART}*"):
        shutil.rmtree(left, ignore_errors=True)
