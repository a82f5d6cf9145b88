# SPDX-License-Identifier: GPL-2.0-only
"""Draw charts over time: one panel for each scheduler, stacked on a common time axis."""

import math
from dataclasses import dataclass
from statistics import median
from typing import Any

import plotly.graph_objects as go
import polars as pl

from triagelab.ask import fiofile
from triagelab.judge import bottleneck, figures
from triagelab.judge.figures import scale_for
from triagelab.judge.lookup import View
from triagelab.report import drawing
from triagelab.report.drawing import INK, Chart, Style

FIO_WINDOW = fiofile.LOG_WINDOW_MS / 1000  # seconds over which fio averages its logs
SAMPLE_WINDOW = 0.1  # seconds between two samples of the guest's counters
POINTS_OVER_TIME = 120  # more points would not be visible at the width of a page


@dataclass(frozen=True)
class Line:
    """A value over time: mean, minimum and maximum over the repeats."""

    time_s: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


# ---- latency --------------------------------------------------------------------


def latency(
    identity: str, view: View, job: str, samples: pl.DataFrame, looks: dict[str, Style]
) -> Chart | None:
    """Draw completion and total latency of one job over time.

    Time counts from the job's start. Return None if there is no latency over time.
    """
    here = _over_time(samples, view).filter(pl.col("job") == job)
    width = _window(here, FIO_WINDOW)
    completion = _lines(here, view.schedulers, "clat_us", FIO_WINDOW, width)
    total = _lines(here, view.schedulers, "lat_us", FIO_WINDOW, width)
    panels = [name for name in view.schedulers if name in completion or name in total]
    if not panels:
        return None
    lowest = min(min(line.low) for line in (*completion.values(), *total.values()))
    highest = max(max(line.high) for line in (*completion.values(), *total.values()))
    middle = math.sqrt(max(lowest, 0.001) * highest)
    scale = scale_for("µs", middle)
    # The axis covers at least a factor of about two, so that noise does not look like a change.
    low = min(lowest / 1.15, middle / 1.5) / scale.divisor
    high = max(highest * 1.15, middle * 1.5) / scale.divisor
    ticks, labels = drawing.log_ticks(low, high, most=4)
    up = {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": ticks,
        "ticktext": labels,
    }

    figure = _panels(panels, up, f"latency ({scale.unit}, log)", _end(here), "the job's start")
    for index, name in enumerate(panels):
        if name in completion:
            figure.add_traces(_band(completion[name], scale.divisor, looks[name].colour, index))
        if name in total:
            figure.add_trace(_dotted(total[name], scale.divisor, index))
    note = (
        f"Line: completion latency, the mean of {width * 1000:.0f} ms, over repeats; shaded: "
        "lowest to highest repeat; dotted: total latency, which adds the wait inside submission."
    )
    return drawing.chart(identity, _latency_title(job, completion, width), note, figure)


def _latency_title(job: str, lines: dict[str, Line], width: float) -> str:
    """Return the title: the lowest and the highest usual latency of the schedulers.

    A scheduler's usual latency is the median of its windows' means. The title adds the mean of its
    worst window in brackets.
    """
    if not lines:
        return f"{job}: latency over time"
    usual = {name: median(line.mean) for name, line in lines.items()}
    ranked = sorted(usual, key=lambda name: usual[name])
    ends = dict.fromkeys((ranked[0], ranked[-1]))
    levels = [
        f"{figures.quantity(usual[name], 'µs')} under {name} "
        f"(worst {width * 1000:.0f} ms: {figures.quantity(max(lines[name].mean), 'µs')})"
        for name in ends
    ]
    return f"{job}: completion latency is usually {figures.listed(levels)}"


# ---- utilisation ----------------------------------------------------------------


def utilisation(
    identity: str, view: View, samples: pl.DataFrame, looks: dict[str, Style]
) -> Chart | None:
    """Draw the device's utilisation over time; return None if it is unknown.

    Time counts from the first sample with I/O.
    """
    here = _over_time(samples, view).filter(pl.col("job").is_null())
    width = _window(here, SAMPLE_WINDOW)
    used = _lines(here, view.schedulers, "device_utilisation", SAMPLE_WINDOW, width)
    if not used:
        return None
    highest = max(1.0, *(max(line.high) for line in used.values()))
    percent = 0.01
    up = {"range": [0, 1.05 * highest / percent], "tickvals": [0, 50, 100]}
    figure = _panels(list(used), up, "device utilisation (%)", _end(here), "the first I/O")
    for index, (name, line) in enumerate(used.items()):
        figure.add_traces(_band(line, percent, looks[name].colour, index))
    note = (
        f"Share of the device's capacity{_of_parts(view)}, in each {width * 1000:.0f} ms: mean "
        "over repeats; shaded: lowest to highest repeat."
    )
    if highest > 1.05:  # a smaller excess is hardly visible
        note += " An operation counts where it begins or ends, hence more than 100 % in places."
    return drawing.chart(identity, bottleneck.saturation(view), note, figure)


