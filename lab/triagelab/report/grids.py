# SPDX-License-Identifier: GPL-2.0-only
"""Draw the chart of one metric over two varied settings, under one scheduler."""

import html
from collections.abc import Sequence

import plotly.graph_objects as go

from triagelab.base.metrics import MAXIMUM
from triagelab.base.settings import Value
from triagelab.judge import figures
from triagelab.judge.lookup import View
from triagelab.report import drawing
from triagelab.report.drawing import Chart

Cell = tuple[Value, Value, View]  # the values of x and y, and the view of that point

ROW = 40  # pixels


def grid(
    identity: str,
    cells: Sequence[Cell],
    names: tuple[str, str],
    scheduler: str,
    job: str | None,
    metric: str,
) -> Chart | None:
    """Draw a cell with a figure for each pair of values; a darker cell has a higher figure.

    If there are too few requests for a percentile in some cell, under this scheduler or another,
    draw the maximum in all cells. Return None if no cell has a value.

    names  the names of the varied settings: first that of the x axis, then that of the y axis
    """
    if any(view.told(job, metric) != metric for _, _, view in cells):
        metric = MAXIMUM
    rows = {
        (x, y): row for x, y, view in cells if (row := view.row(scheduler, job, metric)) is not None
    }
    if not rows:
        return None
    xs = list(dict.fromkeys(x for x, _, _ in cells))
    ys = list(dict.fromkeys(y for _, y, _ in cells))
    means = {place: row["mean"] for place, row in rows.items()}
    texts = {(x, y): view.mean(scheduler, job, metric) for x, y, view in cells}
    panel = go.Heatmap(
        x=list(range(len(xs))),
        y=list(range(len(ys))),
        z=[[means.get((x, y)) for x in xs] for y in ys],
        text=[[texts.get((x, y), "") for x in xs] for y in ys],
        texttemplate="%{text}",
        colorscale="Blues",
        showscale=False,
        xgap=2,
        ygap=2,
        hovertemplate="%{text}<extra></extra>",
    )
    figure = go.Figure(panel)
    figure.update_layout(
        **drawing.layout(70 + ROW * len(ys), {"l": 80, "r": 12, "t": 8, "b": 46}),
        xaxis=_axis(names[0], xs),
        yaxis=_axis(names[1], ys),
    )
    first = sorted(means, key=lambda place: means[place])
    said = [
        f"{texts[place]} at {names[0]} = {place[0]} and {names[1]} = {place[1]}"
        for place in (first[0], first[-1])
    ]
    of = f"{job}'s " if job else ""
    title = f"Under {scheduler} {of}{figures.name_of(metric)} is from {said[0]} to {said[1]}"
    return drawing.chart(identity, title, "The darker, the higher; means over repeats.", figure)


def _axis(name: str, values: list[Value]) -> dict[str, object]:
    return drawing.axis(
        html.escape(name),
        tickvals=list(range(len(values))),
        ticktext=[html.escape(str(value)) for value in values],
        showgrid=False,
    )
