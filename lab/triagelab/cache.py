# SPDX-License-Identifier: GPL-2.0-only
"""The cache folder: what was downloaded, unpacked or built, and is needed again.

Entries appear whole or not at all, whoever is interrupted while making them,
and two processes that want the same entry make it once.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path


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


def entry(name: str, make: Callable[[Path], None]) -> Path:
    """The cache folder's directory `name`; `make` fills an empty one if it is missing."""
    path = root() / name
    if path.exists():
        return path
    with locked(path.with_name(path.name + ".lock")):
        if path.exists():
            return path
        # Of one who was killed: with the lock held, nobody is at it.
        for left in path.parent.glob(f"{path.name}.part-*"):
            shutil.rmtree(left, ignore_errors=True)
        scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=path.name + ".part-"))
        try:
            scratch.chmod(0o755)
            make(scratch)
            scratch.rename(path)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return path
