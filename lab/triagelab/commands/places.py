# SPDX-License-Identifier: GPL-2.0-only
"""Let only one process of the lab at a time measure in real time, or use a certain disk."""

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from triagelab.base import files, tools
from triagelab.base.errors import RequestError
from triagelab.commands import telling
from triagelab.run import disks, host, machines, putback

#: An experiment holds this lock while it measures in real time on this computer.
REAL_TIME_LOCK = Path("/tmp") / "triage-real-time.lock"


@contextlib.contextmanager
def measuring_alone(machine: str, *, waits: bool = False) -> Iterator[None]:
    """Hold the lock for measurement in real time during the block.

    Two experiments in real time would disturb each other. If another process holds the lock, wait
    if `waits` is True, else raise LabError. For a machine in virtual time, take no lock.
    """
    if machines.kind(machine).in_virtual_time:
        yield
        return
    busy = "another triage is measuring in real time on this computer"

    def tell() -> None:
        telling.output.print(f"{busy}; waiting for it", style="yellow")

    with files.exclusive(
        REAL_TIME_LOCK,
        f"{busy}; wait for it, or use --machine sim",
        tell if waits else None,
    ):
        yield


@contextlib.contextmanager
def disk(given: argparse.Namespace, machine: str) -> Iterator[host.Held | None]:
    """Hold the disk of --machine host, and yield the disk; yield None for other machines.

    For host, first restore the disks that earlier experiments left changed.
    """
    if not machines.kind(machine).is_here:
        if given.allow_write:
            raise RequestError("--allow-write is for --machine host: no other has anything to lose")
        yield None
        return
    host.require_root()
    tools.require(tools.RUN_ON_HOST)
    for told in putback.recover():
        telling.error.print(f"triage: {told}", style="yellow")
    if given.kernel not in (None, "running", os.uname().release):
        raise RequestError(f"--kernel {given.kernel}: host runs {os.uname().release}, which is up")
    if given.device is None:
        raise RequestError("--machine host needs a disk to run on: add --device /dev/X")
    with host.held(disks.find(given.device), given.allow_write) as held:
        yield held
