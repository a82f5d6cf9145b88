# SPDX-License-Identifier: GPL-2.0-only
"""Test percentiles, comparisons, and the format of figures."""

import random

import pytest

from triagectl import compare, screen
from triagectl.times import Times, merged


def test_percentiles() -> None:
    times = Times()
    for value in random.sample(range(1000), 1000):
        times.add(value)
    assert times.quantile(0.5) == 500
    assert times.quantile(0.99) == 990
    assert merged([times, times]).count == 2000


def test_no_percentile_of_too_few() -> None:
    times = Times()
    for _ in range(499):
        times.add(1)
    assert times.quantile(0.99) is None
    times.add(1)
    assert times.quantile(0.99) == 1


@pytest.mark.parametrize(
    ("ns", "text"),
    [(None, "-"), (0, "0.0us"), (999_499, "999us"), (2_500_000, "2.5ms"), (12 * 10**9, "12s")],
)
def test_durations(ns: int | None, text: str) -> None:
    assert screen.duration(ns) == text


@pytest.mark.parametrize("power", range(10))
def test_amounts_and_durations_fit(power: int) -> None:
    for value in (1, 9.94, 9.96, 99.94, 99.96):
        assert len(screen.amount(value * 10**power)) <= 5
    assert len(screen.duration(10**power)) <= 5


STEADY = [100.0, 101, 99, 102, 98, 100, 101, 99]


def test_a_difference_is_seen() -> None:
    found = compare.compared("read P99", STEADY, [50.0, 51, 49, 52, 50, 48], more_is_better=False)
    assert found is not None
    assert found.answer == "better"
    assert found.low <= found.ratio <= found.high < 1


def test_a_difference_that_does_not_matter_is_none() -> None:
    found = compare.compared("x", STEADY, [v * 1.03 for v in STEADY], more_is_better=True)
    assert found is not None
    assert found.answer == "no difference was seen"


def test_the_loads_own_changes_are_no_difference() -> None:
    wild = [10.0, 500, 20, 300, 15, 400, 12, 600]
    found = compare.compared("x", wild, [v * 1.5 for v in wild], more_is_better=True)
    assert found is not None
    assert found.answer == "no difference was seen"


def test_chance_alone_is_seldom_a_difference() -> None:
    chance = random.Random(3)
    answers = []
    for _ in range(25):
        before = [chance.lognormvariate(0, 0.5) for _ in range(24)]
        after = [chance.lognormvariate(0, 0.5) for _ in range(12)]
        found = compare.compared("x", before, after, more_is_better=True)
        assert found is not None
        answers.append(found.answer)
    assert answers.count("no difference was seen") >= 24


def test_too_few_blocks_are_no_comparison() -> None:
    assert compare.compared("x", STEADY, STEADY[:5], more_is_better=True) is None
    assert compare.summary([]) == "unknown"


def verdict(answer: str) -> compare.Verdict:
    ratio = {"better": 2.0, "worse": 0.5, "same": 1.0}[answer]
    return compare.Verdict("x", 1, ratio, ratio, ratio, ratio, more_is_better=True)


@pytest.mark.parametrize(
    ("answers", "summary"),
    [
        (["better", "same"], "helped"),
        (["worse", "same"], "harmed"),
        (["better", "worse"], "mixed"),
        (["same"], "no difference"),
    ],
)
def test_whether_it_helped(answers: list[str], summary: str) -> None:
    assert compare.summary([verdict(answer) for answer in answers]) == summary


def test_a_command_is_not_wrapped() -> None:
    for pad in range(60):
        text = f"{'x' * pad} was not put back: `triagectl try nvme0n1 --undo`, so `ionice -p 1`"
        lines = screen.wrapped(text, 4).splitlines()
        assert max(map(len, lines)) <= 80
        for command in ("`triagectl try nvme0n1 --undo`", "`ionice -p 1`"):
            assert any(command in line for line in lines)
