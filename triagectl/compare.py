# SPDX-License-Identifier: GPL-2.0-only
"""Compare two conditions on a live load: which figures differ by more than the load varies?"""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: The fewest blocks of time that a comparison takes of each condition. A figure has one value in a
#: block.
BLOCKS = 6
_RESAMPLES = 1000
#: Several figures are compared at once: with 95 % one in twenty would differ by chance.
_CONFIDENCE = 0.99
#: A smaller change is no reason to change a machine's settings.
_MATTERS = 0.05


@dataclass(frozen=True)
class Verdict:
    """The change of a figure: the ratio of the two conditions' medians, and its interval."""

    name: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    more_is_better: bool

    @property
    def answer(self) -> str:
        """Return `better`, `worse`, or `no difference was seen`."""
        if self.low <= 1 <= self.high or abs(math.log(self.ratio)) < math.log1p(_MATTERS):
            return "no difference was seen"
        return "better" if (self.ratio > 1) == self.more_is_better else "worse"


def compared(
    name: str, before: Sequence[float], after: Sequence[float], more_is_better: bool
) -> Verdict | None:
    """Compare a figure's values in blocks of time; None if there are too few, or zeroes."""
    if min(len(before), len(after)) < BLOCKS or min(*before, *after) <= 0:
        return None
    chance = random.Random(0)
    ratios = sorted(
        statistics.median(chance.choices(after, k=len(after)))
        / statistics.median(chance.choices(before, k=len(before)))
        for _ in range(_RESAMPLES)
    )
    beyond = int(_RESAMPLES * (1 - _CONFIDENCE) / 2)
    was, now = statistics.median(before), statistics.median(after)
    return Verdict(name, was, now, now / was, ratios[beyond], ratios[-1 - beyond], more_is_better)


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return whether the change helped, in one word or two."""
    answers = {verdict.answer for verdict in verdicts}
    if not verdicts:
        return "unknown"
    if {"better", "worse"} <= answers:
        return "mixed"
    if "better" in answers:
        return "helped"
    return "harmed" if "worse" in answers else "no difference"
