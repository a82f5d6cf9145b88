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
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]
import plotly.io  # type: ignore[import-untyped]
import polars as pl
from scipy.optimize import isotonic_regression  # type: ignore[import-untyped]

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

POINTS_OVER_TIME = 120  # more would not be seen at the width of a page
LABEL_GAP = 17  # pixels between the middles of two labels

CONFIG = {"responsive": True, "displayModeBar": False}


@dataclass(frozen=True)
class Chart:
    """A drawing as HTML, its title, and what a reader needs to know of it."""

    title: str
    note: str
    drawing: str


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
    heights = [_ratio(place.protection) for place in found]
    lows = [place.protection.ci95[0] for place in found if place.protection.ci95]
    highs = [place.protection.ci95[1] for place in found if place.protection.ci95]
    low, high = min([*heights, *lows, 1.0]), max([*heights, *highs, 2.0])
    room = 0.08 * math.log10(high / low) + 0.03
    bottom, top = math.log10(low) - room, math.log10(high) + room
    right = max([_ratio(place.kept) for place in found] + [1.0]) * 1.06

    figure = go.Figure()
    for place in found:
        look = looks[place.scheduler]
        figure.add_scatter(
            x=[_ratio(place.kept)],
            y=[_ratio(place.protection)],
            error_x=_error_bar(_ratio(place.kept), place.kept.ci95, look.colour),
            error_y=_error_bar(_ratio(place.protection), place.protection.ci95, look.colour),
            mode="markers",
            marker={
                "symbol": look.marker,
                "size": 13,
                "color": look.colour,
                "line": {"color": look.colour if look.marker.endswith("open") else "white", "width": 2},
            },
            name=html.escape(place.scheduler),
            hovertemplate=(
                f"<b>{html.escape(place.scheduler)}</b><br>P99 {findings.times(place.protection)} alone<br>"
                f"background keeps {findings.share(place.kept)}<extra></extra>"
            ),
        )
    pixels = (height - margin["t"] - margin["b"]) / (top - bottom)
    for place, shift in zip(found, _label_shifts(heights, pixels), strict=True):
        to_the_left = _ratio(place.kept) > right / 2
        figure.add_annotation(
            x=_ratio(place.kept),
            y=math.log10(_ratio(place.protection)),
            text=html.escape(place.scheduler),
            ax=-22 if to_the_left else 22,
            ay=shift,
            xanchor="right" if to_the_left else "left",
            font={"size": 13, "color": INK},
            bgcolor="rgba(255,255,255,0.75)",
            borderpad=1,
            showarrow=True,
            arrowhead=0,
            arrowwidth=1,
            arrowcolor=GREY,
            standoff=8,
        )
    figure.add_hline(y=1, line={"color": INK, "width": 1, "dash": "dash"})
    figure.add_vline(x=1, line={"color": INK, "width": 1, "dash": "dash"})
    figure.add_annotation(
        xref="x domain", yref="y domain", x=0.5, y=0.02, showarrow=False, xanchor="center",
        yanchor="bottom", text="better: down and to the right", font={"size": 12, "color": "#555555"},
    )  # fmt: skip
    values, labels = log_ticks(10**bottom, 10**top)
    figure.update_layout(
        **_layout(height, margin),
        xaxis=_axis(f"background throughput, share of {BASELINE}'s", range=[0, right], tickformat=".0%"),
        yaxis=_axis(
            "P99, times that of the job alone",
            type="log",
            range=[bottom, top],
            tickvals=values,
            ticktext=[f"{label} ×" for label in labels],
        ),
    )
    return Chart(
        _protection_title(found, view),
        f"Up: P99 total latency of {view.protected}, as a ratio to running alone (log axis). "
        f"Across: bytes a second of {findings.listed(view.background)}"
        f"{' together' if len(view.background) > 1 else ''}, as a ratio to {BASELINE}. "
        "Bars are 95 % intervals over repeats; the dashed lines are what a perfect scheduler would reach.",
        _draw(identity, figure),
    )


