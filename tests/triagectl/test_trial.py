# SPDX-License-Identifier: GPL-2.0-only
"""Test how `triagectl try` measures: in blocks of one length, with bounded memory."""

import pytest

from tests.triagectl.machine import Machine
from triagectl import compare, times, trial, wayback
from triagectl.times import Sample, Times


@pytest.mark.parametrize("seconds", [6, 7.5, 8.9, 11, 13, 60, 120, 86400])
def test_all_blocks_have_one_length(
    seconds: float, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A P99 of a shorter block varies more, which would look like an effect of the settings."""
    slept: list[float] = []
    phases: list[int] = []
    measured = trial.Meter.blocks

    def blocks(meter: trial.Meter, seconds: float, what: str) -> list[trial.Block]:
        found = measured(meter, seconds, what)
        phases.append(len(found))
        return found

    monkeypatch.setattr(wayback, "start_keeper", lambda *_: None)
    monkeypatch.setattr(trial, "_SETTLE_S", 0.0)
    monkeypatch.setattr("time.sleep", lambda of: slept.append(of) if of else None)
    monkeypatch.setattr(trial.Meter, "blocks", blocks)
    machine.disk(fifo_batch=16)
    trial.run(machine.system, trial.Options("sda", None, {"fifo_batch": "9"}, seconds))
    before, during, after = phases
    assert before + after == during
    assert before == after
    assert compare.BLOCKS <= during <= 12
    assert set(slept) == {slept[0]}
    assert slept[0] * during == pytest.approx(seconds)
    assert slept[0] >= 1


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
