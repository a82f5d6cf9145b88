# SPDX-License-Identifier: GPL-2.0-only
"""The interface of machines: the job that one is given, and the outcome that it gives back."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from triagelab.base.errors import LabError

#: The line by which a job tells on the console that fio starts.
FIO_STARTS = "triage: fio starts"


class GuestError(LabError):
    """The guest died, hung, or never came up."""


class BootError(GuestError):
    """The kernel did not boot."""


class FullError(BootError):
    """The disk is full, so no job can run."""


@dataclass(frozen=True)
class Job:
    """Files for a folder in which `run` is executed, and modules of ours that it may load."""

    files: Mapping[str, Path | str]
    modules: tuple[Path, ...] = ()
    memory_mb: int = 512
    time_limit_s: float = 1800.0
    boot_limit_s: float = 120.0


@dataclass(frozen=True)
class Outcome:
    """A finished job: its exit status, and the `folder` with the files that it wrote to `out`."""

    status: int
    folder: Path
    fio_started_s: float | None


class Machine(Protocol):
    """A machine that runs jobs."""

    @property
    def name(self) -> str:
        """The name for --machine."""

    @property
    def cpus(self) -> int:
        """The number of its CPUs."""

    @property
    def description(self) -> str:
        """A description for the report."""

    @property
    def at_once(self) -> int:
        """The number of runs that fit side by side without changing each other's figures."""

    @property
    def counts_locks(self) -> bool:
        """Return whether the machine can count how often CPUs wait for each other."""

    @property
    def determines(self) -> Mapping[str, Any]:
        """Everything about the machine that determines a job's figures."""

    async def run(self, job: Job, folder: Path) -> Outcome:
        """Run the job; write its console log and its output to `folder`."""


def console_text(path: Path) -> str:
    """Return what a console log has so far."""
    return path.read_text(errors="replace") if path.exists() else ""


def last_lines(console: Path, count: int = 15) -> str:
    """The lines of a console log that say why it ended: from the first complaint, or the last."""
    lines = [line.rstrip() for line in console_text(console).splitlines() if line.strip()]
    complaint = re.compile(r"Kernel panic|BUG:|WARNING:|Oops|Unable to mount|blocked for more than")
    first = next((n for n, line in enumerate(lines) if complaint.search(line)), len(lines) - count)
    return "\n".join(lines[max(first, 0) :][:count])
