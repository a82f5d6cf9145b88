# SPDX-License-Identifier: GPL-2.0-only
"""Test percentiles, comparisons, and the format of figures."""

import random
from collections.abc import Sequence

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
    [
        (None, "-"),
        (0, "0.0us"),
        (999_499, "999us"),
        (999_500, "1.0ms"),
        (2_500_000, "2.5ms"),
        (999_500_000, "1.0s"),
        (12 * 10**9, "12s"),
    ],
)
def test_durations(ns: int | None, text: str) -> None:
    assert screen.duration(ns) == text


@pytest.mark.parametrize("power", range(10))
def test_amounts_and_durations_fit(power: int) -> None:
    for value in (1, 9.94, 9.96, 99.94, 99.96, 999.4, 999.6):
        assert len(screen.amount(value * 10**power)) <= 5
        assert len(screen.duration(round(value * 10**power))) <= 5


STEADY = [100.0, 101, 99, 102, 98, 100, 101, 99, 100, 102, 98, 100]


def compared(after: Sequence[float], before: Sequence[float] = STEADY) -> compare.Verdict:
    found = compare.compared("x", before, after, more_is_better=True)
    assert found is not None
    return found


def test_a_difference_is_seen() -> None:
    found = compared([v / 2 for v in reversed(STEADY)])
    assert found.answer == "worse"
    assert found.low <= found.ratio <= found.high < 1
    found = compared([v / 2 for v in reversed(STEADY)][:9], STEADY[:9])
    assert found.answer == "worse"


def test_one_pair_of_twelve_may_go_against_the_others() -> None:
    assert compared([v * 2 for v in STEADY[:11]] + [1.0]).answer == "better"
    assert compared([v * 2 for v in STEADY[:10]] + [90.0, 1.0]).answer != "better"


def test_a_difference_that_does_not_matter_is_none() -> None:
    found = compared([v * 1.03 for v in STEADY])
    assert found.low > 1
    assert found.answer == "no difference was seen"


def test_the_loads_own_changes_are_no_difference() -> None:
    wild = [10.0, 500, 20, 300, 15, 400, 12, 600, 10, 400, 20, 30]
    assert compared([v * 1.5 for v in reversed(wild)], wild).answer == "cannot tell"
    assert compared([v * 1.5 for v in wild], wild).answer == "better"


def test_equal_values_are_no_difference() -> None:
    assert compared(STEADY).answer == "no difference was seen"


def test_a_rate_of_0_has_a_finite_ratio() -> None:
    assert compared([0.0] * 12).answer == "worse"
    assert compared(STEADY, [0.0] * 12).high == 102


def test_too_few_pairs_are_no_comparison() -> None:
    assert compare.compared("x", STEADY[:8], STEADY[:8], more_is_better=True) is None
    assert compare.summary([]) == "unknown"


def verdict(answer: str) -> compare.Verdict:
    ratio = {"better": 3.0, "worse": 0.3, "same": 1.0, "open": 1.0}[answer]
    high = 3.0 if answer == "open" else ratio
    return compare.Verdict("x", 1, ratio, ratio, ratio, high, more_is_better=True)


@pytest.mark.parametrize(
    ("answers", "summary"),
    [
        (["better", "same"], "helped"),
        (["worse", "same"], "harmed"),
        (["better", "worse"], "mixed"),
        (["same"], "no difference"),
        (["open", "same"], "unknown"),
        (["open", "worse"], "harmed"),
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
