# SPDX-License-Identifier: GPL-2.0-only
"""Collect times of requests, and return their percentiles."""

import random
from collections.abc import Iterable

#: A percentile is returned only if at least this many values are expected above it.
_BEYOND = 5
#: The largest number of times that a Sample keeps. 100 of them are above its P99.
_KEPT = 10_000


class Times:
    """Times in ns, all of which are kept: sampled requests are few, and sorting is fast."""

    def __init__(self) -> None:
        self._values: list[int] = []
        self._sorted = True

    def add(self, ns: int) -> None:
        """Keep a time."""
        self._values.append(ns)
        self._sorted = False

    def merge(self, other: "Times") -> None:
        """Add the times of `other`."""
        self._values += other._values
        self._sorted = False

    @property
    def count(self) -> int:
        """Return the number of times."""
        return len(self._values)

    def quantile(self, q: float) -> int | None:
        """Return the quantile `q`, in ns; None if too few times are expected above it."""
        if len(self._values) * (1 - q) < _BEYOND:
            return None
        if not self._sorted:
            self._values.sort()
            self._sorted = True
        return self._values[min(len(self._values) - 1, int(q * len(self._values)))]


class Sample(Times):
    """At most _KEPT of the times that were added; each is as likely to be kept as any other."""

    def __init__(self) -> None:
        super().__init__()
        self._added = 0
        self._chance = random.Random(0)

    def add(self, ns: int) -> None:
        """Keep a time, or leave it out. Once the sample is full, a kept time replaces another."""
        self._added += 1
        if len(self._values) < _KEPT:
            super().add(ns)
        elif (place := self._chance.randrange(self._added)) < _KEPT:
            self._values[place] = ns
            self._sorted = False


def merged(every: Iterable[Times]) -> Times:
    """Return a new Times with all times of the given ones."""
    found = Times()
    for one in every:
        found.merge(one)
    return found
