# SPDX-License-Identifier: GPL-2.0-only
"""A run directory, read: what reports are made from."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from triagelab import lookup, samples, summary
from triagelab.lookup import View
from triagelab.summary import Values

Record = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """What an experiment measured, from the tidy table to what charts are drawn by."""

    out: Path
    environment: Record
    samples: pl.DataFrame
    _histograms: dict[str, dict[tuple[str, str], Counter[int]]] = field(default_factory=dict)

    @cached_property
    def summary(self) -> Record:
        """The content of summary.json."""
        return summary.summarise(self.samples, self.environment)

    @cached_property
    def values(self) -> Values:
        """Each metric by repeat."""
        return summary.by_repeat(self.samples)

    @cached_property
    def views(self) -> list[View]:
        """Each point of the matrix."""
        return lookup.views(self.summary, self.environment)

    def histograms(self, job: str) -> Mapping[tuple[str, str], Counter[int]]:
        """Latencies of a fio job, in bins of ns, by point and scheduler."""
        if job not in self._histograms:
            self._histograms[job] = samples.histograms(self.out, job)
        return self._histograms[job]


def read(out: Path) -> Measured:
    """What was measured in `out`; LabError when a finished run's files make no sense."""
    environment = samples.read_environment(out)
    return Measured(out, environment, samples.collect(out))
