# SPDX-License-Identifier: GPL-2.0-only
"""Collect times of requests, and return their percentiles."""

from collections.abc import Iterable

#: A percentile is returned only if at least this many values are expected above it.
_BEYOND = 5


class Times:
    """Times in ns. All times are kept: samples are few, and sorting them is fast."""

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
        """Return the time, in ns, that a share `q` does not exceed; None if there are too few."""
        if len(self._values) * (1 - q) < _BEYOND:
            return None
        if not self._sorted:
            self._values.sort()
            self._sorted = True
        return self._values[min(len(self._values) - 1, int(q * len(self._values)))]


def merged(every: Iterable[Times]) -> Times:
    """Return one Times with the times of all."""
    found = Times()
    for one in every:
        found.merge(one)
    return found
