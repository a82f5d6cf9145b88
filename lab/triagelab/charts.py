# SPDX-License-Identifier: GPL-2.0-only
"""The report's charts.

A chart's title states what it shows, from the figures, and stands in the page
rather than in the drawing, where it could not wrap.  Schedulers differ by colour
(Okabe and Ito, 2008, told apart by colour-blind people) and by marker or hatching,
so that the charts can be read in grey.
"""

import html
import math
from dataclasses import dataclass
from statistics import median
from typing import Any

import plotly.graph_objects as go
import plotly.io
import polars as pl
from scipy.optimize import isotonic_regression

from triagelab import findings, statistics
from triagelab.findings import BASELINE, NAMES, View, scale_for
from triagelab.samples import UNITS
from triagelab.summary import Values, alone_key

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "star", "triangle-down")
HATCHES = ("/", "x", "-", "\\", ".", "+", "|")
GREY = "#8a8a8a"  # the baseline
INK = "#222222"
RULES = "#e3e3e3"

FIO_WINDOW = 0.05  # seconds that fio averages its logs over (log_avg_msec)
POINTS_OVER_TIME = 120  # more would not be seen at the width of a page
LABEL_GAP = 17  # pixels between the middles of two labels

NOTES = {
    "cpu_s": "User and system time of fio's threads: more I/Os take more of it.",
    "instructions_per_io": "All that the virtual CPU does, fio and interrupts too, over all I/Os.",
}


@dataclass(frozen=True)
class Chart:
    """A drawing, its title, and what a reader needs to know of it."""

    identity: str  # of its element in the page
    title: str
    note: str
    drawing: str  # plotly's JSON, safe inside a script element
    height: int  # pixels


@dataclass(frozen=True)
class Style:
    """How a scheduler looks in every chart of a report."""

    colour: str
    marker: str
    hatch: str


def styles(schedulers: list[str]) -> dict[str, Style]:
    """A style for each scheduler; the baseline is plain and grey in all reports."""
    others = [name for name in schedulers if name != BASELINE]
    chosen = {BASELINE: Style(GREY, "circle-open", "")}
    for index, name in enumerate(others):
        chosen[name] = Style(
            COLOURS[index % len(COLOURS)],
            MARKERS[index % len(MARKERS)],
            HATCHES[index % len(HATCHES)],
        )
    return chosen


# ---- protection against cost ----------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where a scheduler stands: what it protects, and what the background keeps."""

    scheduler: str
    protection: statistics.Comparison  # P99 of the protected job over its P99 alone
    kept: statistics.Comparison  # background throughput over that of the baseline


def places(view: View, values: Values) -> list[Place]:
    """Each scheduler's place, from paired repeats; without those that lack a side."""
    alone = alone_key(view.point, [key[0] for key in values])
    if view.protected is None or alone is None:
        return []
    found = []
    quiet = values.get((alone, BASELINE, view.protected, "p99_us"), {})
    base = _background(view, values, BASELINE)
    for scheduler in view.schedulers:
        latency = values.get((view.point, scheduler, view.protected, "p99_us"), {})
        protection = statistics.compare(latency, quiet)
        kept = statistics.compare(_background(view, values, scheduler), base)
        if protection and kept and protection.ratio and kept.ratio is not None:
            found.append(Place(scheduler, protection, kept))
    return found


def _background(view: View, values: Values, scheduler: str) -> dict[int, float]:
    """Bytes a second of all background jobs together, by repeat."""
    jobs = [values.get((view.point, scheduler, job, "bytes_per_s"), {}) for job in view.background]
    if not jobs:
        return {}
    complete = set.intersection(*(set(job) for job in jobs))
    return {repeat: sum(job[repeat] for job in jobs) for repeat in complete}


