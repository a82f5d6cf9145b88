# SPDX-License-Identifier: GPL-2.0-only
"""Draw the charts of one point of the matrix: the protection chart, and bar charts.

The protection chart has a dot for each scheduler. The y axis is the protected job's tail latency,
relative to the job alone. The x axis is the background's bandwidth, relative to the baseline.
"""

import html
import math
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from triagelab.base import metrics
from triagelab.judge import choices, figures, findings, lookup
from triagelab.judge.figures import SPACE, name_of, scale_for
from triagelab.judge.lookup import BASELINE, View
from triagelab.measure import statistics
from triagelab.measure.statistics import NO_DIFFERENCE, Comparison, Ratio
from triagelab.measure.summary import Values, alone_key
from triagelab.report import drawing
from triagelab.report.drawing import GREY, INK, Chart, Style

# ---- the protection chart -------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A scheduler's place in the protection chart."""

    scheduler: str
    protection: Ratio  # tail latency of the protected job, relative to that job alone
    kept: Comparison  # background throughput relative to the baseline


def places(view: View, values: Values) -> list[Place]:
    """Return each scheduler's place, from paired repeats.

    Leave out a scheduler if its latency or throughput is unknown, or if the protected job starved
    in a repeat: the latency of a starved job is infinite. Return [] if the protected job was not
    measured alone.
    """
    alone = alone_key(view.point, [key[0] for key in values])
    if view.protected is None or alone is None:
        return []
    found = []
    tail = view.tail(view.protected)
    quiet = values.get((alone, BASELINE, view.protected, tail), {})
    for scheduler in view.schedulers:
        if view.starved(scheduler, view.protected):
            continue
        latency = values.get((view.point, scheduler, view.protected, tail), {})
        protection = statistics.compare(latency, quiet, metrics.find(tail).resolution)
        kept = _kept(view, scheduler)
        if protection and kept and protection.ratio and kept.ratio is not None:
            found.append(Place(scheduler, protection, kept))
    return found


def _kept(view: View, scheduler: str) -> Comparison | None:
    metric = "background_bytes_per_s"
    row = view.row(BASELINE, None, metric)
    if scheduler == BASELINE and row:
        return Comparison(1.0, None, row["n"], NO_DIFFERENCE)
    return view.compare(scheduler, BASELINE, None, metric)


def _starved(view: View, job: str | None) -> list[str]:
    """Name each scheduler under which a job starved, and say in how many repeats."""
    starved = {name: view.starved(name, job) for name in view.schedulers}
    return [f"{name} ({said})" for name, said in starved.items() if said]


def protection(identity: str, found: list[Place], view: View, looks: dict[str, Style]) -> Chart:
    """Draw the protection chart.

    The lower a scheduler's dot, the better the protection. The further right the dot, the less the
    scheduler costs the background.
    """
    height, margin = 420, {"l": 62, "r": 16, "t": 14, "b": 52}
    bottom, top = _log_range(found)
    right = max(1.0, *(_ratio(place.kept) for place in found)) * 1.06
    pixels = (height - margin["t"] - margin["b"]) / (top - bottom)
    heights = [-math.log10(_ratio(place.protection)) * pixels for place in found]
    shifts = drawing.label_shifts(heights, (-top * pixels, -bottom * pixels))

    figure = go.Figure()
    # The baseline is drawn last: its circle is open, so a dot behind it stays visible.
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
    ticks, names = drawing.log_ticks(10**bottom, 10**top)
    across = f"background throughput, share of {BASELINE}'s"
    tail = name_of(view.tail(view.protected))
    up = f"{tail}, times that of the job alone"
    figure.update_layout(
        **drawing.layout(height, margin),
        xaxis=drawing.axis(across, range=[0, right], tickformat=".0%"),
        yaxis=drawing.axis(
            up,
            type="log",
            range=[bottom, top],
            tickvals=ticks,
            ticktext=[f"{name} ×" for name in names],
        ),
    )
    together = " together" if len(view.background) > 1 else ""
    note = (
        f"Up: {tail} of {view.protected}, as a ratio to running alone (log axis). "
        f"Across: bytes a second of {figures.listed(view.background)}{together}, as a ratio to "
        f"{BASELINE}. Bars are 95 % intervals over repeats; a perfect scheduler would stand where "
        "the dashed lines cross."
    )
    if starved := _starved(view, view.protected):
        note += f" Endless, and so without a place, under {figures.listed(starved)}."
    return drawing.chart(identity, _protection_title(found, view), note, figure)


