# SPDX-License-Identifier: GPL-2.0-only
"""Make up an experiment's results, and read from them everything that charts are made from."""

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
        """Return the only view."""
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
    """Return a chart's input to plotly."""
    loaded: dict[str, Any] = json.loads(chart.drawing)
    return loaded


def plain(text: str) -> str:
    """Replace all kinds of spaces by one."""
    return text.replace("\u202f", " ").replace("\u00a0", " ")