def protection(identity: str, found: list[Place], view: View, looks: dict[str, Style]) -> Chart:
    """Protection (down is better) against cost (right is better), a dot a scheduler."""
    height, margin = 420, {"l": 62, "r": 16, "t": 14, "b": 52}
    bottom, top = _log_range(found)
    right = max(1.0, *(_ratio(place.kept) for place in found)) * 1.06
    pixels = (height - margin["t"] - margin["b"]) / (top - bottom)
    shifts = _label_shifts([_ratio(place.protection) for place in found], pixels)

    figure = go.Figure()
    # The baseline comes last: its open circle shows what else stands there.
    for place in sorted(found, key=lambda place: place.scheduler == BASELINE):
        figure.add_trace(_dot(place, looks[place.scheduler]))
    for place, shift in zip(found, shifts, strict=True):
        figure.add_annotation(_label(place, shift, to_the_left=_ratio(place.kept) > right / 2))
    for perfect in (figure.add_hline, figure.add_vline):
        perfect(1, line={"color": INK, "width": 1, "dash": "dash"})
    figure.add_annotation(
        xref="x domain",
        yref="y domain",
        x=0.5,
        y=0.02,
        yanchor="bottom",
        text="better: down and to the right",
        font={"size": 12, "color": "#555555"},
        showarrow=False,
    )
    ticks, names = log_ticks(10**bottom, 10**top)
    across = f"background throughput, share of {BASELINE}'s"
    up = "P99, times that of the job alone"
    figure.update_layout(
        **_layout(height, margin),
        xaxis=_axis(across, range=[0, right], tickformat=".0%"),
        yaxis=_axis(
            up,
            type="log",
            range=[bottom, top],
            tickvals=ticks,
            ticktext=[f"{name} ×" for name in names],
        ),
    )
    together = " together" if len(view.background) > 1 else ""
    note = (
        f"Up: P99 total latency of {view.protected}, as a ratio to running alone (log axis). "
        f"Across: bytes a second of {findings.listed(view.background)}{together}, as a ratio to "
        f"{BASELINE}. Bars are 95 % intervals over repeats; a perfect scheduler would stand where "
        "the dashed lines cross."
    )
    return _chart(identity, _protection_title(found, view), note, figure)


def _log_range(found: list[Place]) -> tuple[float, float]:
    """Logarithms of the ends of the upward axis: all intervals and 1, with room around."""
    ends = [1.0, 2.0]
    for place in found:
        ends += place.protection.ci95 or (_ratio(place.protection),)
    low, high = math.log10(min(ends)), math.log10(max(ends))
    room = 0.08 * (high - low) + 0.03
    return low - room, high + room


def _dot(place: Place, look: Style) -> go.Scatter:
    hollow = look.marker.endswith("open")
    name = html.escape(place.scheduler)
    return go.Scatter(
        x=[_ratio(place.kept)],
        y=[_ratio(place.protection)],
        error_x=_error_bar(_ratio(place.kept), place.kept.ci95, look.colour),
        error_y=_error_bar(_ratio(place.protection), place.protection.ci95, look.colour),
        mode="markers",
        marker={
            "symbol": look.marker,
            "size": 20 if hollow else 14,
            "color": look.colour,
            "line": {"color": look.colour if hollow else "white", "width": 2 if hollow else 1},
        },
        name=name,
        hovertemplate=f"<b>{name}</b><br>P99 {findings.times(place.protection)} alone"
        f"<br>background keeps {findings.share(place.kept)}<extra></extra>",
    )


def _label(place: Place, shift: float, *, to_the_left: bool) -> dict[str, Any]:
    return {
        "x": _ratio(place.kept),
        "y": math.log10(_ratio(place.protection)),
        "text": html.escape(place.scheduler),
        "ax": -22 if to_the_left else 22,
        "ay": shift,
        "xanchor": "right" if to_the_left else "left",
        "font": {"size": 13, "color": INK},
        "bgcolor": "rgba(255,255,255,0.75)",
        "borderpad": 1,
        "showarrow": True,
        "arrowhead": 0,
        "arrowwidth": 1,
        "arrowcolor": GREY,
        "standoff": 8,
    }