def _log_range(found: list[Place]) -> tuple[float, float]:
    """Return the lower and the upper end of the y axis, as log10.

    The axis covers every interval and the values 1 and 2, with a margin.
    """
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
        error_x=drawing.error_bar(_ratio(place.kept), place.kept.ci95, look.colour),
        error_y=drawing.error_bar(_ratio(place.protection), place.protection.ci95, look.colour),
        mode="markers",
        marker={
            "symbol": look.marker,
            "size": 20 if hollow else 14,
            "color": look.colour,
            "line": {"color": look.colour if hollow else "white", "width": 2 if hollow else 1},
        },
        name=name,
        hovertemplate=f"<b>{name}</b><br>latency {figures.times(place.protection)} alone"
        f"<br>background keeps {figures.share(place.kept)}<extra></extra>",
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
    """Return the title: the schedulers worth choosing, each with its protection and its cost.

    If no scheduler except the baseline is worth choosing, return the range of the protected job's
    latency instead.
    """
    choice = choices.choose([view])
    standing = {place.scheduler: _standing(place, view) for place in found}
    if choice and choice.worth != [BASELINE]:
        named = [name for name in (*choice.best, *choice.others) if name != BASELINE]
        said = [f"{name} ({standing[name]})" if name in standing else name for name in named]
        worth = "By the means, worth choosing" if choice.by_means else "Worth choosing"
        return f"{worth}: {figures.listed(said)}"
    ratios = [choices.level([view], place.scheduler) for place in found]
    least, most = figures.digits(min(ratios)), figures.digits(max(ratios))
    reach = f"{least} to {most}" if least != most else least
    seen = "nothing tells which scheduler to choose"
    if choice:
        worth = choices.none_is_worth(choice)
        seen = f"{'by the means ' if choice.by_means else ''}{worth[0].lower()}{worth[1:]}"
    return (
        f"{view.protected}'s {name_of(view.tail(view.protected))} is {reach}{SPACE}× what it is "
        f"alone: {seen}"
    )


def _standing(place: Place, view: View) -> str:
    # The latency here is a ratio of means, which the report's sentences also use. The dot is the
    # geometric mean of the paired ratios, so the two may differ.
    ratio = figures.digits(choices.level([view], place.scheduler))
    return f"{ratio}{SPACE}× alone, {figures.percent(_ratio(place.kept))} of the background kept"


def _ratio(comparison: Comparison | Ratio) -> float:
    assert comparison.ratio is not None  # places() leaves out a scheduler without a ratio
    return comparison.ratio


# ---- bars -----------------------------------------------------------------------


def bars(identity: str, view: View, job: str | None, metric: str, looks: dict[str, Style]) -> Chart:
    """Draw one metric of a job or of the whole run, with a bar and its interval for each scheduler.

    If some scheduler has too few requests for a percentile, draw the maximum under all schedulers.
    """
    metric = view.told(job, metric)
    rows = {name: row for name in view.schedulers if (row := view.row(name, job, metric))}
    alone = view.alone(metric) if job == view.protected else None
    longest = max(
        [max(row["ci95"] or [row["mean"]]) for row in rows.values()]
        + ([alone["mean"]] if alone else [])
    )
    described = metrics.find(metric)
    scale = scale_for(described.unit.name, longest)

    figure = go.Figure()
    for scheduler, row in rows.items():
        figure.add_trace(_bar(scheduler, row, scale.divisor, looks[scheduler]))
        figure.add_annotation(
            x=max(row["ci95"] or [row["mean"]]) / scale.divisor,
            y=html.escape(scheduler),
            text=figures.quantity(row["mean"], row["unit"]),
            xanchor="left",
            xshift=5,
            font={"size": 12, "color": INK},
            bgcolor="rgba(255,255,255,0.8)",
            showarrow=False,
        )
    if alone:
        dashed = {"color": INK, "width": 1.5, "dash": "dash"}
        figure.add_vline(x=alone["mean"] / scale.divisor, line=dashed)
    label = f"{described.label} ({scale.unit})" if scale.unit else described.label
    room = 1.38  # leaves space for the value to the right of the longest bar
    figure.update_layout(
        **drawing.layout(66 + 30 * len(rows), {"l": 10, "r": 12, "t": 6, "b": 46}),
        bargap=0.3,
        xaxis=drawing.axis(label, range=[0, longest / scale.divisor * room or 1]),
        yaxis=drawing.axis(
            "",
            categoryorder="array",
            categoryarray=[html.escape(name) for name in reversed(rows)],
            automargin=True,
            showgrid=False,
        ),
    )
    notes = [f"Dashed: {job} alone, {lookup.shown(alone)}."] if alone else []
    notes += [described.note] if described.note else []
    if starved := _starved(view, job):
        under = figures.listed(starved)
        endless = f"Endless under {under}: bars are of the other repeats."
        notes.append(endless if described.is_latency_of_job else f"Starved under {under}.")
    return drawing.chart(identity, findings.title(view, job, metric), " ".join(notes), figure)


def _bar(scheduler: str, row: dict[str, Any], divisor: float, look: Style) -> go.Bar:
    name = html.escape(scheduler)
    mean = row["mean"] / divisor
    interval = tuple(end / divisor for end in row["ci95"]) if row["ci95"] else None
    return go.Bar(
        y=[name],
        x=[mean],
        orientation="h",
        error_x=drawing.error_bar(mean, interval, INK),
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
        hovertemplate=f"{name}: {lookup.shown(row)}<extra></extra>",
    )
