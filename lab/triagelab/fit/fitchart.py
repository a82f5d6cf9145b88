# SPDX-License-Identifier: GPL-2.0-only
"""Draw the chart of a fitted drive: measured and modelled figures at each queue depth."""

from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from triagelab.base import files
from triagelab.fit.fitting import Compared
from triagelab.judge import figures
from triagelab.report import drawing

#: The figures in the chart: the key in a point -> the name for readers.
_FIGURES = {"iops": "IOPS", "mean_us": "mean latency, µs", "p99_us": "P99 latency, µs"}


def write(path: Path, name: str, compared: Sequence[Compared]) -> None:
    """Write a page with a panel for each figure in _FIGURES.

    Dots are measured figures, and lines are modelled ones. An open dot was held out of the fit.
    """
    figure = make_subplots(rows=1, cols=len(_FIGURES), subplot_titles=list(_FIGURES.values()))
    sizes = sorted({int(each.point.load["bytes"]) for each in compared})
    for column, key in enumerate(_FIGURES, 1):
        for place, size in enumerate(sizes):
            points = [
                each
                for each in compared
                if each.point.load["bytes"] == size and key in each.point.measured
            ]
            points.sort(key=lambda each: int(each.point.load["depth"]))
            colour = drawing.COLOURS[place % len(drawing.COLOURS)]
            depths = [int(each.point.load["depth"]) for each in points]
            label = f"{figures.digits(size / 1024)} KiB"
            figure.add_trace(
                go.Scatter(
                    x=depths,
                    y=[each.point.measured[key] for each in points],
                    mode="markers",
                    name=f"{label} measured",
                    showlegend=column == 1,
                    marker={
                        "color": colour,
                        "size": 9,
                        "symbol": [
                            "circle" if each.point.role == "fit" else "circle-open"
                            for each in points
                        ],
                    },
                ),
                row=1,
                col=column,
            )
            figure.add_trace(
                go.Scatter(
                    x=depths,
                    y=[each.modelled[key] for each in points],
                    mode="lines",
                    name=f"{label} modelled",
                    showlegend=column == 1,
                    line={"color": colour},
                ),
                row=1,
                col=column,
            )
    figure.update_xaxes(type="log", title="requests at once", tickvals=[4**n for n in range(6)])
    figure.update_yaxes(type="log")
    figure.update_layout(
        template="none",
        title=f"{name}: measured (open: held out of the fit) and modelled",
        height=480,
    )
    files.write_text(path, figure.to_html(include_plotlyjs=True))
