# SPDX-License-Identifier: GPL-2.0-only
"""Means, intervals and verdicts over the repeats of an experiment.

The unit of observation is a repeat, never a request: the requests of one run share
their fate, and counting them would make every difference look certain.

An interval is Student's t on logarithms: noise of a computer multiplies, so latencies
and rates are nearer to log-normal than to normal, and an interval of a ratio cannot
end below 0.  Two schedulers are compared by the logarithms of the ratios of paired
repeats.  Values that can be 0 are compared by their differences.

A verdict belongs to a family, all comparisons of one report: Holm's method (S. Holm,
A Simple Sequentially Rejective Multiple Test Procedure, 1979) keeps the chance that
any of them is false, where nothing differs, below 5 %, however they hang together.
tests/lab/test_statistics.py measures both promises.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from scipy import special

Interval = tuple[float, float]

#: The chance that an interval misses, or that a report has a false verdict.
ALPHA = 0.05
REPEATS_FOR_INTERVAL = 2  # one value says nothing about its spread
#: A heuristic that fails now and then gives two clusters of values. With fewer repeats chance
#: puts all of one scheduler's into one cluster and all of another's into the other:
#: test_two_clusters_need_five_repeats_or_eight.
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

    ci95  its 95 % interval; None for a single repeat, and if all repeats are the same
    """

    mean: float
    ci95: Interval | None
    n: int


@dataclass(frozen=True)
class Ratio:
    """Values over others, from `n` paired repeats; a verdict needs the rest of its family.

    ratio   the geometric mean of the repeats' ratios, or the ratio of means where a value
            is 0; None where it would be divided by 0
    ci95    None for a single repeat, and where there is no ratio of each repeat
    lower   whether the values are lower than the others
    chance  the probability of so large a difference where there is none
    """

    ratio: float | None
    ci95: Interval | None
    n: int
    lower: bool
    chance: float


@dataclass(frozen=True)
class Comparison:
    """A ratio, and the verdict on it among all others of its report."""

    ratio: float | None
    ci95: Interval | None
    n: int
    verdict: str

    def inverse(self) -> "Comparison":
        """The same comparison, read from the other side."""
        return Comparison(
            1 / self.ratio if self.ratio else None,
            (1 / self.ci95[1], 1 / self.ci95[0]) if self.ci95 and min(self.ci95) > 0 else None,
            self.n,
            INVERSE.get(self.verdict, self.verdict),
        )


def estimate(values: Sequence[float], resolution: float = 0.0) -> Estimate:
    """Mean and 95 % interval of one value a repeat (at least one, and none below 0).

    Two values no further apart than `resolution`, a share, may be one: the interval is no
    narrower than that.
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
    # A value that is never negative is not negative on average.
    return Estimate(mean, (max(mean - half, 0.0), mean + half), n)


def compare(
    a: Mapping[int, float], b: Mapping[int, float], resolution: float = 0.0
) -> Ratio | None:
    """`a` over `b`, each a value by repeat number.

    Only repeats that both sides finished count; None without such a repeat. Values no
    further apart than `resolution`, a share, may be the same.
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
    """Return whether differences are below 0, and their probability if there is no difference.

    step  the least distance of two distinct values; it bounds the spread of values that are
          the same in each repeat
    """
    n = len(differences)
    middle = fmean(differences)
    beyond = math.sqrt(max(middle * middle - step * step, 0.0))
    if n < REPEATS_FOR_INTERVAL or beyond <= rounding:
        return middle < 0, 1.0
    # The difference of two values that are each somewhere in a step.
    error = max(_standard_error(differences), step / math.sqrt(6 * n))
    if error <= rounding:
        # Nothing varies, so nothing is known of the spread: but two sides that draw from
        # the same values are each constant, and different, no more often than a coin decides.
        return middle < 0, 2 * 0.25**n
    return middle < 0, float(2 * special.stdtr(n - 1, -beyond / error))


def judged(family: Sequence[Ratio]) -> list[Comparison]:
    """The verdicts on all comparisons of a report, corrected for their number by Holm's method.

    Comparisons with too few repeats for a verdict do not count.
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
