# SPDX-License-Identifier: GPL-2.0-only
"""Test triagectl in a guest with virtual time.

`top` agrees with fio, and `explain` finds the cause that in_guest.py has prepared.
"""

import asyncio
import bisect
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
#: Under these schedulers, in_guest.py also runs `top` with the CPU limit that users have.
SAMPLED = ("none", "triage")
CAUSES = ("depth", "tag", "priority", "limit", "aging", "stall")

#: A disk of 5000 reads a second at most, because simulating each read takes long. Large reads take
#: no longer than small ones, so that a request waits mostly for its turn, not in the device.
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

#: fio reads the clock when it handles an answer, and handles its jobs' answers one after the other.
#: So its latency of a request may be longer than that of `top`, by up to this much, in ns: where
#: `top` had 99 % of the reader's requests at 422 us, fio had them at 423 to 448.
HANDLED_NS = 30_000
#: A job with fewer requests is not compared: one or two of them would decide its P99.
ENOUGH = 500
MS = 1_000_000


def log(guest: Path, scheduler: str, job: str) -> list[tuple[int, int]]:
    """Return when each of fio's requests completed, in whole ms, and its latency in ns."""
    number = ("reader", "bulk").index(job) + 1
    lines = (guest / f"{scheduler}_clat.{number}.log").read_text().splitlines()
    return [(int(at), int(ns)) for at, ns in (line.split(",")[:2] for line in lines)]


def within(entries: list[tuple[int, int]], when: Any) -> list[int]:
    """Return the latencies of requests that completed while `top` recorded, in ns."""
    began, recorded = when["began"] * 1000, when["windows"][-1][-1] / MS
    return [ns for at, ns in entries if began <= at < recorded]


def timed(entries: list[tuple[int, int]], when: Any) -> tuple[list[int], list[int]]:
    """Return the latencies of requests that `top` timed for sure, and of those it may have timed.

    `top` times the requests that begin in its windows and complete before it ends. A time in fio's
    log is the sum of two that are cut to whole ms: when the job began, and how much later a request
    completed. So the log does not tell whether `top` timed a request at the edge of a window.
    """
    last = when["windows"][-1][-1]
    sure, unsure = [], []
    for at, ns in entries:
        early, late = at * MS - HANDLED_NS, (at + 2) * MS
        for opening, opened, until in when["windows"]:
            if opened <= early - ns and late - ns <= until and late <= last:
                sure.append(ns)
                break
            if opening <= late - ns and early - ns <= until and early <= last:
                unsure.append(ns)
                break
    return sure, unsure


def compared(guest: Path, scheduler: str, name: str) -> dict[str, Figures]:
    """Return each job's figures by `top`, and by fio's log of the same requests."""
    told, when = read(guest / f"top-{name}"), read(guest / f"when-{name}")
    (disk,) = told["disks"]
    assert disk["scheduler"] == scheduler
    classes = {"HIGH": "reader", "be": "reader", "LOW": "bulk", "idle": "bulk"}
    rows = {classes[row["class"]]: row for row in disk["classes"]}
    found = {}
    for job in ("reader", "bulk"):
        entries = log(guest, scheduler, job)
        if len(within(entries, when)) < ENOUGH:
            continue
        row = rows[job]
        sure, unsure = timed(entries, when)
        # For its rates `top` counts requests until it has read the last recorded events.
        began, ended = when["began"], when["ended"]
        rate = sum(began * 1000 <= at < ended * 1000 for at, _ in entries) / (ended - began)
        found[job] = {
            "timed": (row["requests_timed"], len(sure), len(sure) + len(unsure)),
            "iops": (row["iops"], rate, rate),
            "p50": (row["total_p50_ns"], *bounds(sure, unsure, 50)),
            "p99": (row["total_p99_ns"], *bounds(sure, unsure, 99)),
        }
        print(name, job, f"sampled {told['sampled']:.2f}", found[job])
    return found


def bounds(sure: list[int], unsure: list[int], percent: int) -> tuple[int, int]:
    """Return the least and the largest latency that `top` may have as a percentile.

    Try the `sure` requests with each number of the fastest and of the slowest `unsure` ones. Allow
    one rank below and above, and for the least latency HANDLED_NS less.
    """
    unsure = sorted(unsure)
    ranks = []
    for count in range(len(unsure) + 1):
        for some in (unsure[:count], unsure[len(unsure) - count :]):
            times = sorted(sure + some)
            rank = len(times) * percent // 100
            ranks += [times[rank - 1], times[min(rank + 1, len(times) - 1)]]
    return min(ranks) - HANDLED_NS, max(ranks)


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
    for job, figures in found.items():
        by_top, least, most = figures["timed"]
        assert by_top is not None and least <= by_top <= most, f"{job}'s requests"
        agree(figures, "iops", "p50", "p99")


@pytest.mark.parametrize("scheduler", SAMPLED)
def test_a_samples_figures_are_fios(scheduler: str, guest: Path) -> None:
    """With its CPU limit `top` measures fewer than half of the requests, and still agrees with fio.

    Its percentiles are those of the measured requests in fio's log, its IOPS those of all. Its P50
    is also that of all requests. Its P99, if it has one, is slower than at least 97 % of all. This
    bound is wide, because a sample has whole windows of time: in one run the slowest 20 of 3740
    requests came within 15 ms, in one of 7 windows.
    """
    name = f"{scheduler}-sampled"
    when = read(guest / f"when-{name}")
    found = compared(guest, scheduler, name)
    assert found["reader"]["p99"][0] is not None
    for job, figures in found.items():
        everything = sorted(within(log(guest, scheduler, job), when))
        by_top, least, most = figures["timed"]
        assert by_top is not None and least <= by_top <= most, f"{job}'s requests"
        assert 300 < by_top < len(everything) / 2, job
        agree(figures, "iops", "p50")
        agree({"p50": (figures["p50"][0], *bounds(everything, [], 50))}, "p50")
        p99 = figures["p99"][0]
        if p99 is not None:
            agree(figures, "p99")
            faster = bisect.bisect(everything, p99 + HANDLED_NS) / len(everything)
            assert faster >= 0.97, f"{job}'s P99 is faster than {1 - faster:.1%} of the requests"


def test_top_makes_nothing_late(guest: Path) -> None:
    """`top` takes the CPU for milliseconds at a time, but fio does not have to wait for it.

    The scheduler is none, under which no request of this load is slow by itself.
    """
    for job in ("reader", "bulk"):
        entries = log(guest, "none", job)
        alone = sorted(within(entries, read(guest / "when-none")))
        beside = within(entries, read(guest / "when-none-sampled"))
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
