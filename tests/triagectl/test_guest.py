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
#: The schedulers under which in_guest.py also lets `top` sample.
SAMPLED = ("none", "triage")
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


Figures = dict[str, tuple[float, float]]


def compared(guest: Path, scheduler: str, name: str) -> dict[str, Figures]:
    """Return each job's figures, by `top` and by fio's log of the time in which `top` looked."""
    told = read(guest / f"top-{name}")
    (disk,) = told["disks"]
    assert disk["scheduler"] == scheduler
    began, ended = read(guest / f"when-{name}")
    classes = {"HIGH": "reader", "be": "reader", "LOW": "bulk", "idle": "bulk"}
    rows = {classes[row["class"]]: row for row in disk["classes"]}
    found = {}
    for number, job in enumerate(("reader", "bulk"), 1):
        lines = (guest / f"{scheduler}_clat.{number}.log").read_text().splitlines()
        entries = [tuple(map(int, line.split(",")[:2])) for line in lines]
        times = sorted(ns for at, ns in entries if began * 1000 <= at < ended * 1000)
        row = rows[job]
        found[job] = {
            "timed": (row["requests_timed"], len(times)),
            "iops": (row["iops"], len(times) / (ended - began)),
            "p50": (row["total_p50_ns"], times[len(times) // 2]),
            "p99": (row["total_p99_ns"], times[len(times) * 99 // 100]),
        }
        print(name, job, f"sampled {told['sampled']:.2f}", found[job])
    return found


def agree(figures: Figures, *names: str) -> None:
    for name in names:
        by_top, by_fio = figures[name]
        assert by_top == pytest.approx(by_fio, rel=0.05), name


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_tops_figures_are_fios(scheduler: str, guest: Path) -> None:
    """Without the limit of CPU time, so that every request is compared."""
    for job, figures in compared(guest, scheduler, scheduler).items():
        if (scheduler, job) == ("bfq", "bulk"):
            # bfq serves a dozen requests of class idle beside this reader.
            continue
        agree(figures, "timed", "iops", "p50")
        if (scheduler, job) == ("mq-deadline", "bulk"):
            # mq-deadline serves 50 requests a second of it, too few for a P99.
            continue
        assert figures["timed"][1] > 1800
        # `top` takes the guest's only CPU for milliseconds to read the events. A request that ends
        # meanwhile is late for fio alone, and among its slowest hundredth.
        # Under mq-deadline more of the reader's are: only the side on which `top` errs is known.
        by_top, by_fio = figures["p99"]
        least = figures["p50"][0] if scheduler == "mq-deadline" else by_fio * 0.6
        assert least < by_top < by_fio * 1.05


@pytest.mark.parametrize("scheduler", SAMPLED)
def test_a_sample_has_fios_rate_and_median(scheduler: str, guest: Path) -> None:
    """Within the limit of CPU time about 300 requests are timed: too few for a P99."""
    for job, figures in compared(guest, scheduler, f"{scheduler}-sampled").items():
        by_top, by_fio = figures["timed"]
        assert 200 < by_top < by_fio / 2, job
        agree(figures, "iops", "p50")


@pytest.mark.parametrize("case", CAUSES)
def test_explain_names_the_cause(case: str, guest: Path) -> None:
    (disk,) = read(guest / f"explain-{case}")["disks"]
    for one in disk["slowest"]:
        print({key: value for key, value in one.items() if key not in ("do", "sector", "write")})
    assert disk["slowest"][0]["cause"] == case


def test_nothing_is_left_behind(guest: Path) -> None:
    assert (guest / "instances").read_text() == ""
