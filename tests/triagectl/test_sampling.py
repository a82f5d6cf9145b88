# SPDX-License-Identifier: GPL-2.0-only
"""Test that sampling keeps to its CPU limit at any load, and does not prefer fast requests."""

import random
from typing import cast

import pytest

from triagectl.requests import Matcher, Request
from triagectl.ringbuffer import Event
from triagectl.sampling import Sampler
from triagectl.tracefs import Instance

#: The measured CPU time of an event and of a window (one period of recording), in s.
EVENT_S, WINDOW_S = 3e-6, 2e-3


class Disk:
    """A disk with requests at regular times, and its trace; sleep() moves the clock."""

    def __init__(self, iops: float, slow_ns: int = 0) -> None:
        self.now = 0.0
        self.used = 0.0
        self.lost = 0
        self.lose_once = False
        self._next = 0
        self._gap_ns = int(1e9 / iops)
        self._slow_ns = slow_ns
        self._on = False
        self._ends: list[tuple[int, int]] = []

    def hurry(self, iops: float) -> None:
        """Change the rate of the requests."""
        self._gap_ns = int(1e9 / iops)
        self._next = int(self.now * 1e9 / self._gap_ns) + 1

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 1e-5)

    def record(self, on: bool) -> None:
        if on and not self._on:
            self.used += WINDOW_S
            self._next = int(self.now * 1e9 / self._gap_ns) + 1
            self._ends = []
        self._on = on

    def read(self) -> list[Event]:
        until = int(self.now * 1e9)
        found: list[Event] = []
        while self._on and self._next * self._gap_ns < until:
            at, sector = self._next * self._gap_ns, self._next * 8
            # Every tenth request is slow, if `slow_ns` is set.
            took = self._slow_ns if self._slow_ns and self._next % 10 == 0 else 50_000
            found.append((at, "block_bio_queue", 1, 1, sector, 8, b"R", b"x"))
            found.append((at + 1, "block_rq_issue", 1, 1, sector, 8, 0, b"R", b"x"))
            self._ends.append((at + took, sector))
            self._next += 1
        done = [end for end in self._ends if end[0] < until]
        self._ends = [end for end in self._ends if end[0] >= until]
        found += [(at, "block_rq_complete", 0, 1, sector, 8) for at, sector in done]
        self.used += EVENT_S * len(found)
        if self.lose_once and any(sector % 80 == 0 for _, sector in done):
            # One of the lost events is the end of a slow request whose start was read before.
            self.lose_once = False
            self.lost += 1
            return []
        return sorted(found, key=lambda event: event[0])


def sampled(disk: Disk, seconds: float, interval: float = 2) -> tuple[Sampler, list[Request]]:
    random.seed(1)
    done: list[Request] = []
    matcher = Matcher({}, done.append)
    sampler = Sampler(
        cast(Instance, disk),
        matcher,
        clock=lambda: disk.now,
        cpu=lambda: disk.used,
        sleep=disk.sleep,
    )
    while disk.now < seconds:
        sampler.run(disk.now + interval)
    return sampler, done


@pytest.mark.parametrize("interval", [0.5, 2])
@pytest.mark.parametrize("iops", [100, 5_000, 50_000, 500_000])
def test_the_limit_holds_at_any_load(iops: float, interval: float) -> None:
    disk = Disk(iops)
    _, done = sampled(disk, 10, interval)
    # 0.03 s: CPU time that may be used in advance, and a window whose pause is still to come.
    assert disk.used < 0.015 * disk.now + 0.03
    assert len(done) > 900


@pytest.mark.parametrize("quiet_s", [0, 1200])
def test_quiet_time_is_not_saved_up_for_a_burst(quiet_s: float) -> None:
    disk = Disk(5)
    sampler, _ = sampled(disk, quiet_s)
    disk.hurry(50_000)
    began, used = disk.now, disk.used
    while disk.now < began + 10:
        sampler.run(disk.now + 2)
    # The limit of the test above, plus the CPU time of 1 s of quiet, and of the first 0.1 s of the
    # burst: the window that is open when the burst begins may be that long.
    first = 0.1 * 50_000 * 3 * EVENT_S
    assert disk.used - used < 0.015 * (disk.now - began + 1) + 0.03 + first


