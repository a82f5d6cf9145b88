# SPDX-License-Identifier: GPL-2.0-only
"""Compute means, intervals and verdicts from the repeats of an experiment.

The unit of observation is a repeat, never a request. The requests of one run depend on
each other. If the lab counted each request as an observation, every difference would look
certain.

An interval is Student's t interval of the logarithms of the values. Noise on a computer acts
as a factor, so latencies and rates are nearer to log-normal than to normal. An interval of
logarithms also never reaches below 0. Two schedulers are compared by the logarithms of the
ratios of paired repeats. A value of 0 has no logarithm: in this case the values themselves
give the interval, and the differences of paired repeats give the comparison.

All comparisons of one report are a family. Holm's method (S. Holm, A Simple Sequentially
Rejective Multiple Test Procedure, 1979) limits the chance of a false verdict in a report to
5 %. A false verdict claims a difference where there is none. The limit also holds if the
comparisons depend on each other. tests/lab/test_statistics.py measures how often intervals
miss the true value, and how often verdicts are false.
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
REPEATS_FOR_INTERVAL = 2  # a single value has no spread
#: If a scheduler's heuristic fails in some runs, its values form two clusters. With too few
#: repeats, all values of one scheduler may by chance be in one cluster, and all values of another
#: scheduler in the other. 5 repeats suffice if the heuristic fails in a fifth of the runs, but not
#: if it fails in half; see test_two_clusters_need_five_repeats_or_eight.
REPEATS_FOR_VERDICT = 5

LOWER = "lower"
HIGHER = "higher"
NO_DIFFERENCE = "no difference seen"
NOT_ENOUGH = "too few repeats to tell"
#: Comparison.words if the verdict is NO_DIFFERENCE, but the interval leaves out 1.
NOT_CERTAIN = "difference not certain"
_DECIMALS = 2  # of the ends of an interval near 1, where a reader sees whether it includes 1

INVERSE = {LOWER: HIGHER, HIGHER: LOWER}

_SAME = 1e-9  # a spread below this share of a value is a rounding error


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
    """The ratio of the first side's values to the second's, and the test of their difference.

    A side is a scheduler, or the protected job alone.
    judged() turns the test into a verdict, which depends on all comparisons of the report.

    ratio   the geometric mean of the repeats' ratios. If a value is 0: the ratio of the means, or
            None if the divisor is 0
    ci95    the ratio's 95 % interval; None for a single repeat, if a value is 0, or if the interval
            would have no width
    n       number of paired repeats
    lower   True if the first side's values are lower
    chance  the p-value: the probability of a difference at least this large if the sides are equal
    """

    ratio: float | None
    ci95: Interval | None
    n: int
    lower: bool
    chance: float


@dataclass(frozen=True)
class Comparison:
    """A ratio and the verdict on it. The verdict depends on all comparisons of the report."""

    ratio: float | None
    ci95: Interval | None
    n: int
    verdict: str

    @property
    def words(self) -> str:
        """The verdict in words for readers.

        The verdict can be NO_DIFFERENCE although the interval leaves out 1, because the verdict is
        corrected for the number of comparisons. Then these words claim neither a difference nor
        that there is none. Without an interval the ratio counts.
        """
        only = 1.0 if self.ratio is None else self.ratio
        low, high = self.ci95 or (only, only)
        includes_1 = round(low, _DECIMALS) <= 1 <= round(high, _DECIMALS)
        return NOT_CERTAIN if self.verdict == NO_DIFFERENCE and not includes_1 else self.verdict

    def inverse(self) -> "Comparison":
        """Return the comparison of the two sides in the other order."""
        return Comparison(
            1 / self.ratio if self.ratio else None,
            (1 / self.ci95[1], 1 / self.ci95[0]) if self.ci95 and min(self.ci95) > 0 else None,
            self.n,
            INVERSE.get(self.verdict, self.verdict),
        )


def estimate(values: Sequence[float], resolution: float = 0.0) -> Estimate:
    """Return the mean and the 95 % interval of `values`.

    `values` has one value for each repeat, and no value is below 0.

    `resolution` is the smallest difference that the metric can show, as a share of the value.
    The interval is at least that wide.
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
    # No value is negative, so the interval does not reach below 0.
    return Estimate(mean, (max(mean - half, 0.0), mean + half), n)


def compare(
    a: Mapping[int, float], b: Mapping[int, float], resolution: float = 0.0
) -> Ratio | None:
    """Return the ratio of `a` to `b` and its test; None if they have no repeat in common.

    `a` and `b` map repeat numbers to values. A repeat that only one of them has does not count.
    `resolution` is the smallest difference that the metric can show, as a share of the value.
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
    """Return whether the mean of `differences` is below 0, and the p-value of this mean.

    The p-value is the chance of a mean this far from 0 if the two sides do not differ. With too
    few repeats for an interval, it is 1.

    step      the smallest difference that the metric can show; a smaller mean counts as 0
    rounding  a mean or a spread of at most this size is a rounding error

    Both have the same unit as `differences`.
    """
    n = len(differences)
    middle = fmean(differences)
    beyond = math.sqrt(max(middle * middle - step * step, 0.0))
    if n < REPEATS_FOR_INTERVAL or beyond <= rounding:
        return middle < 0, 1.0
    # Both values of a pair are rounded to a step, so the mean has at least this standard error.
    error = max(_standard_error(differences), step / math.sqrt(6 * n))
    if error <= rounding:
        # The differences do not vary, so their spread is unknown. Assume the worst case: both
        # sides' values are tosses of a fair coin. The chance that one side gets n heads and the
        # other n tails is 2 × 0.25**n.
        return middle < 0, 2 * 0.25**n
    return middle < 0, float(2 * special.stdtr(n - 1, -beyond / error))


def judged(family: Sequence[Ratio]) -> list[Comparison]:
    """Return all comparisons of a report with their verdicts, by Holm's method.

    The method corrects for the number of comparisons. A comparison with too few repeats for a
    verdict does not count.
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
