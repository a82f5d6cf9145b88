# SPDX-License-Identifier: GPL-2.0-only
"""Compare figures of a live load under two settings, and tell changes from its variation."""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: A comparison needs at least this many blocks of time under each setting. Each block gives one
#: value of a figure.
BLOCKS = 6
_RESAMPLES = 1000
#: Several figures are compared at once: with 95 % one in twenty would differ by chance.
_CONFIDENCE = 0.99
#: A smaller change is no reason to change a machine's settings.
_MATTERS = 0.05


@dataclass(frozen=True)
class Verdict:
    """The change of a figure: the ratio of the medians, and its confidence interval (low, high)."""

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
    """Compare a figure's values, one per block of time, before and after a change.

    Return None if there are too few values, or if one is not above 0.
    """
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
    """Return helped, harmed, mixed, `no difference` or, without verdicts, unknown."""
    answers = {verdict.answer for verdict in verdicts}
    if not verdicts:
        return "unknown"
    if {"better", "worse"} <= answers:
        return "mixed"
    if "better" in answers:
        return "helped"
    return "harmed" if "worse" in answers else "no difference"
