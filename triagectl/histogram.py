# SPDX-License-Identifier: GPL-2.0-only
"""Distributions of times, in buckets that are 3 % wide."""

from collections import Counter
from collections.abc import Iterable

#: Sub-buckets of each power of two.
_STEPS_LOG2 = 5
#: A percentile is told only if this many values are expected to lie beyond it.
_BEYOND = 5


class Histogram:
    """Counts of times in ns. Below 32 ns each has a bucket of its own."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.most = 0

    def add(self, ns: int) -> None:
        """Count a time."""
        shift = max(0, ns.bit_length() - 1 - _STEPS_LOG2)
        self._counts[shift << _STEPS_LOG2 | ns >> shift if shift else ns] += 1
        self.count += 1
        self.most = max(self.most, ns)

    def merge(self, other: "Histogram") -> None:
        """Count what another has counted."""
        self._counts.update(other._counts)
        self.count += other.count
        self.most = max(self.most, other.most)

    def quantile(self, q: float) -> int | None:
        """Return the time in ns that a share `q` is not above; None if too few were counted."""
        if self.count * (1 - q) < _BEYOND:
            return None
        left = q * self.count
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                return min(_middle(bucket), self.most)
        return self.most


def _middle(bucket: int) -> int:
    """Return the middle of a bucket's times."""
    shift = max(0, (bucket >> _STEPS_LOG2) - 1)
    if not shift:
        return bucket
    low = (bucket - (shift << _STEPS_LOG2)) << shift
    return low + (1 << shift >> 1)


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """Return one histogram of all."""
    found = Histogram()
    for one in histograms:
        found.merge(one)
    return found
