# SPDX-License-Identifier: GPL-2.0-only
"""Guards: intervals and verdicts are right, repeatable, and never claim too much."""

import itertools
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from triagelab.statistics import (
    HIGHER,
    LOWER,
    NO_DIFFERENCE,
    NOT_ENOUGH,
    Comparison,
    compare,
    estimate,
)

ROOT = Path(__file__).parents[2]


def repeats(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def test_interval_is_that_of_all_resamples() -> None:
    values = [3.0, 1.0, 4.0, 1.5, 9.0]
    means = [sum(drawn) / 5 for drawn in itertools.product(values, repeat=5)]
    found = estimate(values)
    assert found.mean == pytest.approx(3.7)
    assert found.n == 5
    assert found.ci95 == pytest.approx(np.percentile(means, [2.5, 97.5]), rel=0.03)


def test_one_repeat_has_no_interval() -> None:
    assert estimate([7.0]).ci95 is None


def test_equal_repeats_have_an_interval_without_width() -> None:
    assert estimate([0.1] * 5).ci95 == (0.1, 0.1)


def test_equal_values_are_no_difference() -> None:
    found = compare(repeats(0.1, 0.1, 0.1), repeats(0.1, 0.1, 0.1))
    assert found == Comparison(1.0, (1.0, 1.0), 3, NO_DIFFERENCE)


def test_pairing_cancels_what_repeats_share() -> None:
    base = repeats(100.0, 10.0, 55.0, 30.0, 80.0)
    twice = {repeat: 2 * value for repeat, value in base.items()}
    found = compare(twice, base)
    assert found is not None
    assert found.ci95 == pytest.approx((2, 2))
    assert found.verdict == HIGHER


def test_only_repeats_both_finished_count() -> None:
    found = compare({0: 10.0, 1: 11.0, 2: 12.0, 3: 1e9}, {4: 1e-9, 2: 24.0, 1: 22.0, 0: 20.0})
    assert found is not None
    assert (found.n, found.ratio, found.verdict) == (3, 0.5, LOWER)
    assert compare({0: 1.0}, {1: 1.0}) is None


def test_difference_within_the_noise_is_not_claimed() -> None:
    found = compare(repeats(10, 12, 9, 11, 10), repeats(11, 10, 10, 10, 11))
    assert found is not None
    assert found.verdict == NO_DIFFERENCE


@pytest.mark.parametrize(("n", "verdict"), [(1, NOT_ENOUGH), (2, NOT_ENOUGH), (3, LOWER)])
def test_two_repeats_are_not_enough(n: int, verdict: str) -> None:
    found = compare(repeats(*[1.0] * n), repeats(*[2.0] * n))
    assert found is not None
    assert (found.ratio, found.verdict) == (0.5, verdict)
    assert (found.ci95 is None) == (n == 1)


def test_nothing_done_on_one_side() -> None:
    something, nothing = repeats(1, 2, 3), repeats(0, 0, 0)
    assert compare(something, nothing) == Comparison(None, None, 3, HIGHER)
    assert compare(nothing, something) == Comparison(0.0, (0.0, 0.0), 3, LOWER)
    assert compare(nothing, nothing) == Comparison(None, None, 3, NO_DIFFERENCE)
    sometimes = compare(repeats(5, 6, 7, 8, 9), repeats(0, 0, 0, 0, 1))
    assert sometimes is not None
    assert (sometimes.ratio, sometimes.ci95) == (35.0, None)  # no upper end


def test_what_values_cannot_tell_is_not_claimed() -> None:
    """However alike the repeats are, and whichever of the two is the larger."""
    close, far, base = repeats(*[128] * 5), repeats(*[131] * 5), repeats(*[127] * 5)
    for resolution, seen in ((0.0, HIGHER), (1 / 64, NO_DIFFERENCE)):
        forth, back = compare(close, base, resolution), compare(base, close, resolution)
        assert forth and back
        assert forth.verdict == back.inverse().verdict == seen
    found = compare(far, base, 1 / 64)
    assert found and found.verdict == HIGHER
    few = compare(repeats(128, 128), repeats(127, 127), 1 / 64)
    assert few and few.verdict == NOT_ENOUGH
    assert compare(base, repeats(0, 0, 0), 1 / 64) == Comparison(None, None, 3, HIGHER)


def test_inverse_is_the_comparison_the_other_way_round() -> None:
    a, b = repeats(1.0, 1.1, 1.2, 1.0, 1.1), repeats(2.0, 2.3, 2.2, 2.1, 2.2)
    forth, back = compare(a, b), compare(b, a)
    assert forth is not None and back is not None and back.ci95 is not None
    turned = forth.inverse()
    assert turned.ratio == pytest.approx(back.ratio)
    assert turned.verdict == back.verdict
    assert turned.ci95 == pytest.approx(back.ci95, rel=1e-3)
    assert compare(repeats(0, 0, 0), a).inverse() == Comparison(None, None, 3, HIGHER)  # type: ignore[union-attr]


def test_same_figures_in_another_process() -> None:
    program = (
        "from triagelab.statistics import *;"
        "print(estimate([1.1, 2.7, 3.3, 4.9, 8.1]),"
        "compare({0: 1.1, 1: 1.3, 2: 1.7}, {2: 2.3, 1: 2.9, 0: 2.1}))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(ROOT / "lab"), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    here = (
        estimate([1.1, 2.7, 3.3, 4.9, 8.1]),
        compare({0: 1.1, 1: 1.3, 2: 1.7}, {2: 2.3, 1: 2.9, 0: 2.1}),
    )
    assert said == {f"{here[0]} {here[1]}\n"}


def test_false_alarms_are_as_often_as_the_report_says() -> None:
    """The report says: with five repeats, about 16 of 100 verdicts where nothing differs."""
    random = np.random.default_rng(1)
    alarms, trials = 0, 400
    for _ in range(trials):
        pair = np.exp(random.normal(0, 0.05, (2, 5)))
        found = compare(repeats(*pair[0]), repeats(*pair[1]))
        assert found is not None
        alarms += found.verdict != NO_DIFFERENCE
    # Four standard errors either way.
    assert abs(alarms / trials - 0.16) < 4 * math.sqrt(0.16 * 0.84 / trials)
