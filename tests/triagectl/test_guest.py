# SPDX-License-Identifier: GPL-2.0-only
"""Test triagectl in a guest with virtual time.

`top` agrees with fio, and `explain` finds the cause that in_guest.py has prepared.
"""

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

#: A disk of 5000 reads a second at most: the guest simulates each read, which takes long. Large
#: reads are as quick as small ones, so that a request waits for its turn and not in the device.
DEVICE = devices.find(
    "flash",
    {
        **{"model.dies": "2", "model.read_ns": "400000", "device.depth": "16"},
        **{"model.read_full_ns": "0", "model.full_mbps": "0", "model.read_spread_pct": "0"},
    },
)
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
    """Run in_guest.py in a guest; return the folder of its output."""
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


#: A figure's name -> its value by `top`, and the least and the largest value that fio's log allows.
Figures = dict[str, tuple[float | None, float, float]]

#: The depths of the queues of in_guest.py's READER and BULK.
DEPTH = {"reader": 2, "bulk": 8}
#: fio reads the clock when it handles an answer, and handles its jobs' answers one after the other.
#: So its latency of a request may be longer than that of `top`, by up to this much, in ns: where
#: `top` had 99 % of the reader's requests at 422 us, fio had them at 423 to 448.
HANDLED_NS = 30_000
#: A job with fewer requests is not compared: one or two of them would decide its P99.
ENOUGH = 500


def by_fio(guest: Path, scheduler: str, job: str, name: str) -> tuple[list[int], float]:
    """Return latencies of fio's requests that completed while `top` recorded, in ns, sorted.

    The second value is how many completed in a second until `top` had read what it recorded: its
    rates are of this time.
    """
    began, recorded, ended = read(guest / f"when-{name}")
    number = ("reader", "bulk").index(job) + 1
    lines = (guest / f"{scheduler}_clat.{number}.log").read_text().splitlines()
    entries = [tuple(map(int, line.split(",")[:2])) for line in lines]
    times = sorted(ns for at, ns in entries if began * 1000 <= at < recorded * 1000)
    until_read = sum(began * 1000 <= at < ended * 1000 for at, _ in entries)
    return times, until_read / (ended - began)


def compared(guest: Path, scheduler: str, name: str) -> dict[str, Figures]:
    """Return each job's figures by `top`, and by fio's log of the same time."""
    told = read(guest / f"top-{name}")
    (disk,) = told["disks"]
    assert disk["scheduler"] == scheduler
    classes = {"HIGH": "reader", "be": "reader", "LOW": "bulk", "idle": "bulk"}
    rows = {classes[row["class"]]: row for row in disk["classes"]}
    found = {}
    for job in ("reader", "bulk"):
        times, rate = by_fio(guest, scheduler, job, name)
        if len(times) < ENOUGH:
            continue
        row = rows[job]
        # `top` cannot time requests that wait as it begins: at most as many as the job's depth.
        apart = abs(len(times) - row["requests_timed"]) if told["sampled"] > 0.99 else 0
        assert apart <= DEPTH[job] + 1, f"{name}: {apart} of the {job}'s requests are missing"
        found[job] = {
            "timed": (row["requests_timed"], len(times), len(times)),
            "iops": (row["iops"], rate, rate),
            "p50": (row["total_p50_ns"], *beside(times, 50, apart)),
            "p99": (row["total_p99_ns"], *beside(times, 99, apart)),
        }
        print(name, job, f"sampled {told['sampled']:.2f}", found[job])
    return found


def beside(times: list[int], percent: int, apart: int) -> tuple[int, int]:
    """Return the least and the largest latency that `top` may have as a percentile.

    They are fio's, `apart` + 1 ranks below and above; the least is without the time HANDLED_NS.

    `top` and fio saw nearly the same requests: they differ by one at either end, and by `apart`
    more. In a steep tail, two neighbours in rank differ by more than agree() allows.
    """
    rank = len(times) * percent // 100
    return times[rank - 1 - apart] - HANDLED_NS, times[min(rank + 1 + apart, len(times) - 1)]


def agree(figures: Figures, *names: str) -> None:
    for name in names:
        by_top, least, most = figures[name]
        assert by_top is not None and least * 0.97 <= by_top <= most * 1.03, name


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_tops_figures_are_fios(scheduler: str, guest: Path) -> None:
    """`top` without a limit times every request, and its figures are those of fio's log."""
    found = compared(guest, scheduler, scheduler)
    # Beside this reader, mq-deadline and bfq let only a few dozen requests of class idle go.
    assert "reader" in found and ("bulk" in found or scheduler in ("mq-deadline", "bfq"))
    for figures in found.values():
        agree(figures, "timed", "iops", "p50", "p99")


@pytest.mark.parametrize("scheduler", SAMPLED)
def test_a_samples_figures_are_fios(scheduler: str, guest: Path) -> None:
    """Within its CPU limit `top` times less than half of the requests. Its figures are fio's."""
    found = compared(guest, scheduler, f"{scheduler}-sampled")
    assert found["reader"]["p99"][0] is not None
    for job, figures in found.items():
        timed, all_of_them, _ = figures["timed"]
        assert timed is not None and 300 < timed < all_of_them / 2, job
        agree(figures, "iops", "p50")
        if figures["p99"][0] is not None:
            agree(figures, "p99")


def test_top_makes_nothing_late(guest: Path) -> None:
    """`top` takes the CPU for milliseconds at a time, but fio does not have to wait for it.

    The scheduler is none, under which no request of this load is slow by itself.
    """
    for job in ("reader", "bulk"):
        alone, _ = by_fio(guest, "none", job, "none")
        beside, _ = by_fio(guest, "none", job, "none-sampled")
        late = [ns for ns in beside if ns > 1.5 * alone[-1]]
        print(job, f"slowest alone {alone[-1]} ns, late beside top: {late}")
        assert len(late) <= 3


@pytest.mark.parametrize("case", CAUSES)
def test_explain_names_the_cause(case: str, guest: Path) -> None:
    (disk,) = read(guest / f"explain-{case}")["disks"]
    for one in disk["slowest"]:
        print({key: value for key, value in one.items() if key not in ("do", "sector", "write")})
    assert disk["slowest"][0]["cause"] == case


def test_nothing_is_left_behind(guest: Path) -> None:
    assert (guest / "instances").read_text() == ""
