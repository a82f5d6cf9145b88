# SPDX-License-Identifier: GPL-2.0-only
"""Means, intervals and verdicts over the repeats of an experiment.

The unit of observation is a repeat, never a request. The requests of one run depend on
each other: if they were counted one by one, every difference would look certain.

An interval is Student's t on logarithms: the noise of a computer multiplies, so latencies
and rates are nearer to log-normal than to normal, and the interval of a ratio cannot
end below 0.  Two schedulers are compared by the logarithms of the ratios of paired
repeats.  If a value is 0, they are compared by differences.

All comparisons of one report are a family. Holm's method (S. Holm, A Simple Sequentially
Rejective Multiple Test Procedure, 1979) keeps the chance that any verdict claims a difference
where there is none below 5 %, however the comparisons depend on each other.
tests/lab/test_statistics.py measures how often intervals miss and verdicts are false.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from scipy import special

Interval = tuple[float, float]

#: The chance that an interval misses the true value, or that a report has a false verdict.
ALPHA = 0.05
REPEATS_FOR_INTERVAL = 2  # one value says nothing about its spread
#: A scheduler's heuristic that fails in some runs gives two clusters of values. With fewer
#: repeats, chance may put all values of one scheduler into one cluster and all values of another
#: into the other; see test_two_clusters_need_five_repeats_or_eight.
REPEATS_FOR_VERDICT = 5

LOWER = "lower"
HIGHER = "higher"
NO_DIFFERENCE = "no difference seen"
NOT_ENOUGH = "too few repeats to tell"

INVERSE = {LOWER: HIGHER, HIGHER: LOWER}

_SAME = 1e-9  # a spread below this share of a value is rounding


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` repeats.

    ci95  its 95 % interval; None for a single repeat, or if it would have no width
    """

    mean: float
    ci95: Interval | None
    n: int


@dataclass(frozen=True)
class Ratio:
    """The ratio of one side's values to another's, from `n` paired repeats, and its test.

    judged() turns it into a verdict, which depends on all comparisons of the report.

    ratio   the geometric mean of the repeats' ratios, or if a value is 0, the ratio of means;
            None if the divisor is 0
    ci95    its 95 % interval; None for a single repeat, if a value is 0, or if it would have
            no width
    lower   whether the first side's values are lower
    chance  the probability of a difference this large if there is none
    """

    ratio: float | None
    ci95: Interval | None
    n: int
    lower: bool
    chance: float


@dataclass(frozen=True)
class Comparison:
    """A ratio with its verdict, which depends on all comparisons of its report."""

    ratio: float | None
    ci95: Interval | None
    n: int
    verdict: str

    def inverse(self) -> "Comparison":
        """Return the comparison of the two sides in the other order."""
        return Comparison(
            1 / self.ratio if self.ratio else None,
            (1 / self.ci95[1], 1 / self.ci95[0]) if self.ci95 and min(self.ci95) > 0 else None,
            self.n,
            INVERSE.get(self.verdict, self.verdict),
        )


def estimate(values: Sequence[float], resolution: float = 0.0) -> Estimate:
    """Return the mean and 95 % interval of `values`: one of each repeat, none below 0.

    Values that differ by less than `resolution`, a share of the value, may be the same, so the
    interval is at least that wide.
    """
    mean, n = fmean(values), len(values)
    if n < REPEATS_FOR_INTERVAL:
        return Estimate(mean, None, n)
    positive = min(values) > 0
    spread = _standard_error([*map(math.log, values)] if positive else values)
    unit = 1.0 if positive else abs(mean)
    half = math.hypot(_t(ALPHA, n) * spread, resolution / 2 * unit)
    if half <= _SAME * unit:
        return Estimate(mean, None, n)
    if positive:
        return Estimate(mean, (mean * math.exp(-half), mean * math.exp(half)), n)
    # No value is negative, so the mean is not negative either.
    return Estimate(mean, (max(mean - half, 0.0), mean + half), n)


def compare(
    a: Mapping[int, float], b: Mapping[int, float], resolution: float = 0.0
) -> Ratio | None:
    """Return the ratio of `a` to `b`, which map repeat numbers to values, and its test.

    Only repeats that both have count; return None if there is none. Values that differ by less
    than `resolution`, a share of the value, may be the same.
    """
    shared = sorted(a.keys() & b.keys())
    if not shared:
        return None
    pairs = [(a[repeat], b[repeat]) for repeat in shared]
    n = len(pairs)
    if min(map(min, pairs)) <= 0:
        above, below = fmean(over for over, _ in pairs), fmean(under for _, under in pairs)
        differences = [over - under for over, under in pairs]
        larger = max(above, below)
        lower, chance = _tested(differences, resolution * larger, _SAME * larger)
        return Ratio(above / below if below else None, None, n, lower, chance)
    logs = [math.log(over) - math.log(under) for over, under in pairs]
    middle = fmean(logs)
    lower, chance = _tested(logs, resolution, _SAME)
    if n < REPEATS_FOR_INTERVAL:
        return Ratio(math.exp(middle), None, n, lower, chance)
    half = math.hypot(_t(ALPHA, n) * _standard_error(logs), resolution)
    interval = (math.exp(middle - half), math.exp(middle + half)) if half > _SAME else None
    return Ratio(math.exp(middle), interval, n, lower, chance)


def _tested(differences: Sequence[float], step: float, rounding: float) -> tuple[bool, float]:
    """Return whether the mean of `differences` is below 0, and its p-value.

    The p-value is the chance of a mean this far from 0 if the two sides do not differ.

    step      the least difference that the metric can show; smaller ones count as none
    rounding  a mean or a spread below this is an error of rounding
    """
    n = len(differences)
    middle = fmean(differences)
    beyond = math.sqrt(max(middle * middle - step * step, 0.0))
    if n < REPEATS_FOR_INTERVAL or beyond <= rounding:
        return middle < 0, 1.0
    # At least the error of the difference of two values that are each anywhere within a step.
    error = max(_standard_error(differences), step / math.sqrt(6 * n))
    if error <= rounding:
        # Nothing varies, so the spread is unknown. But if both sides draw from the same values,
        # the chance that each is constant, and they differ, is at most that of tosses of a coin.
        return middle < 0, 2 * 0.25**n
    return middle < 0, float(2 * special.stdtr(n - 1, -beyond / error))


def judged(family: Sequence[Ratio]) -> list[Comparison]:
    """Return all comparisons of a report with verdicts, by Holm's method.

    The method corrects for the number of comparisons. Those with too few repeats for a verdict
    do not count.
    """
    enough = [ratio for ratio in family if ratio.n >= REPEATS_FOR_VERDICT]
    limit = 0.0
    for rank, chance in enumerate(sorted(ratio.chance for ratio in enough)):
        if chance > ALPHA / (len(enough) - rank):
            break
        limit = chance
    return [
        Comparison(ratio.ratio, ratio.ci95, ratio.n, _verdict(ratio, limit)) for ratio in family
    ]


def _verdict(ratio: Ratio, limit: float) -> str:
    if ratio.n < REPEATS_FOR_VERDICT:
        return NOT_ENOUGH
    if ratio.chance > limit:
        return NO_DIFFERENCE
    return LOWER if ratio.lower else HIGHER


def _standard_error(sample: Sequence[float]) -> float:
    middle, n = fmean(sample), len(sample)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in sample) / (n - 1) / n)


@cache
def _t(alpha: float, n: int) -> float:
    return float(special.stdtrit(n - 1, 1 - alpha / 2))
