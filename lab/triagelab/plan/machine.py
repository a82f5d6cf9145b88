# SPDX-License-Identifier: GPL-2.0-only
"""The interface of machines: a machine gets a job, and returns an outcome."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from triagelab.base.errors import LabError

#: The line that a job writes to the console just before it starts fio.
FIO_STARTS = "triage: fio starts"


class GuestError(LabError):
    """The guest died, hung, or never came up."""


class BootError(GuestError):
    """The kernel did not boot."""


class FullError(BootError):
    """The host's file system for results is full, so no job can run."""


@dataclass(frozen=True)
class Job:
    """A job for a machine, which executes the file `run` in a folder with the job's `files`.

    modules       modules of this repository that the job may load
    time_limit_s  seconds that a machine may take, by the host's clock
    boot_limit_s  seconds until the job is ready to run
    """

    files: Mapping[str, Path | str]
    modules: tuple[Path, ...] = ()
    memory_mb: int = 512
    time_limit_s: float = 1800.0
    boot_limit_s: float = 120.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a finished job.

    status         its exit status
    folder         has the files that it wrote to `out`
    fio_started_s  seconds after the machine's start, None if fio did not start
    """

    status: int
    folder: Path
    fio_started_s: float | None


class Machine(Protocol):
    """A machine that runs jobs."""

    @property
    def name(self) -> str:
        """Return the machine's name for --machine."""

    @property
    def cpus(self) -> int:
        """Return the number of its CPUs."""

    @property
    def description(self) -> str:
        """Return a description for the report."""

    @property
    def at_once(self) -> int:
        """Return how many runs may go on at once without changing each other's figures."""

    @property
    def counts_locks(self) -> bool:
        """Return whether the machine can count how often a CPU finds a lock taken."""

    @property
    def determines(self) -> Mapping[str, Any]:
        """Return everything about the machine that determines a job's figures."""

    async def run(self, job: Job, folder: Path) -> Outcome:
        """Run the job; write its console log and its output to `folder`."""


def console_text(path: Path) -> str:
    """Return the text that a console log has so far; empty if there is no log yet."""
    return path.read_text(errors="replace") if path.exists() else ""


def last_lines(console: Path, count: int = 15) -> str:
    """Return `count` lines of a console log: from the kernel's first complaint on, or the last."""
    lines = [line.rstrip() for line in console_text(console).splitlines() if line.strip()]
    complaint = re.compile(r"Kernel panic|BUG:|WARNING:|Oops|Unable to mount|blocked for more than")
    first = next((n for n, line in enumerate(lines) if complaint.search(line)), len(lines) - count)
    return "\n".join(lines[max(first, 0) :][:count])
