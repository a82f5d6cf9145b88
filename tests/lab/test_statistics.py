# SPDX-License-Identifier: GPL-2.0-only
"""Tests that intervals and verdicts keep the promises of docs/lab.md, mostly by simulation."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from triagelab.ask import experiments
from triagelab.ask.experiments import Experiment
from triagelab.base import metrics
from triagelab.base.metrics import Of
from triagelab.measure.statistics import (
    ALPHA,
    HIGHER,
    LOWER,
    NO_DIFFERENCE,
    NOT_CERTAIN,
    NOT_ENOUGH,
    REPEATS_FOR_VERDICT,
    Comparison,
    Estimate,
    Ratio,
    compare,
    estimate,
    judged,
)

ROOT = Path(__file__).parents[2]

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

#: Distributions from which the tests draw a scheduler's repeats, each with its mean.
NOISE: dict[str, tuple[Draw, float]] = {
    "normal": (lambda random, size: random.normal(100, 10, size), 100),
    "log-normal": (lambda random, size: np.exp(random.normal(0, 0.3, size)), np.exp(0.045)),
    "skewed": (lambda random, size: random.gamma(4, 1, size), 4),
}
#: The default number of repeats, the number of the demo's schedulers, and the number of metrics by
#: which the demo compares two schedulers: 6 for each of its 2 jobs, and 2 for a whole run.
REPEATS, SCHEDULERS, METRICS = 5, 7, 14


def repeats(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def alone(ratio: Ratio | None) -> Comparison:
    """Return the verdict on a ratio in a report that compares nothing else."""
    assert ratio is not None
    (found,) = judged([ratio])
    return found


def false_verdicts(draw: Draw, n: int, reports: int) -> float:
    """Return the share of reports that claim a difference, although all schedulers are alike."""
    random = np.random.default_rng(1)
    wrong = 0
    for _ in range(reports):
        measured = draw(random, (METRICS, SCHEDULERS, n))
        family = [
            ratio
            for schedulers in measured
            for a, b in itertools.combinations(schedulers, 2)
            if (ratio := compare(repeats(*a), repeats(*b)))
        ]
        wrong += any(found.verdict in (LOWER, HIGHER) for found in judged(family))
    return wrong / reports


def told(what: str, figure: str) -> None:
    """Print a figure for docs/lab.md; pytest -rP shows it."""
    print(f"simulated: {what}: {figure}")


# ---- the promises of docs/lab.md ------------------------------------------------


def test_the_promises_are_about_the_defaults() -> None:
    demo = experiments.find("mixed-priority")
    assert demo.repeats == Experiment.repeats == REPEATS >= REPEATS_FOR_VERDICT
    assert len(demo.schedulers) == SCHEDULERS
    of_job, of_run = (
        [metric.name for metric in metrics.of(*of) if metric.compared and not metric.asked]
        for of in ((Of.JOB,), (Of.RUN, Of.JOBS))
    )
    of_run.remove("contended_locks_per_io")  # only measured with several virtual CPUs
    assert 2 * len(of_job) + len(of_run) == METRICS


@pytest.mark.parametrize("noise", NOISE)
def test_a_95_percent_interval_covers_the_mean_in_93_to_97_of_100_cases(noise: str) -> None:
    draw, mean = NOISE[noise]
    random = np.random.default_rng(2)
    intervals = [estimate(list(of)).ci95 for of in draw(random, (5000, REPEATS))]
    covered = sum(ends is not None and ends[0] <= mean <= ends[1] for ends in intervals)
    told(f"a mean, {noise}", f"covered in {covered / 50:.1f} %")
    assert 0.93 <= covered / 5000 <= 0.97


@pytest.mark.parametrize("noise", NOISE)
def test_the_interval_of_a_ratio_covers_it_too(noise: str) -> None:
    """Intervals of a ratio whose true value is 2 contain 2 in 93 to 97 of 100 cases."""
    draw, _ = NOISE[noise]
    random = np.random.default_rng(3)
    covered = 0
    for a, b in draw(random, (4000, 2, REPEATS)):
        found = compare(repeats(*(2 * a)), repeats(*b))
        assert found and found.ci95
        covered += found.ci95[0] <= 2 <= found.ci95[1]
    told(f"a ratio, {noise}", f"covered in {covered / 40:.1f} %")
    assert 0.93 <= covered / 4000 <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISE)
def test_five_reports_of_100_have_a_false_verdict_at_most(noise: str) -> None:
    draw, _ = NOISE[noise]
    reports = 1000
    three_errors = 3 * (ALPHA * (1 - ALPHA) / reports) ** 0.5
    wrong = false_verdicts(draw, REPEATS, reports)
    told(f"no difference, {noise}", f"a verdict in {100 * wrong:.1f} % of {reports} reports")
    assert wrong <= ALPHA + three_errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fails", "n", "most"), [(0.2, REPEATS_FOR_VERDICT, 0.08), (0.5, 8, 0.12), (0.5, 5, 1.0)]
)
def test_two_clusters_need_five_repeats_or_eight(fails: float, n: int, most: float) -> None:
    """A heuristic that fails in some repeats doubles their values; few repeats then mislead.

    If it fails in a fifth of the repeats, 5 suffice. If it fails in half of them, 5 give false
    verdicts in more than 20 % of reports, and 8 in at most 12 %.
    """

    def clusters(random: np.random.Generator, size: tuple[int, ...]) -> Array:
        middle = np.where(random.random(size) < fails, 2.0, 1.0)
        return np.asarray(middle * np.exp(random.normal(0, 0.01, size)))

    wrong = false_verdicts(clusters, n, 100)
    told(f"no difference, {fails:.0%} fail, n = {n}", f"a verdict in {100 * wrong:.0f} % of 100")
    assert wrong <= most
    if most == 1.0:
        assert wrong > 0.2, "5 repeats did not mislead here: docs/lab.md warns for nothing"


def test_a_difference_is_seen_among_all_that_are_none() -> None:
    random = np.random.default_rng(4)
    rest = [
        ratio
        for a, b in np.exp(random.normal(0, 0.05, (SCHEDULERS * METRICS * 3, 2, REPEATS)))
        if (ratio := compare(repeats(*a), repeats(*b)))
    ]
    half = np.exp(random.normal(0, 0.05, (2, REPEATS)))
    found = compare(repeats(*(half[0] / 2)), repeats(*half[1]))
    assert found
    assert judged([*rest, found])[-1].verdict == LOWER


# ---- single means ---------------------------------------------------------------


def test_the_mean_is_within_its_interval() -> None:
    found = estimate([3.0, 1.0, 4.0, 1.5, 9.0])
    assert found.mean == pytest.approx(3.7)
    assert found.n == 5
    assert found.ci95
    assert found.ci95[0] < 3.7 < found.ci95[1]
    # 2.7764 is Student's t at 4 degrees of freedom. The interval is computed on logarithms.
    spread = np.log([3.0, 1.0, 4.0, 1.5, 9.0]).std(ddof=1) / 5**0.5
    assert found.ci95[1] / 3.7 == pytest.approx(np.exp(2.7764 * spread), rel=1e-4)


def test_one_repeat_has_no_interval() -> None:
    assert estimate([7.0]) == Estimate(7.0, None, 1)
    assert compare({3: 3.0}, {3: 3.0}) == Ratio(1.0, None, 1, False, 1.0)
    less = compare({3: 1.0}, {3: 2.0})
    assert less and less.lower
    assert less.chance == 1.0


def test_equal_repeats_tell_nothing_of_their_spread_but_the_resolution() -> None:
    assert estimate([0.5] * 5) == Estimate(0.5, None, 5)
    ends = estimate([0.1] * 5, 1 / 64).ci95
    assert ends == pytest.approx((0.1 * np.exp(-1 / 128), 0.1 * np.exp(1 / 128)))


def test_two_repeats_have_an_interval() -> None:
    """The interval is that of Student's t at 1 degree of freedom, 12.706, on logarithms."""
    found = estimate([1.0, float(np.exp(0.2))])
    assert found.ci95
    assert found.ci95[1] / found.mean == pytest.approx(np.exp(12.706 * 0.1), rel=1e-4)
    assert found.ci95[0] * found.ci95[1] == pytest.approx(found.mean**2)