def _protection_title(found: list[Place], view: View) -> str:
    """Who protects most, and who costs least of those that protect at all."""
    names = view.protectors()
    protectors = [place for place in found if place.scheduler in names]
    if not protectors:
        ratios = [_ratio(place.protection) for place in found]
        least, most = findings.digits(min(ratios)), findings.digits(max(ratios))
        reach = f"{least} to {most}" if least != most else least
        few = view.repeats < statistics.REPEATS_FOR_VERDICT
        seen = "too few repeats to tell if one does" if few else "no scheduler was seen to do"
        return (
            f"{view.protected}'s P99 is {reach} × what it is alone: {seen} better than {BASELINE}"
        )
    best = min(protectors, key=lambda place: _ratio(place.protection))
    cheapest = max(protectors, key=lambda place: _ratio(place.kept))
    where = f"{best.scheduler} protects most, {_standing(best)}"
    if best == cheapest:
        return f"{where}; of those that protect, none costs less"
    return f"{where}; {cheapest.scheduler} costs least of those that protect, {_standing(cheapest)}"


def _standing(place: Place) -> str:
    ratio = findings.digits(_ratio(place.protection))
    return (
        f"{ratio} × alone with {findings.digits(100 * _ratio(place.kept))} % of the background kept"
    )


def _ratio(comparison: statistics.Comparison) -> float:
    assert comparison.ratio is not None  # places() leaves out what has none
    return comparison.ratio


def _label_shifts(heights: list[float], pixels: float) -> list[float]:
    """How far to move each label, in pixels downwards, so that no two overlap.

    The least movement in the sense of squares: an isotonic regression of the
    positions, from which the gaps wanted have been taken out.
    """
    down = [-math.log10(height) * pixels for height in heights]
    order = sorted(range(len(down)), key=lambda index: down[index])
    gaps = [LABEL_GAP * rank for rank in range(len(order))]
    wanted = [down[index] - gap for index, gap in zip(order, gaps, strict=True)]
    placed = isotonic_regression(wanted).x
    shifts = [0.0] * len(down)
    for index, position, gap in zip(order, placed, gaps, strict=True):
        shifts[index] = float(position) + gap - down[index]
    return shifts


# ---- bars -----------------------------------------------------------------------


def bars(identity: str, view: View, job: str | None, metric: str, looks: dict[str, Style]) -> Chart:
    """One metric of one job: a bar a scheduler, with its interval."""
    rows = {name: row for name in view.schedulers if (row := view.row(name, job, metric))}
    alone = view.alone(metric) if job == view.protected else None
    longest = max(
        [max(row["ci95"] or [row["mean"]]) for row in rows.values()]
        + ([alone["mean"]] if alone else [])
    )
    scale = scale_for(UNITS[metric], longest)

    figure = go.Figure()
    for scheduler, row in rows.items():
        figure.add_trace(_bar(scheduler, row, scale.divisor, looks[scheduler]))
        figure.add_annotation(
            x=max(row["ci95"] or [row["mean"]]) / scale.divisor,
            y=html.escape(scheduler),
            text=findings.quantity(row["mean"], row["unit"]),
            xanchor="left",
            xshift=5,
            font={"size": 12, "color": INK},
            bgcolor="rgba(255,255,255,0.8)",
            showarrow=False,
        )
    if alone:
        dashed = {"color": INK, "width": 1.5, "dash": "dash"}
        figure.add_vline(x=alone["mean"] / scale.divisor, line=dashed)
    label = f"{NAMES[metric]} ({scale.unit})" if scale.unit else NAMES[metric]
    room = 1.38  # for the value to the right of the longest bar
    figure.update_layout(
        **_layout(66 + 30 * len(rows), {"l": 10, "r": 12, "t": 6, "b": 46}),
        bargap=0.3,
        xaxis=_axis(label, range=[0, longest / scale.divisor * room or 1]),
        yaxis=_axis(
            "",
            categoryorder="array",
            categoryarray=[html.escape(name) for name in reversed(rows)],
            automargin=True,
            showgrid=False,
        ),
    )
    notes = [f"Dashed: {job} alone, {findings.shown(alone)}."] if alone else []
    notes += [NOTES[metric]] if metric in NOTES else []
    return _chart(identity, findings.title(view, job, metric), " ".join(notes), figure)


