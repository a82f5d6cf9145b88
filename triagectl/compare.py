# SPDX-License-Identifier: GPL-2.0-only
"""Judge whether settings make a difference, by figures of a load that also varies by itself.

The values come in pairs: one block of time under the old settings, and the next one under the tried
settings, or the other way round. A toss decides the order in each pair. If the settings make no
difference, the tried ones have the larger value of a pair with probability 1/2, whatever the load
does by itself: the toss is independent of the load. So the number of such pairs has a binomial
distribution. This is the sign test. Chance enters only by the toss, so the test assumes nothing
about the load.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: The largest probability that a trial sees any difference where there is none.
CHANCE = 0.05
#: The most figures that a trial compares. Each has an equal part of CHANCE.
FIGURES = 7
#: A change of a figure by less than this part is no reason to change a machine's settings.
_MATTERS = 0.05
#: If an interval contains 1, and reaches above this factor or below 1 / this factor, the answer is
#: `cannot tell`: the figure may have doubled or halved.
_OPEN = 2.0
#: A smaller value, such as a rate of 0, counts as this value, so that each ratio is finite.
_LEAST = 1.0


@dataclass(frozen=True)
class Verdict:
    """The change of a figure from the old to the tried settings.

    before, after  the medians of the figure under the old and under the tried settings
    ratio          the median of the pairs' ratios, tried to old
    low, high      the ends of the confidence interval of this median
    """

    name: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    more_is_better: bool

    @property
    def answer(self) -> str:
        """Return `better`, `worse`, `no difference was seen` or `cannot tell`."""
        if self.low <= 1 <= self.high:
            is_open = self.low < 1 / _OPEN or self.high > _OPEN
            return "cannot tell" if is_open else "no difference was seen"
        if abs(math.log(self.ratio)) < math.log1p(_MATTERS):
            return "no difference was seen"
        return "better" if (self.ratio > 1) == self.more_is_better else "worse"


def outside(pairs: int) -> int:
    """Return how many of the pairs' ratios lie at or beyond each end of the confidence interval.

    So the interval excludes 1 only if fewer pairs than this number go against the majority. The
    result is 0 if there are too few pairs for any difference to be seen.
    """
    beyond = 0.0
    for count in range(pairs):
        beyond += 2 * math.comb(pairs, count) / 2**pairs
        if beyond > CHANCE / FIGURES:
            return count
    return 0


def compared(
    name: str, before: Sequence[float], after: Sequence[float], more_is_better: bool
) -> Verdict | None:
    """Compare a figure's values. The values at the same index of `before` and `after` are a pair.

    Return None if there are too few pairs.
    """
    count = outside(len(before))
    if not count:
        return None
    ratios = sorted(
        max(_LEAST, now) / max(_LEAST, was) for was, now in zip(before, after, strict=True)
    )
    was, now = statistics.median(before), statistics.median(after)
    ratio = statistics.median(ratios)
    return Verdict(name, was, now, ratio, ratios[count - 1], ratios[-count], more_is_better)


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return helped, harmed, mixed, `no difference` or unknown.

    The answer is unknown without verdicts, or if no figure differs and one cannot be judged.
    """
    answers = {verdict.answer for verdict in verdicts}
    if {"better", "worse"} <= answers:
        return "mixed"
    if "better" in answers:
        return "helped"
    if "worse" in answers:
        return "harmed"
    return "unknown" if "cannot tell" in answers or not verdicts else "no difference"
