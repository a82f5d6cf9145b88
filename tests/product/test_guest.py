# SPDX-License-Identifier: GPL-2.0-only
"""Tests of a guest: it returns its job's files, ends at its time limit, and always boots alike."""

import asyncio
from pathlib import Path

import pytest
from triagelab.plan.machine import GuestError, Job, Outcome
from triagelab.provision import kernels, modules
from triagelab.run import machines

from tests.product.product import qemus


def boot(script: str, folder: Path, limit_s: float = 120.0) -> Outcome:
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    ours = tuple(sorted(modules.build(kernel).glob("*.ko")))
    job = Job({"run": f"#!/bin/sh\n{script}\n"}, ours, time_limit_s=limit_s)
    machine = machines.make("sim", kernel)
    return asyncio.run(machine.run(job, folder))


def test_what_the_job_leaves_comes_back_with_its_status(tmp_path: Path) -> None:
    outcome = boot("echo hello > out/greeting; exit 7", tmp_path)
    assert outcome.status == 7
    assert (outcome.folder / "greeting").read_text() == "hello\n"
    assert "Linux version" in (outcome.folder / "dmesg.log").read_text()


def test_a_guest_that_hangs_is_stopped_at_its_limit(tmp_path: Path) -> None:
    with pytest.raises(GuestError, match="stopped after 30 s"):
        boot("echo spinning; while :; do :; done", tmp_path, limit_s=30)
    assert "spinning" in (tmp_path / "console.log").read_text()
    assert not qemus(tmp_path)


def test_a_request_that_does_not_come_back_ends_the_run(tmp_path: Path) -> None:
    """If the device keeps a request, the sampler ends with status 75 after 60 s of guest time."""
    outcome = boot(
        """
        modprobe gatedisk
        echo hold > /sys/kernel/debug/gatedisk/gate
        sampler gatedisk0 out fio --name=lost --filename=/dev/gatedisk0 \
            --rw=randread --direct=1 --ioengine=libaio --time_based --runtime=1
        status=$?
        echo open > /sys/kernel/debug/gatedisk/gate
        exit $status
        """,
        tmp_path,
    )
    assert outcome.status == 75


def test_boots_side_by_side_on_a_busy_computer_are_the_same_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six guests, each restored from its own saved state, print the same kernel log and figures.

    Even the times of the kernel's timers are equal to the nanosecond.
    """
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    machine = machines.make("sim", kernel)
    tell = "cd /proc && cat timer_list stat vmstat slabinfo interrupts buddyinfo > /job/out/all"
    job = Job({"run": f"#!/bin/sh\n{tell}\n"})

    async def saved_here(_: machines.Qemu, job: Job, folder: Path) -> Path:
        await machine.save(job, folder, folder / "state")
        return folder / "state"

    async def boots() -> list[tuple[bytes, bytes]]:
        every = [machine.run(job, tmp_path / str(n)) for n in range(6)]
        outs = [outcome.folder for outcome in await asyncio.gather(*every)]
        return [((out / "dmesg.log").read_bytes(), (out / "all").read_bytes()) for out in outs]

    monkeypatch.setattr(machines.Qemu, "_saved", saved_here)
    assert len(set(asyncio.run(boots()))) == 1
