# SPDX-License-Identifier: GPL-2.0-only
"""Read the machine's files below a root folder. Tests use a root of their own."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from triagectl.errors import RequestError

#: The kernel's initial PID namespace has this inode number on every machine.
_FIRST_PIDS = "pid:[4026531836]"


@dataclass(frozen=True)
class System:
    """A machine as its files show it; `root` is / except in tests."""

    root: Path = Path("/")

    def path(self, name: str) -> Path:
        """Return the path of a file whose name starts at the root."""
        return self.root / name.lstrip("/")

    def read(self, name: str) -> str | None:
        """Return a file's text without white space around it; None if it cannot be read."""
        return read(self.path(name))

    def mounted(self, kind: str, option: str = "") -> Path | None:
        """Return the first mount point of a file system of this kind; None if there is none.

        With `option`, return the first that is mounted with this option.
        """
        for line in (self.read("proc/self/mounts") or "").splitlines():
            words = line.split(" ")
            if option and option not in "".join(words[3:4]).split(","):
                continue
            if len(words) > 2 and words[2] == kind:
                return self.path(words[1].encode().decode("unicode_escape"))
        return None

    def contained(self) -> bool:
        """Return whether this process is in a container, where trace events show other PIDs."""
        try:
            return str(self.path("proc/self/ns/pid").readlink()) != _FIRST_PIDS
        except OSError:
            return False

    def debugfs(self) -> Path | None:
        """Return the folder of debugfs; None if it is not mounted or this user may not read it."""
        found = self.mounted("debugfs")
        return found if found and os.access(found, os.R_OK | os.X_OK) else None

    def tracefs(self) -> Path:
        """Return the folder of tracefs.

        Raises RequestError if it is not mounted, or if this user may not use it.
        """
        found = self.mounted("tracefs")
        if found is None:
            below = self.mounted("debugfs")
            # debugfs mounts tracefs at `tracing` when a program looks into that folder.
            if below and (below / "tracing/instances").is_dir():
                return below / "tracing"
            raise RequestError(
                "tracefs is not mounted: give `mount -t tracefs none /sys/kernel/tracing`"
            )
        if not os.access(found / "instances", os.W_OK):
            raise RequestError(f"only root may use {found}: give the command as root")
        return found


def read(path: Path) -> str | None:
    """Return a file's text without white space around it; None if it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None


def rewrite(path: Path, value: str) -> None:
    """Write a file that exists. `write_text` would try to create a missing file, even in sysfs."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC), "w") as file:
        file.write(value)


def number(text: str | None) -> int | None:
    """Return a file's text as an integer, or None if it is not one."""
    try:
        return int(text or "")
    except ValueError:
        return None


def names(folder: Path) -> list[str]:
    """Return the names in a folder, in order; none if there is no such folder."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def folders(top: Path) -> Iterator[Path]:
    """Yield a folder and all folders below it. A folder that vanishes meanwhile is left out."""
    for name, _, _ in os.walk(top):
        yield Path(name)