def test_a_request_has_its_age_at_the_end_of_the_recording() -> None:
    """Reading the last events takes time, which must not count as a wait of the request."""
    disk = Disk(100, slow_ns=10**12)
    sampler, _ = sampled(disk, 1)
    given_up: list[Request] = []
    sampler.matcher.gave_up = given_up.append
    stopped = disk.now
    read = disk.read

    def slowly() -> list[Event]:
        found = read()
        disk.now += 3
        return found

    disk.read = slowly  # type: ignore[method-assign]
    sampler.end()
    assert given_up
    assert {one.until for one in given_up} == {int(stopped * 1e9)}


def test_where_opening_a_window_takes_long_requests_are_seen_all_the_same() -> None:
    """Opening one window takes more CPU time here than the limit allows for the whole run."""
    disk = Disk(200)
    record = disk.record

    def slowly(on: bool) -> None:
        if on:
            disk.used += 0.3
            disk.now += 0.3
        record(on)

    disk.record = slowly  # type: ignore[method-assign]
    _, done = sampled(disk, 1, interval=1)
    assert len(done) >= 200 * 0.29


def test_a_window_that_took_long_to_open_stays_short() -> None:
    """On a fast disk, a long window has more events than the buffer holds and the limit allows.

    The test opens two windows. The length of the second follows from the events of the first.
    """
    disk = Disk(500_000)
    lengths = []
    sleep, record = disk.sleep, disk.record

    def slowly(on: bool) -> None:
        if on:
            disk.now += 1
        record(on)

    def noted(seconds: float) -> None:
        lengths.append(seconds)
        sleep(seconds)

    disk.record = slowly  # type: ignore[method-assign]
    disk.sleep = noted  # type: ignore[method-assign]
    sampler, _ = sampled(disk, 0)
    for _ in range(2):
        sampler._window(disk.now + 10)
    assert max(lengths) <= 0.1
    assert sampler._slice == 0.002


def test_on_a_slow_disk_every_request_is_seen() -> None:
    disk = Disk(200)
    _, done = sampled(disk, 20)
    assert len(done) >= 200 * 20 * 0.98


def test_slow_requests_are_seen_as_often_as_they_come() -> None:
    disk = Disk(50_000, slow_ns=30_000_000)
    _, done = sampled(disk, 16)
    slow = sum(1 for one in done if one.served > 1_000_000)
    assert len(done) > 2500
    assert 0.085 <= slow / len(done) <= 0.115


def test_with_context_what_comes_behind_a_window_is_seen_too() -> None:
    """With context, new requests are followed until the window's last request is done."""
    slow = 30_000_000
    counts = []
    for context in (False, True):
        disk = Disk(5_000, slow_ns=slow)
        done: list[Request] = []
        sampler = Sampler(
            cast(Instance, disk),
            Matcher({}, done.append),
            clock=lambda disk=disk: disk.now,  # type: ignore[misc]
            cpu=lambda disk=disk: disk.used,  # type: ignore[misc]
            sleep=disk.sleep,
            context=context,
        )
        sampler.run(0.01)
        sampler._close()
        counts.append(len(done))
    assert counts[0] <= 60
    assert counts[1] >= 140


def test_a_loss_leaves_no_request_that_never_ends() -> None:
    disk = Disk(50_000, slow_ns=30_000_000)
    sampler, _ = sampled(disk, 2)
    disk.lose_once = True
    given_up: list[Request] = []
    sampler.matcher.gave_up = given_up.append
    for _ in range(3):
        sampler.run(disk.now + 2)
    assert disk.lost == 1
    assert not given_up