def _bar(scheduler: str, row: dict[str, Any], divisor: float, look: Style) -> go.Bar:
    name = html.escape(scheduler)
    mean = row["mean"] / divisor
    interval = tuple(end / divisor for end in row["ci95"]) if row["ci95"] else None
    return go.Bar(
        y=[name],
        x=[mean],
        orientation="h",
        error_x=_error_bar(mean, interval, INK),
        marker={
            "color": look.colour,
            "pattern": {
                "shape": look.hatch,
                "fillmode": "overlay",
                "fgcolor": "white",
                "fgopacity": 0.7,
                "solidity": 0.2,
                "size": 8,
            },
        },
        name=name,
        hovertemplate=f"{name}: {findings.shown(row)}<extra></extra>",
    )


# ---- latency over time ----------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A latency over time: mean, least and most over the repeats, in µs."""

    time_s: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


def over_time(
    identity: str, view: View, job: str, samples: pl.DataFrame, looks: dict[str, Style]
) -> Chart | None:
    """Completion latency of one job since its start, one panel a scheduler.

    None when there is no log of it.
    """
    here = samples.filter(
        pl.col("time_s").is_not_null(), pl.col("job") == job, pl.col("point") == view.point
    )
    if here.is_empty():
        return None
    last = float(here.select(pl.col("time_s").max()).item())
    width = FIO_WINDOW * max(math.ceil(last / POINTS_OVER_TIME / FIO_WINDOW), 1)
    completion = _lines(here, view.schedulers, "clat_us", width)
    total = _lines(here, view.schedulers, "lat_us", width)
    panels = [name for name in view.schedulers if name in completion or name in total]
    if not panels:
        return None
    lowest = min(min(line.low) for line in (*completion.values(), *total.values()))
    highest = max(max(line.high) for line in (*completion.values(), *total.values()))
    middle = math.sqrt(max(lowest, 0.001) * highest)
    # No less than about a factor of two, or noise would look like news.
    low, high = min(lowest / 1.15, middle / 1.5), max(highest * 1.15, middle * 1.5)
    scale = scale_for("µs", middle)

    figure = go.Figure()
    for index, name in enumerate(panels):
        axis = f"y{index + 1}" if index else "y"
        if name in completion:
            figure.add_traces(_band(completion[name], scale.divisor, looks[name].colour, axis))
        if name in total:
            figure.add_trace(_dotted(total[name], scale.divisor, axis))
        settings = _panel(index, len(panels), low / scale.divisor, high / scale.divisor)
        figure.update_layout({axis.replace("y", "yaxis"): settings})
        figure.add_annotation(_heading(name, axis))
    figure.add_annotation(
        xref="paper",
        yref="paper",
        x=0,
        xshift=-56,
        y=0.5,
        textangle=-90,
        text=f"latency ({scale.unit}, log)",
        font={"size": 12, "color": INK},
        showarrow=False,
    )
    figure.update_layout(
        **_layout(60 + 104 * len(panels), {"l": 62, "r": 12, "t": 22, "b": 46}),
        xaxis=_axis("time since the job's start (s)", range=[0, last], anchor=axis),
    )
    note = (
        f"Line: completion latency, the mean of {width * 1000:.0f} ms, over repeats; shaded: "
        "lowest to highest repeat; dotted: total latency, which adds the wait inside submission."
    )
    return _chart(identity, _over_time_title(job, completion, width), note, figure)


def _lines(here: pl.DataFrame, schedulers: list[str], metric: str, width: float) -> dict[str, Line]:
    lines = {name: _line(here, name, metric, width) for name in schedulers}
    return {name: line for name, line in lines.items() if line}


