# SPDX-License-Identifier: GPL-2.0-only
"""The cache folder: downloads, unpacked archives and builds that are needed again.

An entry appears whole or not at all, even if its maker is interrupted. Two processes
that want the same entry make it once. Downloads stay for good. Built entries can be
made again, so they go after a long time without use; each change of an input makes a
new entry.
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
    """Give `folder`, and the parents that the block makes, to the user who called sudo."""
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
    """Return the permanent cache entry `name`; if it is missing, `make` fills an empty folder."""
    path = root() / name
    if path.exists():
        return path
    with files.locked(_lock(path)):
        if not path.exists():
            with _whole(path) as scratch:
                make(scratch)
    return path


def made(name: str, make: Callable[[Path], None]) -> Path:
    """Return an entry as `fetched` does; if it was missing, also remove entries long unused."""
    path = root() / name
    # Lock an existing entry too, so that no other process removes it before its time is renewed.
    with files.locked(_lock(path)):
        if not path.exists():
            with _whole(path) as scratch:
                make(scratch)
            _remove_unused(path.parent)
        os.utime(path)
    return path


async def made_meanwhile(name: str, make: Callable[[Path], Awaitable[None]]) -> Path:
    """Return an entry as `made` does, but let other tasks run meanwhile."""
    path = root() / name
    async with files.locked_meanwhile(_lock(path)):
        if not path.exists():
            with _whole(path) as scratch:
                await make(scratch)
            _remove_unused(path.parent)
        os.utime(path)
    return path


def _remove_unused(kind: Path) -> None:
    """Remove entries in `kind` that were not used for long, and leftovers of killed makers."""
    folders = [path for path in kind.iterdir() if path.is_dir()]
    for path in {path.with_name(path.name.partition(_PART)[0]) for path in folders}:
        # An entry of another user cannot be removed and stays.
        with contextlib.suppress(OSError), files.locked_if_free(_lock(path)) as ours:
            if not ours:
                continue  # in use
            if path.exists() and time.time() - path.stat().st_mtime > _UNUSED_S:
                path.rename(_scratch(path))
            _remove_parts(path)


def _lock(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Yield a folder that becomes `path` on success; the caller holds the entry's lock."""
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
    """Remove leftovers of a killed maker: the caller holds the lock, so no maker is active."""
    for left in path.parent.glob(f"{path.name}{_PART}*"):
        shutil.rmtree(left, ignore_errors=True)
