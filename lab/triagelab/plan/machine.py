# SPDX-License-Identifier: GPL-2.0-only
"""Define the interface of machines: a machine runs a job and returns an outcome."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from triagelab.base.errors import LabError

#: The line that a job writes to the console just before it starts fio.
FIO_STARTS = "triage: fio starts"


class GuestError(LabError):
    """The guest died, hung, or did not boot."""


class BootError(GuestError):
    """The kernel did not boot."""


class FullError(BootError):
    """The file system of the run directory is full, so no job can run."""


@dataclass(frozen=True)
class Job:
    """A job for a machine. The machine executes the file `run` in a folder with the job's `files`.

    modules       kernel modules that the job may load, besides the kernel's own
    memory_mb     memory of the guest, in MiB
    time_limit_s  the most seconds that a guest may take, by the host's clock
    boot_limit_s  the most seconds until the guest is ready to run the job, by the host's clock
    """

    files: Mapping[str, Path | str]
    modules: tuple[Path, ...] = ()
    memory_mb: int = 512
    time_limit_s: float = 1800.0
    boot_limit_s: float = 120.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a finished job.

    status         the job's exit status
    folder         a folder with the files that the job wrote to `out`
    fio_started_s  seconds from the machine's start to fio's start; None if fio did not start
    """

    status: int
    folder: Path
    fio_started_s: float | None


class Machine(Protocol):
    """A machine that runs jobs, such as Qemu or Host."""

    @property
    def name(self) -> str:
        """Return the machine's name for --machine."""

    @property
    def cpus(self) -> int:
        """Return the number of the machine's CPUs."""

    @property
    def description(self) -> str:
        """Return a description for the report."""

    @property
    def at_once(self) -> int:
        """Return how many runs may go on at once without changing each other's figures."""

    @property
    def counts_locks(self) -> bool:
        """Return whether the machine counts how often a CPU finds a spinlock taken."""

    @property
    def determines(self) -> Mapping[str, Any]:
        """Return everything about the machine that determines a job's figures."""

    async def run(self, job: Job, folder: Path) -> Outcome:
        """Run the job; write the machine's console log and the job's output to `folder`."""


def console_text(path: Path) -> str:
    """Return the text that is in a console log now; empty if there is no log."""
    return path.read_text(errors="replace") if path.exists() else ""


def last_lines(console: Path, count: int = 15) -> str:
    """Return at most `count` lines of a console log, without empty lines.

    Begin at the kernel's first complaint. If there is none, return the log's last lines.
    """
    lines = [line.rstrip() for line in console_text(console).splitlines() if line.strip()]
    complaint = re.compile(r"Kernel panic|BUG:|WARNING:|Oops|Unable to mount|blocked for more than")
    first = next((n for n, line in enumerate(lines) if complaint.search(line)), len(lines) - count)
    return "\n".join(lines[max(first, 0) :][:count])