def _line(here: pl.DataFrame, scheduler: str, metric: str, width: float) -> Line | None:
    """fio's averages in windows of `width` seconds, first by repeat, then over repeats.

    fio gives a mean for each of its own windows, not how many requests it covers: a
    window counts once, whatever it covers.
    """
    windows = (
        here.filter(pl.col("scheduler") == scheduler, pl.col("metric") == metric)
        # A log entry stands at its window's end.
        .with_columns(window=((pl.col("time_s") - 1e-6) / width).floor())
        .group_by("window", "repeat")
        .agg(pl.col("value").mean())
        .group_by("window")
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


def _band(line: Line, divisor: float, colour: str, axis: str) -> list[go.Scatter]:
    """The mean, over a band from the lowest to the highest repeat."""
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
            mode="lines",
            line={"color": colour, "width": 2},
            hovertemplate="%{x:.2f} s: %{y:.3g}<extra></extra>",
        ),
    ]


def _dotted(line: Line, divisor: float, axis: str) -> go.Scatter:
    return go.Scatter(
        x=line.time_s,
        y=_divided(line.mean, divisor),
        yaxis=axis,
        mode="lines",
        line={"color": INK, "width": 1, "dash": "dot"},
        hoverinfo="skip",
    )


def _divided(values: list[float], divisor: float) -> list[float]:
    return [value / divisor for value in values]


def _heading(name: str, axis: str) -> dict[str, Any]:
    return {
        "xref": "paper",
        "yref": f"{axis} domain",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "text": f"<b>{html.escape(name)}</b>",
        "font": {"size": 12, "color": INK},
        "showarrow": False,
    }


def _transparent(colour: str) -> str:
    red, green, blue = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.25)"


def _panel(index: int, count: int, low: float, high: float) -> dict[str, Any]:
    """The vertical axis of one of `count` panels, from the top."""
    values, labels = log_ticks(low, high, most=4)
    bottom, top = (count - index - 1) / count, (count - index - 0.22) / count
    return _axis(
        "",
        type="log",
        range=[math.log10(low), math.log10(high)],
        tickvals=values,
        ticktext=labels,
        domain=[bottom, top],
        anchor="x",
    )


def _over_time_title(job: str, lines: dict[str, Line], width: float) -> str:
    """The usual level (the median window) where it is lowest and highest, and the peaks."""
    if not lines:
        return f"{job}: latency over time"
    usual = {name: median(line.mean) for name, line in lines.items()}
    ranked = sorted(usual, key=lambda name: usual[name])
    ends = dict.fromkeys((ranked[0], ranked[-1]))
    levels = [
        f"{findings.quantity(usual[name], 'µs')} under {name} "
        f"(worst {width * 1000:.0f} ms: {findings.quantity(max(lines[name].mean), 'µs')})"
        for name in ends
    ]
    return f"{job}: completion latency is usually {findings.listed(levels)}"


# ---- what charts share ----------------------------------------------------------


def log_ticks(low: float, high: float, most: int = 8) -> tuple[list[float], list[str]]:
    """Round values between the ends of a log axis, at most `most`, and their labels."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            break
    return ticks, [f"{tick:.10g}" for tick in ticks]


def _error_bar(value: float, ci95: tuple[float, ...] | None, colour: str) -> dict[str, Any] | None:
    if ci95 is None:
        return None
    return {
        "type": "data",
        "symmetric": False,
        # A mean over few repeats may lie outside its interval by a rounding error.
        "array": [max(ci95[1] - value, 0)],
        "arrayminus": [max(value - ci95[0], 0)],
        "color": colour,
        "thickness": 1.5,
        "width": 5,
    }


def _axis(title: str, **settings: Any) -> dict[str, Any]:
    return {
        "title": {"text": title, "font": {"size": 12}},
        "gridcolor": RULES,
        "linecolor": GREY,
        "zeroline": False,
        "showline": True,
        "ticks": "outside",
        "tickcolor": GREY,
        "fixedrange": True,  # or a finger could not scroll past a chart
        **settings,
    }


def _layout(height: int, margin: dict[str, int]) -> dict[str, Any]:
    return {
        "template": "none",
        "height": height,
        "margin": margin,
        "showlegend": False,
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "hovermode": "closest",
        "dragmode": False,
    }


def _chart(identity: str, title: str, note: str, figure: go.Figure) -> Chart:
    # plotly escapes "<": its JSON can stand in a script element.
    return Chart(identity, title, note, str(plotly.io.to_json(figure)), figure.layout.height)
