# SPDX-License-Identifier: GPL-2.0-only
"""Collect the durations of requests, and return percentiles of them."""

import random
from collections.abc import Iterable

#: A percentile is returned only if at least this many values are expected above it.
_BEYOND = 5
#: The most values that a Sample keeps. 100 of them are above its P99.
_KEPT = 10_000


class Times:
    """Durations in ns. All are kept: they are of sampled requests only, and sorting is fast."""

    def __init__(self) -> None:
        self._values: list[int] = []
        self._sorted = True

    def add(self, ns: int) -> None:
        """Keep a duration."""
        self._values.append(ns)
        self._sorted = False

    def merge(self, other: "Times") -> None:
        """Add the durations of `other`."""
        self._values += other._values
        self._sorted = False

    @property
    def count(self) -> int:
        """Return how many durations are kept."""
        return len(self._values)

    def quantile(self, q: float) -> int | None:
        """Return the quantile `q`, in ns; None if too few durations are expected above it."""
        if len(self._values) * (1 - q) < _BEYOND:
            return None
        if not self._sorted:
            self._values.sort()
            self._sorted = True
        return self._values[min(len(self._values) - 1, int(q * len(self._values)))]


class Sample(Times):
    """At most _KEPT of the added durations; each is as likely to be kept as any other."""

    def __init__(self) -> None:
        super().__init__()
        self._added = 0
        self._chance = random.Random(0)

    def add(self, ns: int) -> None:
        """Keep a duration. Once the sample is full, replace a random one by it, or drop it."""
        self._added += 1
        if len(self._values) < _KEPT:
            super().add(ns)
        elif (place := self._chance.randrange(self._added)) < _KEPT:
            self._values[place] = ns
            self._sorted = False


def merged(every: Iterable[Times]) -> Times:
    """Return a new Times with all durations of the given ones."""
    found = Times()
    for one in every:
        found.merge(one)
    return found