def test_the_interval_of_what_can_be_nothing_is_of_the_values_and_their_resolution() -> None:
    values = [0.0, 2.0, 1.0]
    spread = 4.3027 / 3**0.5  # t at 2 degrees of freedom, and a standard deviation of 1
    assert estimate(values).ci95 == pytest.approx((0, 1 + spread), rel=1e-4)
    assert estimate(values, 3.0).ci95 == pytest.approx(
        (0, 1 + (spread**2 + 1.5**2) ** 0.5), rel=1e-4
    )
    assert estimate([0.0, 0.1], 0.0).ci95 == pytest.approx((0, 0.05 + 12.706 * 0.05), rel=1e-4)
    level = [0.0, *[100.0] * 400]
    found = estimate(level, 0.1).ci95
    assert found and found[0] == pytest.approx(np.mean(level) - 5.01, abs=0.05)


def test_what_can_be_nothing_is_never_below_it() -> None:
    found = estimate([0.0, 0.0, 0.3, 0.0, 0.1])
    assert found.ci95
    assert found.ci95[0] == 0
    assert found.ci95[1] > found.mean
    assert found.mean == pytest.approx(0.08)
    assert found.n == 5
    assert estimate([0.0] * 5, 1 / 64).ci95 is None


# ---- exact chances and intervals ------------------------------------------------


