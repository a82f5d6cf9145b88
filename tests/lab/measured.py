# SPDX-License-Identifier: GPL-2.0-only
"""Make up an experiment's results, and read from them the data that charts need."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import polars as pl
from triagelab.judge import lookup
from triagelab.judge.lookup import View
from triagelab.measure import samples, summary
from triagelab.report import drawing
from triagelab.report.drawing import Chart, Style
from triagelab.run import records

from tests.lab import rundirs


@dataclasses.dataclass(frozen=True)
class Case:
    views: list[View]
    values: summary.Values
    measured: pl.DataFrame
    looks: dict[str, Style]

    @property
    def view(self) -> View:
        """Return the view of the matrix's only point; fail if the matrix has more points."""
        (view,) = self.views
        return view


def case(folder: Path, bench: rundirs.Bench) -> Case:
    out = rundirs.make(folder / "out", bench)
    measured = samples.collect(out)
    environment = records.read_environment(out)
    views = lookup.views(summary.summarise(measured, environment), environment)
    looks = drawing.styles(environment["schedulers"])
    return Case(views, summary.by_repeat(measured), measured, looks)


def drawn(chart: Chart) -> dict[str, Any]:
    """Return the data and layout that a chart passes to plotly, parsed from JSON."""
    loaded: dict[str, Any] = json.loads(chart.drawing)
    return loaded


def plain(text: str) -> str:
    """Return the text with plain spaces in place of narrow and normal no-break spaces."""
    return text.replace("\u202f", " ").replace("\u00a0", " ")
