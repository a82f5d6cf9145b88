# SPDX-License-Identifier: GPL-2.0-only
"""Read a run directory for the reports."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from triagelab.judge import lookup
from triagelab.judge.lookup import View
from triagelab.measure import samples, summary
from triagelab.measure.summary import Values
from triagelab.run import records

Record = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """The measurements of one experiment: all runs' values in a table, and their summary."""

    out: Path
    environment: Record
    samples: pl.DataFrame
    _histograms: dict[str, dict[tuple[str, str], Counter[int]]] = field(default_factory=dict)

    @cached_property
    def summary(self) -> Record:
        """Return the content of summary.json."""
        return summary.summarise(self.samples, self.environment)

    @cached_property
    def values(self) -> Values:
        """Return the values of each point, scheduler, job and metric, by repeat."""
        return summary.by_repeat(self.samples)

    @cached_property
    def views(self) -> list[View]:
        """Return a view of each point, except the points where the protected job runs alone."""
        return lookup.views(self.summary, self.environment)

    def histograms(self, job: str) -> Mapping[tuple[str, str], Counter[int]]:
        """Return a job's histograms of total latency in ns, by point and scheduler."""
        if job not in self._histograms:
            self._histograms[job] = samples.histograms(self.out, job)
        return self._histograms[job]


def read(out: Path) -> Measured:
    """Read the measurements in `out`. Raise LabError if a finished run's files are malformed."""
    environment = records.read_environment(out)
    return Measured(out, environment, samples.collect(out))