def chance(t: float) -> float:
    """Return the two-sided p-value of Student's t at 2 degrees of freedom, by its closed form."""
    return float(1 - t / (t * t + 2) ** 0.5)


def test_the_chance_is_that_of_a_paired_t_on_logarithms() -> None:
    logs = np.array([0.1, 0.2, 0.4])
    found = compare(repeats(*np.exp(logs)), repeats(1, 1, 1))
    error = logs.std(ddof=1) / 3**0.5
    assert found and found.ci95 and found.ratio
    assert found.ratio == pytest.approx(np.exp(logs.mean()))
    assert found.chance == pytest.approx(chance(logs.mean() / error))
    assert not found.lower
    assert np.log(found.ci95) - logs.mean() == pytest.approx(
        [-4.3027 * error, 4.3027 * error], rel=1e-4
    )
    # A resolution makes the tested difference smaller and the interval wider. The resolution's
    # square is subtracted from the difference's square, and added to the square of half the
    # interval's width.
    coarse = compare(repeats(1, 1, 1), repeats(*np.exp(logs)), 0.1)
    assert coarse and coarse.ci95
    assert coarse.lower
    beyond = (logs.mean() ** 2 - 0.1**2) ** 0.5
    assert coarse.chance == pytest.approx(chance(beyond / error))
    half = ((4.3027 * error) ** 2 + 0.1**2) ** 0.5
    assert np.log(coarse.ci95) + logs.mean() == pytest.approx([-half, half], rel=1e-4)


def test_two_repeats_have_a_chance() -> None:
    """The chance is that of Student's t at 1 degree of freedom, which is Cauchy's distribution."""
    found = compare(repeats(*np.exp([0.1, 0.3])), repeats(1, 1))
    assert found
    assert found.chance == pytest.approx(1 - 2 / np.pi * np.arctan(0.2 / 0.1))


def test_a_step_is_all_that_is_known_of_the_spread_where_nothing_varies() -> None:
    """If no value varies, the standard error follows from the resolution, a step of 0.1.

    Each value is taken to lie anywhere in a step. The standard error is that of the mean of the 3
    pairs' differences.
    """
    found = compare(repeats(*[2.0] * 3), repeats(*[1.0] * 3), 0.1)
    assert found
    beyond = (np.log(2) ** 2 - 0.1**2) ** 0.5
    assert found.chance == pytest.approx(chance(beyond / (0.1 / (6 * 3) ** 0.5)))


def test_the_chance_of_what_can_be_nothing_is_of_differences() -> None:
    above, below = [0.0, 4.0, 5.0], [0.0, 1.0, 1.0]
    found = compare(repeats(*above), repeats(*below))
    differences = np.array([0.0, 3.0, 4.0])
    error = differences.std(ddof=1) / 3**0.5
    assert found and found.ratio == pytest.approx(4.5)
    assert found.chance == pytest.approx(chance(differences.mean() / error))
    # The resolution is a share of the larger mean, 3.
    for a, b in ((above, below), (below, above)):
        coarse = compare(repeats(*a), repeats(*b), 0.2)
        assert coarse and coarse.lower == (a is below)
        beyond = (differences.mean() ** 2 - (0.2 * 3) ** 2) ** 0.5
        assert coarse.chance == pytest.approx(chance(beyond / error))


