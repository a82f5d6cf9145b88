# SPDX-License-Identifier: GPL-2.0-only
"""Test the figures of `top`, its screen, and its output as JSON and for Prometheus."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.triagectl.machine import Machine
from triagectl import counters, prometheus, top
from triagectl.counters import Counts
from triagectl.errors import CtlError, RequestError
from triagectl.ioprio import BE, IDLE, Priority
from triagectl.processes import Process, Table
from triagectl.requests import Request
from triagectl.usage import Usage

DEV = 8 << 20


class People(Table):
    """A table that knows three threads of two processes."""

    def of(self, tid: int, comm: bytes) -> Process:
        return {
            1: Process(100, "postgres", Priority(BE, 1)),
            2: Process(200, "restic-with-a-long-name", Priority(IDLE, 0)),
            3: Process(200, "restic-with-a-long-name", Priority(IDLE, 0)),
        }[tid]


def view(machine: Machine, scheduler: str = "triage", count: int = 1000) -> dict[str, Any]:
    disk = machine.disk(schedulers=f"[{scheduler}] none", be_high_max=2, be_low_min=6)
    inside = {DEV: Counter({2: 3, 3: 1})}
    usage = Usage(People(machine.system), {DEV: (scheduler, disk.tunables)}, inside, 5)
    for number in range(count):
        for tid, waits, serves in ((1, 10_000, 90_000), (2, 5_000_000, 400_000)):
            one = Request(DEV, 8 * number, 8 * tid, False, True, tid, b"x", 1)
            one.issued = one.queued + waits
            one.completed = one.issued + serves
            usage.issued(one)
            usage.finished(one)
    counts = Counts(40_000, 40_000 * 6144, 0, 0, 0, 0, 4, 2000)
    return top.view(machine.system, disk, counts, 2.0, usage)


def test_counts_are_exact_and_shared_as_sampled(machine: Machine) -> None:
    found = view(machine)
    assert found["iops"] == 20_000
    high, low = found["classes"]
    assert (high["class"], low["class"]) == ("HIGH", "LOW")
    assert high["iops"] == low["iops"] == 10_000
    assert high["bytes_per_s"] * 2 == pytest.approx(low["bytes_per_s"])
    assert high["bytes_per_s"] + low["bytes_per_s"] == found["read_bytes_per_s"]
    assert (high["queue_p50_ns"], high["device_p99_ns"]) == (10_000, 90_000)


def test_whom_a_process_waits_behind(machine: Machine) -> None:
    postgres = next(one for one in view(machine)["processes"] if one["name"] == "postgres")
    assert postgres["behind"] == [{"pid": 200, "name": "restic-with-a-long-name", "requests": 4.0}]


@pytest.mark.parametrize(
    ("scheduler", "classes"), [("triage", ["HIGH", "LOW"]), ("none", ["be", "idle"])]
)
def test_classes_are_the_schedulers(scheduler: str, classes: list[str], machine: Machine) -> None:
    assert [one["class"] for one in view(machine, scheduler)["classes"]] == classes


DEPTH = "pressed 1\nbudget 131039\nbulk 130000\nurgent 0\ntarget 0\njudged 9\nlate 1\n"


def test_an_interval_within_a_pause_is_told() -> None:
    assert "every 0.5 s, none timed: this was a pause" in top.rendered([], {"sampled": 0.0}, 0.5)


def test_the_screen_has_80_columns(machine: Machine) -> None:
    folder = "sys/kernel/debug/block/sda/sched"
    for name, text in {"depth": DEPTH, "queued": "0 31 2", "in_flight": "1 1 0"}.items():
        machine.file(f"{folder}/{name}", text)
    text = top.rendered([view(machine)], {"sampled": 0.05}, 2.0)
    assert max(map(len, text.splitlines())) <= 80
    assert "timed 1 moment in 20" in text
    assert "bulk held to 131us, has 130us" in text
    assert "queued 0/31/2" in text


def test_prometheus(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "triagectl.prom"
    prometheus.write(path, [view(machine)])
    lines = path.read_text().splitlines()
    assert 'triagectl_disk_iops{disk="sda"} 20000' in lines
    wanted = 'triagectl_class_seconds{disk="sda",class="HIGH",part="device",quantile="0.99"} 9e-05'
    assert wanted in lines
    assert not list(tmp_path.glob("*.part"))
    assert not any("postgres" in line for line in lines)
    # Each metric has one TYPE line.
    heads = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))


def test_prometheus_follows_no_link_that_another_user_made(
    machine: Machine, tmp_path: Path
) -> None:
    """The folder may belong to another user, who can guess the PID of root's process."""
    (tmp_path / "folder").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    path = tmp_path / "folder/triage.prom"
    for link in (path, path.with_suffix(f".{os.getpid()}.part")):
        link.symlink_to(victim)
    prometheus.write(path, [view(machine)])
    assert victim.read_text() == "mine"
    assert path.stat().st_mode & 0o777 == 0o644
    assert not path.is_symlink()


@pytest.mark.parametrize("error", [OSError(5, "no space"), KeyboardInterrupt()])
def test_prometheus_leaves_no_scratch(
    error: BaseException, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise error

    found = view(machine)
    monkeypatch.setattr(os, "fchmod", fails)
    (tmp_path / "folder").mkdir()
    with pytest.raises((CtlError, KeyboardInterrupt)):
        prometheus.write(tmp_path / "folder/triage.prom", [found])
    assert not list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize("name", ["x.txt", "missing/x.prom"])
def test_a_file_that_no_collector_reads(name: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError):
        prometheus.check(tmp_path / name)


def test_json_can_be_read(machine: Machine) -> None:
    assert json.loads(json.dumps(view(machine, count=10)))["classes"][0]["queue_p99_ns"] is None


def test_a_disk_that_is_pulled_has_no_negative_rates(machine: Machine) -> None:
    disk = machine.disk()
    machine.file("sys/block/sda/stat", " ".join(["5"] * 17))
    before = counters.of(disk)
    (machine.root / "sys/block/sda/stat").unlink()
    after = counters.of(disk).since(before)
    assert (after.requests, after.bytes, after.busy_ms, after.in_flight) == (0, 0, 0, 0)
