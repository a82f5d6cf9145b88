# SPDX-License-Identifier: GPL-2.0-only
"""Look up processes: the process of a thread, a process's threads, a systemd unit's processes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from triagectl import ioprio
from triagectl.errors import RequestError
from triagectl.requests import text
from triagectl.system import System, folders, names, number, read

#: The most threads of one interval: with more, the table begins a new interval. If the table has
#: more than this in all when an interval ends, it keeps only the threads of that interval.
_KNOWN_MOST = 20000
#: The types of systemd units that have processes.
_KINDS = (".service", ".scope", ".slice", ".socket", ".mount", ".swap")


@dataclass(frozen=True)
class Process:
    """A process, with the I/O priority of the thread by which it was found."""

    pid: int
    name: str
    priority: ioprio.Priority | None


class Table:
    """The processes of threads that submitted requests, each looked up once in an interval."""

    def __init__(self, system: System) -> None:
        self._proc = system.path("proc")
        #: Thread's number -> the name that its trace event has (`comm`), and its process. _known
        #: was looked up in this interval, _earlier in earlier ones.
        self._known: dict[int, tuple[bytes, Process]] = {}
        self._earlier: dict[int, tuple[bytes, Process]] = {}

    def turn(self) -> None:
        """Begin a new interval. Each thread is looked up again when it sends its next request.

        A thread's name and priority may have changed, or its number may be another thread's now.
        Keep earlier results: a thread that has ended cannot be looked up any more, but may still
        appear in the figures. If there are too many, keep only those of the interval that ends.
        """
        if len(self._earlier) + len(self._known) > _KNOWN_MOST:
            self._earlier = {}
        self._earlier |= self._known
        self._known = {}

    def of(self, tid: int, comm: bytes) -> Process:
        """Return the process of a thread.

        If the thread has ended, return the process that was found in an earlier interval. If none
        was found, the returned process has the thread's number, and the event's `comm` as its name.
        """
        found = self._known.get(tid)
        if found is None:
            if len(self._known) >= _KNOWN_MOST:
                self.turn()
            found = self._known[tid] = self._look(tid, comm)
        return found[1]

    def _look(self, tid: int, comm: bytes) -> tuple[bytes, Process]:
        status = read(self._proc / str(tid) / "status") or ""
        leader = re.search(r"^Tgid:\s*(\d+)", status, re.M)
        if leader is None and tid in self._earlier:
            other, _ = self._earlier[tid]
            # If the names differ, an earlier thread had the same number.
            if comm == other or b"" in (comm, other):
                return self._earlier[tid]
        pid = int(leader[1]) if leader else tid
        name = read(self._proc / str(pid) / "comm")
        if name is None:
            name = text(comm).decode(errors="replace")
        # A kworker's name ends with its present work: cut that off.
        if name.startswith("kworker"):
            name = re.sub(r"[-+].*", "", name)
        return comm, Process(pid, name, ioprio.effective(tid))


def threads(system: System, pid: int) -> list[int]:
    """Return a process's threads. Raise RequestError if there is no such process."""
    found = [int(name) for name in names(system.path(f"proc/{pid}/task"))]
    if not found:
        raise RequestError(f"there is no process {pid}")
    return found


def of_unit(system: System, unit: str) -> list[int]:
    """Return the processes of a systemd unit, also those in control groups below the unit's."""
    # Look for a known suffix: a dot may belong to an instance's name, as in openvpn@a.b.
    name = unit if unit.endswith(_KINDS) else f"{unit}.service"
    top = system.mounted("cgroup2")
    if top is None:
        raise RequestError("there is no cgroup2 file system, so units cannot be found: give --pid")
    found = [folder for folder in folders(top) if folder.name == name]
    if not found:
        raise RequestError(
            f"no unit '{name}' is running here: `systemctl list-units` has the names"
        )
    return sorted({pid for folder in found for pid in _members(folder)})


def _members(folder: Path) -> Iterator[int]:
    for path in folders(folder):
        for word in (read(path / "cgroup.procs") or "").split():
            if (pid := number(word)) is not None:
                yield pid


def cgroup(system: System, pid: int) -> Path | None:
    """Return the folder of a process's control group (version 2); None if it is not found."""
    top = system.mounted("cgroup2")
    for line in (system.read(f"proc/{pid}/cgroup") or "").splitlines():
        if line.startswith("0::") and top:
            return top / line[3:].lstrip("/")
    return None