@pytest.mark.parametrize(
    ("chances", "judged_as"),
    [
        ([0.01, 0.02, 0.05], [LOWER] * 3),  # below 0.05 / 3, below 0.05 / 2, at most 0.05
        ([0.03, 0.01, 0.031], [NO_DIFFERENCE, LOWER, NO_DIFFERENCE]),  # 0.03 is above 0.05 / 2
        ([0.017, 0.01, 0.017], [LOWER] * 3),
        ([0.017, 0.018, 0.019], [NO_DIFFERENCE] * 3),
    ],
)
def test_the_family_is_corrected_by_holms_method(
    chances: list[float], judged_as: list[str]
) -> None:
    family = [Ratio(0.5, (0.4, 0.6), REPEATS_FOR_VERDICT, True, of) for of in chances]
    assert [found.verdict for found in judged(family)] == judged_as
    few = Ratio(0.5, None, REPEATS_FOR_VERDICT - 1, True, 0.0)
    assert judged([few]) == [Comparison(0.5, None, REPEATS_FOR_VERDICT - 1, NOT_ENOUGH)]


# ---- two schedulers -------------------------------------------------------------


def test_equal_values_are_no_difference() -> None:
    found = alone(compare(repeats(*[0.1] * 5), repeats(*[0.1] * 5)))
    assert found == Comparison(1.0, None, 5, NO_DIFFERENCE)


def test_pairing_cancels_what_repeats_share() -> None:
    base = repeats(100.0, 10.0, 55.0, 30.0, 80.0)
    twice = {repeat: 2.001 * value if repeat else 2 * value for repeat, value in base.items()}
    found = alone(compare(twice, base))
    assert found.ci95 == pytest.approx((2, 2), rel=1e-3)
    assert found.verdict == HIGHER


def test_only_repeats_both_finished_count() -> None:
    found = compare({0: 10.0, 1: 11.0, 2: 12.5, 3: 1e9}, {4: 1e-9, 2: 24.0, 1: 22.0, 0: 20.0})
    assert found is not None
    assert found.n == 3
    assert found.ratio == pytest.approx((12.5 / 24 / 4) ** (1 / 3))
    assert compare({0: 1.0}, {1: 1.0}) is None


def test_difference_within_the_noise_is_not_claimed() -> None:
    found = alone(compare(repeats(10, 12, 9, 11, 10), repeats(11, 10, 10, 10, 11)))
    assert found.verdict == NO_DIFFERENCE


@pytest.mark.parametrize(
    ("n", "verdict"), [(1, NOT_ENOUGH), (2, NOT_ENOUGH), (4, NOT_ENOUGH), (5, LOWER)]
)
def test_too_few_repeats_have_no_verdict(n: int, verdict: str) -> None:
    found = alone(compare(repeats(*[1.0, 1.01, 1.02, 1.0, 1.01][:n]), repeats(*[2.0] * n)))
    assert found.ratio == pytest.approx(0.5, rel=0.02)
    assert found.verdict == verdict
    assert (found.ci95 is None) == (n == 1)


def test_those_without_a_verdict_do_not_count_in_the_family() -> None:
    few = compare(repeats(1.0, 1.1), repeats(2.0, 2.1))
    enough = compare(repeats(0.9, 1.0, 1.1, 0.95, 1.05), repeats(*[2.0] * 5))
    assert few and enough and 1e-5 < enough.chance < 1e-3
    assert judged([*[few] * 10**4, enough])[-1].verdict == LOWER
    assert judged([*[enough] * 10, enough])[-1].verdict == LOWER


def test_differences_that_are_the_same_in_each_repeat_are_counted_like_coins() -> None:
    """Constant differences show no spread: 5 repeats suffice for one comparison, but not for 30."""
    constant = compare(repeats(*[100.0] * 5), repeats(*[101.0] * 5))
    assert constant and constant.ci95 is None
    assert constant.chance == 2 / 4**5
    assert alone(constant).verdict == LOWER
    other_way = compare(repeats(*[101.0] * 5), repeats(*[100.0] * 5))
    assert other_way and not other_way.lower
    assert {found.verdict for found in judged([constant] * 30)} == {NO_DIFFERENCE}
    often = compare(repeats(*[100.0] * 10), repeats(*[101.0] * 10))
    assert often
    assert {found.verdict for found in judged([often] * 30)} == {LOWER}


