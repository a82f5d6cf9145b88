# SPDX-License-Identifier: GPL-2.0-only
"""The command in a guest, where time is the guest's own: its figures against fio's, and causes
that were prepared."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from triagelab.ask import devices
from triagelab.plan.machine import Job
from triagelab.provision import kernels, modules
from triagelab.run import machines

from tests.triagectl import carried

SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq", "prio-basic", "prio-adaptive", "triage")
CAUSES = ("depth", "tag", "priority", "limit", "aging", "stall")

#: 5000 reads a second at most: a guest that simulates each takes long for more.
DEVICE = devices.find("flash", {"model.dies": "2", "model.read_ns": "400000", "device.depth": "16"})
SCRIPT = f"""\
#!/bin/sh -e
mount -t tracefs t /sys/kernel/tracing
{DEVICE.device_up}
device_up
modprobe gatedisk
{carried.COMMAND}
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guest's output."""
    folder = tmp_path_factory.mktemp("guest")
    scratch = tmp_path_factory.mktemp("compiled")
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    ours = tuple(sorted(modules.build(kernel).glob("*.ko")))
    files: dict[str, Path | str] = {**carried.files(scratch), "run": SCRIPT}
    outcome = asyncio.run(machines.make("sim", kernel).run(Job(files, ours), folder))
    assert outcome.status == 0, (folder / "console.log").read_text()[-3000:]
    return outcome.folder


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_tops_figures_are_fios(scheduler: str, guest: Path) -> None:
    (disk,) = read(guest / f"top-{scheduler}")["disks"]
    assert disk["scheduler"] == scheduler
    # Before its results fio says that it was told to end.
    said = (guest / f"fio-{scheduler}").read_text()
    jobs = {job["jobname"]: job["read"] for job in json.loads(said[said.index("{") :])["jobs"]}
    names = {"HIGH": "reader", "be": "reader", "LOW": "bulk", "idle": "bulk"}
    found = {names[row["class"]]: row for row in disk["classes"]}
    for name, row in found.items():
        percentiles = jobs[name]["clat_ns"]["percentile"]
        print(
            f"{scheduler} {name} timed {row['requests_timed']} IOPS {row['iops']:.0f} "
            f"{jobs[name]['iops']:.0f} P50 {row['total_p50_ns']} {percentiles['50.000000']} "
            f"P99 {row['total_p99_ns']} {percentiles['99.000000']}"
        )
    # The bulk job's rate changes while schedulers learn: fio measures longer than `top`.
    reader, by_fio = found["reader"], jobs["reader"]
    assert reader["iops"] == pytest.approx(by_fio["iops"], rel=0.1)
    median = by_fio["clat_ns"]["percentile"]["50.000000"]
    assert reader["total_p50_ns"] == pytest.approx(median, rel=0.05)


@pytest.mark.parametrize("case", CAUSES)
def test_explain_names_the_cause(case: str, guest: Path) -> None:
    (disk,) = read(guest / f"explain-{case}")["disks"]
    for one in disk["slowest"]:
        print({key: value for key, value in one.items() if key not in ("do", "sector", "write")})
    assert disk["slowest"][0]["cause"] == case


def test_nothing_is_left_behind(guest: Path) -> None:
    assert (guest / "instances").read_text() == ""
