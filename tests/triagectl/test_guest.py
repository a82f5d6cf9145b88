# SPDX-License-Identifier: GPL-2.0-only
"""The command in a guest, where time is the guest's own: its figures against fio's, and causes
that were prepared."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from triagelab import devices, kernels, machines, modules

from tests.triagectl import carried

SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq", "prio-basic", "prio-adaptive", "triage")
DISK = "md0"

JOB = """\
[global]
filename=/dev/md0
direct=1
ioengine=libaio
time_based=1
runtime=3
[reader]
rw=randread
bs=4k
iodepth=2
rate_iops=1000
prioclass=2
prio=1
[bulk]
rw=randread
bs=32k
iodepth=8
rate_iops=600
prioclass=3
"""

#: A file for each prepared case: name, what is set up, the victim's job and the others'.
CASES = {
    "depth": ("none", "", "--bs=4k --iodepth=1", "--bs=128k --iodepth=64"),
    "tag": ("mq-deadline", "nr_requests=8", "--bs=4k --iodepth=1", "--bs=128k --iodepth=64"),
    "priority": (
        "triage",
        "",
        "--bs=64k --iodepth=4 --prioclass=3",
        "--bs=64k --iodepth=32 --prioclass=2 --prio=0",
    ),
    "limit": (
        "triage",
        "iosched/limit_iops_low=20",
        "--bs=4k --iodepth=4 --prioclass=3",
        "--bs=4k --iodepth=1",
    ),
    "aging": (
        "triage",
        "iosched/aging_expire_low=1 iosched/aging_expire_normal=1",
        "--bs=64k --iodepth=8 --prioclass=2 --prio=0",
        "--bs=64k --iodepth=128 --prioclass=3",
    ),
}


def script() -> str:
    """What the guest does."""
    lines = [
        "#!/bin/sh -e",
        "mount -t tracefs t /sys/kernel/tracing",
        devices.find("flash", {}).device_up,
        "device_up",
        f'ctl() {{ {carried.COMMAND} "$@"; }}',
        f"queue=/sys/block/{DISK}/queue",
        f"job() {{ fio --filename=/dev/{DISK} --direct=1 --ioengine=libaio --rw=randread "
        '--time_based --runtime=60 "$@" > /dev/null & }',
    ]
    for scheduler in SCHEDULERS:
        lines += [
            f"echo {scheduler} > $queue/scheduler",
            f"fio --output=out/fio-{scheduler} --output-format=json job.fio &",
            "sleep 0.3",
            f"ctl top {DISK} --interval 1.5 --count 1 --json > out/top-{scheduler}",
            "wait",
        ]
    for name, (scheduler, settings, victim, others) in CASES.items():
        lines += [
            f"echo {scheduler} > $queue/scheduler",
            *(
                f"echo {value} > $queue/{key}"
                for key, value in (one.split("=") for one in settings.split())
            ),
            f"job --name=others {others}",
            "others=$!",
            f"job --name=victim {victim}",
            "sleep 0.3",
            # fio's jobs are children of the process that was started.
            "victim=$(cat /proc/$!/task/$!/children)",
            f"ctl explain {DISK} --for 0.5 --json --pid $victim > out/explain-{name}",
            "kill $! $others",
            "wait || :",
            "echo none > $queue/scheduler",
        ]
    lines += [
        "modprobe gatedisk",
        "fio --name=stuck --filename=/dev/gatedisk0 --direct=1 --ioengine=libaio --rw=randread "
        "--iodepth=4 --rate_iops=200 --time_based --runtime=2 > /dev/null &",
        "sleep 0.2",
        "(sleep 1.2; echo hold > /sys/kernel/debug/gatedisk/gate; sleep 0.4; "
        "echo open > /sys/kernel/debug/gatedisk/gate) &",
        "ctl explain gatedisk0 --for 2 --json > out/explain-stall",
        "wait",
        "ls /sys/kernel/tracing/instances > out/instances",
    ]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the guest leaves."""
    folder = tmp_path_factory.mktemp("guest")
    scratch = tmp_path_factory.mktemp("compiled")
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    ours = tuple(sorted(modules.build(kernel).glob("*.ko")))
    files: dict[str, Path | str] = {**carried.files(scratch), "run": script(), "job.fio": JOB}
    outcome = asyncio.run(machines.make("sim", kernel).run(machines.Job(files, ours), folder))
    assert outcome.status == 0, (folder / "console.log").read_text()[-3000:]
    return outcome.folder


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_tops_figures_are_fios(scheduler: str, guest: Path) -> None:
    (disk,) = read(guest / f"top-{scheduler}")["disks"]
    assert disk["scheduler"] == scheduler
    jobs = {job["jobname"]: job["read"] for job in read(guest / f"fio-{scheduler}")["jobs"]}
    found = {of["class"]: of for of in disk["classes"]}
    names = {"HIGH": "reader", "be": "reader", "LOW": "bulk", "idle": "bulk"}
    assert {names[of] for of in found} == {"reader", "bulk"}
    for of, row in found.items():
        job = jobs[names[of]]
        print(
            scheduler,
            names[of],
            row["requests_timed"],
            "IOPS",
            round(row["iops"]),
            round(job["iops"]),
            "P50",
            row["total_p50_ns"],
            job["lat_ns"]["mean"],
            job["clat_ns"]["percentile"]["50.000000"],
            "P99",
            row["total_p99_ns"],
            job["clat_ns"]["percentile"]["99.000000"],
        )


@pytest.mark.parametrize("case", [*CASES, "stall"])
def test_explain_names_the_cause(case: str, guest: Path) -> None:
    (disk,) = read(guest / f"explain-{case}")["disks"]
    print(json.dumps(disk, indent=1)[:3000])
    assert disk["slowest"]
    assert case in {one["cause"] for one in disk["slowest"]}


def test_nothing_is_left_behind(guest: Path) -> None:
    assert (guest / "instances").read_text() == ""