def test_what_values_cannot_tell_is_not_claimed() -> None:
    """A difference below the resolution is not claimed, however alike the repeats are."""
    close, far, base = repeats(*[128] * 5), repeats(*[160] * 5), repeats(*[127] * 5)
    for a, b in ((close, base), (base, close)):
        assert alone(compare(a, b, 1 / 64)).verdict == NO_DIFFERENCE
    assert alone(compare(far, base, 1 / 64)).verdict == HIGHER
    assert alone(compare(base, far, 1 / 64)).verdict == LOWER
    found = compare(close, base, 1 / 64)
    assert found and found.ci95 and found.ci95[0] < 1 < found.ci95[1]
    # The spread that the resolution implies is small enough for 300 verdicts in one report.
    wide = compare(far, base, 1 / 64)
    assert wide
    assert {found.verdict for found in judged([wide] * 300)} == {HIGHER}


def test_what_can_be_nothing_is_compared_by_differences() -> None:
    some, nothing = repeats(0.2, 0.3, 0.25, 0.22, 0.28), repeats(*[0.0] * 5)
    up, down = alone(compare(some, nothing)), alone(compare(nothing, some))
    assert (up.ratio, up.ci95, up.verdict) == (None, None, HIGHER)
    assert (down.ratio, down.ci95, down.verdict) == (0.0, None, LOWER)
    assert alone(compare(nothing, nothing)) == Comparison(None, None, 5, NO_DIFFERENCE)
    rarely = alone(compare(repeats(5, 6, 7, 8, 9), repeats(0, 0, 0, 0, 1)))
    assert (rarely.ratio, rarely.ci95) == (35.0, None)


def test_inverse_is_the_comparison_the_other_way_round() -> None:
    a, b = repeats(1.0, 1.1, 1.2, 1.0, 1.1), repeats(2.0, 2.3, 2.2, 2.1, 2.2)
    turned, back = alone(compare(a, b)).inverse(), alone(compare(b, a))
    assert turned.ratio == pytest.approx(back.ratio)
    assert turned.verdict == back.verdict == HIGHER
    assert turned.ci95 == pytest.approx(back.ci95)
    assert Comparison(4.0, (2.0, 8.0), 7, HIGHER).inverse() == Comparison(
        0.25, (0.125, 0.5), 7, LOWER
    )
    assert Comparison(1.0, (0.0, 2.0), 5, NO_DIFFERENCE).inverse() == Comparison(
        1.0, None, 5, NO_DIFFERENCE
    )
    assert Comparison(0.0, None, 5, LOWER).inverse() == Comparison(None, None, 5, HIGHER)


@pytest.mark.parametrize(
    ("verdict", "ratio", "ci95", "words"),
    [
        (NO_DIFFERENCE, 1.01, (0.9, 1.1), NO_DIFFERENCE),
        (NO_DIFFERENCE, 1.05, (1.0, 1.1), NO_DIFFERENCE),
        (NO_DIFFERENCE, 1.003, (1.001, 1.007), NO_DIFFERENCE),  # shown as [1.00, 1.01]
        (NO_DIFFERENCE, 0.012, (0.002, 0.09), NOT_CERTAIN),
        (NO_DIFFERENCE, 1.05, (1.01, 1.1), NOT_CERTAIN),
        (LOWER, 0.012, (0.002, 0.09), LOWER),
        (NOT_ENOUGH, 0.012, (0.002, 0.09), NOT_ENOUGH),
        # The same ratio in each repeat, or a divisor of 0.
        (NO_DIFFERENCE, 1.0, None, NO_DIFFERENCE),
        (NO_DIFFERENCE, 0.12, None, NOT_CERTAIN),
        (NO_DIFFERENCE, 0.0, None, NOT_CERTAIN),
        (NO_DIFFERENCE, None, None, NO_DIFFERENCE),
    ],
)
def test_words_deny_a_difference_only_where_the_interval_does(
    verdict: str, ratio: float | None, ci95: tuple[float, float] | None, words: str
) -> None:
    assert Comparison(ratio, ci95, 5, verdict).words == words


def test_same_figures_in_another_process() -> None:
    program = (
        "from triagelab.measure.statistics import *;"
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