def _protection_title(found: list[Place], view: View) -> str:
    best = min(found, key=lambda place: _ratio(place.protection))
    return (
        f"Best protection: {best.scheduler} holds {view.protected}'s P99 at "
        f"{findings.times(best.protection)} what it is alone; the background keeps {findings.share(best.kept)} "
        f"of its throughput"
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
    rows = {
        scheduler: row
        for scheduler in view.schedulers
        if (row := view.row(scheduler, job, metric)) is not None
    }
    alone = view.alone(metric) if job == view.protected else None
    ends = [findings.estimate(row).ci95 or (row["mean"], row["mean"]) for row in rows.values()]
    longest = max([high for _, high in ends] + ([alone["mean"]] if alone else []))
    scale = scale_for(UNITS[metric], longest)

    figure = go.Figure()
    for scheduler, row in rows.items():
        look = looks[scheduler]
        mean = row["mean"] / scale.divisor
        interval = tuple(end / scale.divisor for end in row["ci95"]) if row["ci95"] else None
        figure.add_bar(
            y=[html.escape(scheduler)],
            x=[mean],
            orientation="h",
            error_x=_error_bar(mean, interval, INK),
            marker={
                "color": look.colour,
                "pattern": {"shape": look.hatch, "fgcolor": "white", "solidity": 0.25, "size": 7},
            },
            name=html.escape(scheduler),
            hovertemplate=f"{html.escape(scheduler)}: {findings.shown(row)}<extra></extra>",
        )
        figure.add_annotation(
            x=interval[1] if interval else mean,
            y=html.escape(scheduler),
            text=findings.quantity(row["mean"], row["unit"]),
            showarrow=False,
            xanchor="left",
            xshift=5,
            font={"size": 12, "color": INK},
            bgcolor="rgba(255,255,255,0.8)",
        )
    if alone:
        figure.add_vline(x=alone["mean"] / scale.divisor, line={"color": INK, "width": 1.5, "dash": "dash"})
    label = NAMES[metric] if metric != "iops" else "I/Os a second"
    figure.update_layout(
        **_layout(66 + 30 * len(rows), {"l": 10, "r": 12, "t": 6, "b": 46}),
        bargap=0.3,
        # A value stands to the right of the longest bar.
        xaxis=_axis(f"{label} ({scale.unit})", range=[0, longest / scale.divisor * 1.38 or 1]),
        yaxis=_axis("", categoryorder="array", categoryarray=[html.escape(n) for n in reversed(rows)],
                    automargin=True, showgrid=False),
    )  # fmt: skip
    note = f"Dashed: {job} alone, {findings.shown(alone)}." if alone else ""
    return Chart(findings.extreme(view, job, metric), note, _draw(identity, figure))


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
    width = max(math.ceil(last / POINTS_OVER_TIME / 0.05) * 0.05, 0.05)
    completion = {name: _line(here, name, "clat_us", width) for name in view.schedulers}
    total = {name: _line(here, name, "lat_us", width) for name in view.schedulers}
    panels = [name for name in view.schedulers if completion[name] or total[name]]
    every = [value for name in panels for line in (completion[name], total[name]) if line
             for value in (*line.low, *line.high)]  # fmt: skip
    positive = [value for value in every if value > 0]
    if not positive:
        return None
    scale = scale_for("µs", math.sqrt(min(positive) * max(positive)))
    low, high = min(positive) / scale.divisor / 1.15, max(positive) / scale.divisor * 1.15

    figure = go.Figure()
    for index, name in enumerate(panels):
        axes = {"xaxis": "x", "yaxis": "y" if index == 0 else f"y{index + 1}"}
        if line := completion[name]:
            _add_line(figure, line, scale.divisor, looks[name].colour, axes)
        if line := total[name]:
            figure.add_scatter(
                x=line.time_s, y=[value / scale.divisor for value in line.mean], mode="lines",
                line={"color": INK, "width": 1, "dash": "dot"}, hoverinfo="skip", **axes,
            )  # fmt: skip
        figure.update_layout({f"yaxis{index + 1 if index else ''}": _panel(index, len(panels), low, high)})
        figure.add_annotation(
            xref="paper", yref=f"{axes['yaxis']} domain", x=0, y=1, xanchor="left", yanchor="bottom",
            text=f"<b>{html.escape(name)}</b>", showarrow=False, font={"size": 12, "color": INK},
        )  # fmt: skip
    figure.add_annotation(
        xref="paper", yref="paper", x=0, xshift=-56, y=0.5, textangle=-90, showarrow=False,
        text=f"latency ({scale.unit}, log)", font={"size": 12, "color": INK},
    )  # fmt: skip
    figure.update_layout(
        **_layout(60 + 104 * len(panels), {"l": 62, "r": 12, "t": 22, "b": 46}),
        xaxis=_axis("time since the job's start (s)", range=[0, last], anchor=f"y{len(panels)}" if len(panels) > 1 else "y"),
    )
    return Chart(
        _over_time_title(job, completion, width),
        f"Line: completion latency, the mean of {width * 1000:.0f} ms, over repeats; shaded: lowest to highest "
        "repeat; dotted: total latency, which adds the wait inside submission.",
        _draw(identity, figure),
    )


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


def _add_line(figure: go.Figure, line: Line, divisor: float, colour: str, axes: dict[str, str]) -> None:
    edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", **axes}
    figure.add_scatter(x=line.time_s, y=[value / divisor for value in line.low], **edge)
    figure.add_scatter(
        x=line.time_s, y=[value / divisor for value in line.high],
        fill="tonexty", fillcolor=_transparent(colour), **edge,
    )  # fmt: skip
    figure.add_scatter(
        x=line.time_s, y=[value / divisor for value in line.mean], mode="lines",
        line={"color": colour, "width": 2}, hovertemplate="%{x:.2f} s: %{y:.3g}<extra></extra>", **axes,
    )  # fmt: skip


def _transparent(colour: str) -> str:
    red, green, blue = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.25)"


def _panel(index: int, count: int, low: float, high: float) -> dict[str, Any]:
    """The vertical axis of one of `count` panels, from the top."""
    values, labels = log_ticks(low, high, most=4)
    gap = 0.22 / count
    top = 1 - index / count
    return _axis(
        "",
        type="log",
        range=[math.log10(low), math.log10(high)],
        tickvals=values,
        ticktext=labels,
        domain=[top - 1 / count, top - gap],
        anchor="x",
    )


def _over_time_title(job: str, lines: dict[str, Line | None], width: float) -> str:
    peaks = {name: max(line.mean) for name, line in lines.items() if line}
    if not peaks:
        return f"{job}: latency over time"
    ranked = sorted(peaks, key=lambda name: peaks[name])
    least, most = ranked[0], ranked[-1]
    peak = f"{job}: the worst {width * 1000:.0f} ms of completion latency average"
    if least == most:
        return f"{peak} {findings.quantity(peaks[least], 'µs')} under {least}"
    return (
        f"{peak} {findings.quantity(peaks[least], 'µs')} under {least} (least) and "
        f"{findings.quantity(peaks[most], 'µs')} under {most} (most)"
    )


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


def _draw(identity: str, figure: go.Figure) -> str:
    return str(
        plotly.io.to_html(
            figure, config=CONFIG, include_plotlyjs=False, full_html=False, div_id=identity
        )
    )