def _of_parts(view: View) -> str:
    if len(view.parts) < 2:
        return ""
    *most, last = view.parts
    return f" (of {', '.join(most)} or {last}, whichever is used most)"


# ---- shared by both charts ------------------------------------------------------


def _over_time(samples: pl.DataFrame, view: View) -> pl.DataFrame:
    return samples.filter(pl.col("time_s").is_not_null(), pl.col("point") == view.point)


def _end(here: pl.DataFrame) -> float:
    """Return the time of the last value, in seconds; 0 if there is no value."""
    return float(here.select(pl.col("time_s").max().fill_null(0.0)).item())


def _window(here: pl.DataFrame, step: float) -> float:
    """Return the length of an averaging window in seconds: a multiple of `step`.

    With this length, a line has at most about POINTS_OVER_TIME windows.
    """
    return step * max(math.ceil(_end(here) / POINTS_OVER_TIME / step), 1)


def _lines(
    here: pl.DataFrame, schedulers: list[str], metric: str, step: float, width: float
) -> dict[str, Line]:
    """Return a line for each scheduler that has values. See _line() for `step` and `width`."""
    lines = {name: _line(here, name, metric, step, width) for name in schedulers}
    return {name: line for name, line in lines.items() if line}


def _line(
    here: pl.DataFrame, scheduler: str, metric: str, step: float, width: float
) -> Line | None:
    """Return a metric's averages in windows of `width` seconds; None if there is no value.

    Values are averaged first within each repeat, then over repeats. A value covers the `step`
    seconds that end at about its time. fio does not report the number of requests behind a value
    of its log, so each value has the same weight. Values are added in the table's order, so the
    rounding errors are the same every time.
    """
    windows = (
        here.filter(pl.col("scheduler") == scheduler, pl.col("metric") == metric)
        .with_columns(window=((pl.col("time_s") - step / 2) / width).floor())
        .group_by("window", "repeat", maintain_order=True)
        .agg(pl.col("value").mean())
        .group_by("window", maintain_order=True)
        .agg(mean=pl.col("value").mean(), low=pl.col("value").min(), high=pl.col("value").max())
        .sort("window")
    )
    if windows.is_empty():
        return None
    return Line(
        [(window + 0.5) * width for window in windows["window"].to_list()],
        windows["mean"].to_list(),
        windows["low"].to_list(),
        windows["high"].to_list(),
    )


def _panels(names: list[str], up: dict[str, Any], title: str, end: float, since: str) -> go.Figure:
    """Return a figure with an empty panel for each name, one below the other.

    up     plotly's settings of each y axis
    title  the title that all y axes share
    since  the event from which the time axis counts
    """
    figure = go.Figure()
    count = len(names)
    for index, name in enumerate(names):
        domain = [(count - index - 1) / count, (count - index - 0.22) / count]
        axis = drawing.axis("", **up, domain=domain, anchor="x")
        figure.update_layout({_axis(index).replace("y", "yaxis"): axis})
        figure.add_annotation(drawing.heading(name, _axis(index)))
    figure.add_annotation(drawing.side_title(title))
    across = drawing.axis(f"time since {since} (s)", range=[0, end], anchor=_axis(count - 1))
    figure.update_layout(
        **drawing.layout(60 + 104 * count, {"l": 62, "r": 12, "t": 22, "b": 46}), xaxis=across
    )
    return figure


def _axis(panel: int) -> str:
    """Return plotly's name of a panel's y axis."""
    return f"y{panel + 1}" if panel else "y"


def _band(line: Line, divisor: float, colour: str, panel: int) -> list[go.Scatter]:
    """Return the line of the mean and, behind it, a band from the lowest to the highest repeat."""
    axis = _axis(panel)
    edge = {"x": line.time_s, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    return [
        go.Scatter(y=_divided(line.low, divisor), yaxis=axis, **edge),
        go.Scatter(
            y=_divided(line.high, divisor),
            yaxis=axis,
            fill="tonexty",
            fillcolor=_transparent(colour),
            **edge,
        ),
        go.Scatter(
            x=line.time_s,
            y=_divided(line.mean, divisor),
            yaxis=axis,
            mode="lines" if len(line.mean) > 1 else "markers",  # a single point makes no line
            line={"color": colour, "width": 2},
            marker={"color": colour},
            hovertemplate="%{x:.2f} s: %{y:.3g}<extra></extra>",
        ),
    ]


def _dotted(line: Line, divisor: float, panel: int) -> go.Scatter:
    return go.Scatter(
        x=line.time_s,
        y=_divided(line.mean, divisor),
        yaxis=_axis(panel),
        mode="lines",
        line={"color": INK, "width": 1, "dash": "dot"},
        hoverinfo="skip",
    )


def _divided(values: list[float], divisor: float) -> list[float]:
    return [value / divisor for value in values]


def _transparent(colour: str) -> str:
    red, green, blue = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.25)"
