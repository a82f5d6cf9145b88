# SPDX-License-Identifier: GPL-2.0-only
"""Test how `triagectl try` measures: in pairs of blocks of one length, with bounded memory."""

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.triagectl.machine import Machine
from triagectl import sysfs, times, trial, wayback
from triagectl.errors import CtlError
from triagectl.requests import Matcher, Request
from triagectl.sampling import Sampler
from triagectl.system import System
from triagectl.times import Sample, Times


@pytest.mark.parametrize("seconds", [48, 50.5, 120, 199, 200, 86400])
def test_all_blocks_have_one_length(
    seconds: float, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A P99 of a shorter block varies more, which would look like an effect of the settings."""
    slept: list[float] = []
    monkeypatch.setattr(wayback, "start_keeper", lambda *_: None)
    monkeypatch.setattr("time.sleep", lambda of: slept.append(of) if of else None)
    machine.disk(fifo_batch=16)
    trial.run(machine.system, trial.Options("sda", None, {"fifo_batch": "9"}, seconds))
    waits, blocks = slept[::2], slept[1::2]
    assert set(waits) == {3.0}
    assert len(set(blocks)) == 1
    assert len(blocks) in (24, 40)
    assert sum(slept) == pytest.approx(2 * seconds)
    assert blocks[0] >= 1


@dataclass
class Disk:
    """Gives each block one figure, by the settings that the disk has during the block."""

    machine: Machine
    monkeypatch: pytest.MonkeyPatch
    values: list[str] = field(default_factory=list)
    rates: dict[str, float] = field(default_factory=lambda: {"16": 100.0, "9": 100.0})
    at_block: dict[int, Callable[[], object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.disk = self.machine.disk(fifo_batch=16)
        self.monkeypatch.setattr(wayback, "start_keeper", lambda *_: None)
        self.monkeypatch.setattr("time.sleep", lambda _: None)
        self.monkeypatch.setattr(trial.Meter, "block", self.block)

    def block(self) -> trial.Block:
        self.at_block.get(len(self.values), lambda: None)()
        self.values.append(self.disk.tunables["fifo_batch"])
        return trial.Block({"requests/s": self.rates[self.values[-1]]})

    def run(self) -> int:
        options = trial.Options("sda", None, {"fifo_batch": "9"}, 48, json=True)
        return trial.run(self.machine.system, options)


@pytest.fixture
def disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(machine, monkeypatch)


def test_each_pair_has_both_settings(disk: Disk) -> None:
    assert disk.run() == 0
    pairs = list(zip(disk.values[::2], disk.values[1::2], strict=True))
    assert len(pairs) == 12
    assert {frozenset(pair) for pair in pairs} == {frozenset({"16", "9"})}
    assert disk.disk.tunables == {"fifo_batch": "16"}


@pytest.mark.parametrize(
    ("rate", "answer"), [(300.0, "helped"), (50.0, "harmed"), (102.0, "no difference")]
)
def test_blocks_are_judged_by_the_settings_they_had(
    rate: float, answer: str, disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    disk.rates["9"] = rate
    assert disk.run() == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["answer"], said["pairs"]) == (answer, 12)
    (figure,) = said["figures"]
    assert (figure["before"], figure["after"]) == (100.0, rate)


def test_settings_that_stop_the_load_harm_it(
    disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    disk.rates["9"] = 0.0
    assert disk.run() == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "harmed"


def test_no_load_is_not_judged(disk: Disk, capsys: pytest.CaptureFixture[str]) -> None:
    disk.rates = {"16": 0.0, "9": 0.0}
    assert disk.run() == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "unknown"


@pytest.mark.parametrize("last", [3, 23])
def test_a_trial_that_was_undone_meanwhile_changes_nothing_more(
    last: int, disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the state file nothing would undo a change. The unfinished block is not judged."""
    disk.at_block[last] = lambda: wayback.settle(disk.machine.system, disk.disk)
    with pytest.raises(CtlError, match="was ended by `--undo`"):
        disk.run()
    assert len(disk.values) == last + 1
    assert disk.disk.tunables == {"fifo_batch": "16"}
    assert capsys.readouterr().out == ""


def test_a_trial_on_a_slow_device_is_not_taken_for_hung(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change waits for the requests in the device: 6 s on a USB stick with a full queue."""
    now = 1000.0
    put = wayback.write

    def write(path: Path, value: str) -> None:
        nonlocal now
        now += 6
        put(path, value)

    def measure() -> None:
        nonlocal now
        now += 4
        state = wayback.pending(disk.machine.system, "sda")
        assert state is not None
        # The time left is enough for the blocks after this one, if none is late.
        assert state["until"] >= now + (23 - len(disk.values)) * 4

    monkeypatch.setattr(trial, "drawn", lambda *_: [False, True] * 12)
    monkeypatch.setattr(wayback, "_now", lambda: now)
    monkeypatch.setattr(wayback, "write", write)
    disk.at_block = dict.fromkeys(range(24), measure)
    assert disk.run() == 0
    # A trial that takes so long without slow changes would be taken for hung.
    assert now > 1000 + 24 * (4 + trial._LATE_S) + wayback.GRACE_S


def test_the_end_by_undo_is_not_taken_for_somebody_elses_choice(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = machine.disk()

    def choose(disk: sysfs.Disk, scheduler: str) -> None:
        names = [f"[{name}]" if name == scheduler else name for name in disk.schedulers]
        machine.file("sys/block/sda/queue/scheduler", " ".join(names))

    def block(_: trial.Meter) -> trial.Block:
        if disk.scheduler == "bfq":
            wayback.settle(machine.system, disk)
        return trial.Block()

    monkeypatch.setattr(wayback, "start_keeper", lambda *_: None)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(wayback, "choose", choose)
    monkeypatch.setattr(trial.Meter, "block", block)
    with pytest.raises(CtlError, match="was ended by `--undo`"):
        trial.run(machine.system, trial.Options("sda", "bfq", {}, 48))
    assert disk.scheduler == "mq-deadline"


def test_another_disk_of_the_name_is_left_alone_meanwhile(disk: Disk) -> None:
    disk.machine.file("sys/block/sda/diskseq", "7")

    def swap() -> None:
        disk.machine.file("sys/block/sda/diskseq", "8")
        disk.machine.file("sys/block/sda/queue/iosched/fifo_batch", "16")

    disk.at_block[3] = swap
    with pytest.raises(CtlError, match="another disk now"):
        disk.run()
    assert disk.disk.tunables == {"fifo_batch": "16"}


@pytest.mark.parametrize("end", [KeyboardInterrupt(), CtlError("the block failed")])
def test_what_could_not_be_put_back_is_told_however_the_trial_ends(
    end: BaseException, disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        shutil.rmtree(disk.disk.folder / "queue/iosched")
        raise end

    disk.at_block[3] = fail
    with pytest.raises(type(end)):
        disk.run()
    *_, said = capsys.readouterr().err.splitlines()
    assert said.startswith("triagectl: there is no ")
    assert said.endswith("/iosched/fifo_batch")


def test_a_disk_that_is_unplugged_is_not_somebody_elses_choice(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = machine.disk(fifo_batch=16)
    machine.file("sys/fs/cgroup/a/io.bfq.weight", "8:0 300")
    blocks = 0

    def block(_: trial.Meter) -> trial.Block:
        nonlocal blocks
        blocks += 1
        if blocks == 3:
            disk.folder.unlink()
        return trial.Block()

    def choose(disk: sysfs.Disk, scheduler: str) -> None:
        names = [f"[{name}]" if name == scheduler else name for name in disk.schedulers]
        machine.file("sys/block/sda/queue/scheduler", " ".join(names))

    monkeypatch.setattr(wayback, "start_keeper", lambda *_: None)
    monkeypatch.setattr(wayback, "choose", choose)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(trial.Meter, "block", block)
    with pytest.raises(CtlError) as raised:
        trial.run(machine.system, trial.Options("sda", "bfq", {}, 48))
    assert str(raised.value) == ("the trial was stopped; sda is gone: there is nothing to put back")
    assert blocks == 3


class Watched:
    """Stands in for a sampler: in each run it sees some reads, and leaves out some others."""

    def __init__(self, seen: int, ambiguous: int, losses: int) -> None:
        self.matcher = Matcher({}, lambda _: None)
        self.instance = SimpleNamespace(lost=0)
        self._each = seen, ambiguous, losses

    def run(self, _: float) -> None:
        seen, ambiguous, losses = self._each
        for _ in range(seen):
            self.matcher.finished(Request(1, 0, 8, False, True, 1, b"x", 1, completed=1000))
        self.matcher.ambiguous += ambiguous
        self.instance.lost += losses

    def end(self) -> None:
        pass


@pytest.mark.parametrize(
    ("ambiguous", "losses", "told"),
    [(0, 0, []), (2, 0, []), (100, 0, ["17 % of the requests"]), (0, 1, ["lost 24 times"])],
)
def test_requests_that_no_percentile_has_are_told(
    ambiguous: int,
    losses: int,
    told: list[str],
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @contextlib.contextmanager
    def meter(_: System, disk: sysfs.Disk, block_s: float) -> Iterator[trial.Meter]:
        yield trial.Meter(disk, cast(Sampler, Watched(500, ambiguous, losses)), block_s)

    monkeypatch.setattr(wayback, "start_keeper", lambda *_: None)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(trial, "_meter", meter)
    machine.disk(fifo_batch=16)
    options = trial.Options("sda", None, {"fifo_batch": "9"}, 48)
    assert trial.run(machine.system, options) == 0
    said = capsys.readouterr().out
    for sentence in ("of the requests", "lost"):
        assert (sentence in said) == any(sentence in one for one in told), said
    assert all(one in said for one in told)
    assert trial.run(machine.system, dataclasses.replace(options, json=True)) == 0
    said = json.loads(capsys.readouterr().out)
    found = said["timed"], said["ambiguous"], said["lost_pages"]
    assert found == (24 * 500, 24 * ambiguous, 24 * losses)


def test_memory_does_not_grow_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "_KEPT", 1000)
    few, every = Sample(), Times()
    for number in range(100_000):
        ns = number * 7919 % 100_003
        few.add(ns)
        every.add(ns)
    assert few.count == 1000
    for q in (0.5, 0.9, 0.99):
        assert few.quantile(q) == pytest.approx(every.quantile(q), rel=0.1)


def test_a_sample_goes_on_after_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "_KEPT", 100)
    few = Sample()
    for value in (1, 1000):
        for _ in range(2000):
            few.add(value)
        few.quantile(0.5)
    assert few.quantile(0.1) == 1
    assert few.quantile(0.9) == 1000
