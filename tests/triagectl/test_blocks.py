# SPDX-License-Identifier: GPL-2.0-only
"""Test that the percentiles of a block are of its own requests, on a simulated disk."""

import random
from collections.abc import Callable
from typing import cast

import pytest

from tests.triagectl import drifting
from tests.triagectl.machine import Machine
from triagectl import compare, trial
from triagectl.requests import Matcher, Request
from triagectl.ringbuffer import Event
from triagectl.sampling import Sampler
from triagectl.tracefs import Instance

#: The CPU time that the sampler takes for an event, in s, as measured.
EVENT_S = 3e-6
QUICK_S = 0.001


class Disk:
    """A disk with reads at regular times, and its trace; sleep() moves the clock.

    `took` returns how long a read takes, in s, from its number and the time when it comes. The
    scheduler keeps the read for nearly all of this time.
    """

    def __init__(self, iops: int, took: Callable[[int, float], float], rwbs: bytes = b"R") -> None:
        self.now = 0.0
        self.used = 0.0
        self.lost = 0
        self._gap_ns = 10**9 // iops
        self._took = took
        self._rwbs = rwbs
        self._count = 0
        self._on = False
        self._to_come: list[Event] = []
        self._buffer: list[Event] = []

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 1e-5)

    def record(self, on: bool) -> None:
        self._advance()
        self._on = on

    def read(self) -> list[Event]:
        self._advance()
        found, self._buffer = self._buffer, []
        self.used += EVENT_S * len(found)
        return found

    def _advance(self) -> None:
        """Put the events up to now into the buffer, or drop them if recording is off."""
        until = int(self.now * 1e9)
        while (at := self._count * self._gap_ns) < until:
            end = at + int(self._took(self._count, at / 1e9) * 1e9)
            sector = self._count * 8
            self._to_come += [
                (at, "block_bio_queue", 1, 1, sector, 8, self._rwbs, b"x"),
                (end - 1, "block_rq_issue", 1, 1, sector, 8, 0, self._rwbs, b"x"),
                (end, "block_rq_complete", 0, 1, sector, 8),
            ]
            self._count += 1
        self._to_come.sort(key=lambda event: event[0])
        if self._on:
            self._buffer += [event for event in self._to_come if event[0] < until]
        self._to_come = [event for event in self._to_come if event[0] >= until]


def meter(
    disk: Disk, block_s: float, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> trial.Meter:
    monkeypatch.setattr("time.monotonic", lambda: disk.now)
    sampler = Sampler(
        cast(Instance, disk),
        Matcher({}, lambda _: None),
        clock=lambda: disk.now,
        cpu=lambda: disk.used,
        sleep=disk.sleep,
    )
    return trial.Meter(machine.disk(), sampler, block_s)


@pytest.mark.parametrize("iops", [100, 1000, 5000])
def test_a_block_does_not_count_requests_of_the_wait_before_it(
    iops: int, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of settings empties the device and the caches, so requests are slow after it."""
    disk = Disk(iops, lambda _, at: 0.4 if at % 10 < 2.5 else QUICK_S)
    blocks = meter(disk, 7.0, machine, monkeypatch)
    for number in range(4):
        disk.sleep(number * 10 + 3 - disk.now)
        assert blocks.block().figures["read P99"] == pytest.approx(QUICK_S * 1e9)


@pytest.mark.parametrize(("iops", "held_s"), [(150, 8), (300, 8), (300, 30)])
def test_settings_that_hold_requests_until_they_change_are_worse(
    iops: int, held_s: float, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tried settings hold every tenth request until the old ones return, `held_s` at most."""
    seconds = 120.0
    order = trial.drawn(trial.pairs_in(seconds), random.Random(1))
    length = trial.block_length(seconds)
    every = length + trial._SETTLE_S

    def took(number: int, at: float) -> float:
        block = min(int(at / every), len(order) - 1)
        if not order[block] or number % 10:
            return QUICK_S
        change = next((n for n in range(block, len(order)) if not order[n]), len(order)) * every
        return max(QUICK_S, min(held_s, change + 0.05 - at))

    disk = Disk(iops, took)
    measures = meter(disk, length, machine, monkeypatch)
    blocks = []
    for number in range(len(order)):
        disk.sleep(number * every + trial._SETTLE_S - disk.now)
        blocks.append(measures.block())
    (p99,) = (one for one in trial.judged(order, blocks) if one.name == "read P99")
    assert p99.answer == "worse"
    assert p99.ratio > 1000


def test_a_fast_disk_gives_up_what_waits_for_longer_than_a_window(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a fast disk the sampler pauses, and follows no request for longer than 1 s."""
    disk = Disk(20_000, lambda number, _: 60 if number % 10 == 0 else QUICK_S)
    figures = meter(disk, 4.0, machine, monkeypatch).block().figures
    assert figures["read P99"] > 0.9e9


def add_discards(disk: Disk, merged: bool) -> None:
    """Add a discard every 50 ms. It takes 40 ms; if `merged`, no event reports its end."""
    read = disk.read
    ends: list[Event] = []
    count = 0

    def with_discards() -> list[Event]:
        nonlocal count, ends
        found = read()
        until = int(disk.now * 1e9)
        while (count + 1) * 50_000_000 < until:
            count += 1
            at, sector = count * 50_000_000, 10**9 + count * 128
            found.append((at, "block_bio_queue", 1, 1, sector, 128, b"DS", b"x"))
            if not merged:
                found.append((at + 1, "block_rq_issue", 1, 1, sector, 128, 0, b"DS", b"x"))
                ends.append((at + 40_000_000, "block_rq_complete", 0, 1, sector, 128))
        found += [end for end in ends if end[0] < until]
        ends = [end for end in ends if end[0] >= until]
        return sorted(found, key=lambda event: event[0])

    disk.read = with_discards  # type: ignore[method-assign]


@pytest.mark.parametrize("merged", [True, False])
def test_discards_are_no_writes(
    merged: bool, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(300, lambda *_: QUICK_S, rwbs=b"W")
    add_discards(disk, merged)
    figures = meter(disk, 7.0, machine, monkeypatch).block().figures
    assert figures["write P99"] == pytest.approx(QUICK_S * 1e9)


class Fed:
    """Stands in for a sampler: each run sees 500 reads and 500 writes."""

    def __init__(self, machine: Machine) -> None:
        self.matcher = Matcher({}, lambda _: None)
        self._machine = machine

    def run(self, _: float) -> None:
        self._machine.file("sys/block/sda/stat", " ".join(["500"] * 17))
        for write in (False, True):
            for _ in range(500):
                request = Request(1, 0, 8, write, False, 1, b"x", queued=1, completed=1000)
                self.matcher.finished(request)

    def end(self) -> None:
        pass


def test_a_trial_has_no_more_figures_than_share_the_chance(machine: Machine) -> None:
    disk = machine.disk()
    figures = trial.Meter(disk, cast(Sampler, Fed(machine)), 1.0).block().figures
    assert list(figures) == list(drifting.FIGURES)
    assert len(figures) == compare.FIGURES
