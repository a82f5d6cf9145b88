# SPDX-License-Identifier: GPL-2.0-only
"""Draw the charts of a sweep: protected job and background while one varied number grows."""

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass

import plotly.graph_objects as go

from triagelab.base import metrics
from triagelab.base.metrics import MAXIMUM, TAIL
from triagelab.judge import figures, findings
from triagelab.judge.figures import SPACE, Scale, digits, name_of, scale_for
from triagelab.judge.lookup import BASELINE, Sweep, View
from triagelab.measure import statistics
from triagelab.measure.summary import Values, alone_key
from triagelab.report import drawing
from triagelab.report.drawing import INK, Chart, Style

# The markers of drawing.styles() as text, for labels.
GLYPHS = {
    "circle-open": "○",
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "x": "✖",
    "star": "★",
    "triangle-down": "▼",
}
HEIGHT = 264  # pixels: the charts of two sweeps fit on a printed page
LABEL = 12  # font size of the labels, pixels
MOST_STEPS_NAMED = 8  # more labels would overlap on a phone

Measured = dict[int, float]  # by repeat number


@dataclass(frozen=True)
class Dot:
    """One scheduler's result at one step."""

    mean: float
    ci95: tuple[float, ...] | None


Line = list[Dot | None]  # a dot for each step; None without a measurement


@dataclass(frozen=True)
class Kind:
    """The quantity that a chart shows along a sweep."""

    name: str  # for use in a sentence
    job: str | None
    metric: str
    scale: Scale
    log: bool

    @property
    def axis(self) -> str:
        """Return the title of the y axis."""
        return name_of(self.metric)

    @property
    def more_is_better(self) -> bool:
        """Return True if a higher value is better."""
        return figures.more_is_better(self.metric)


@dataclass(frozen=True)
class Side:
    """The content of one chart of a sweep: the lines of all schedulers that have a dot."""

    sweep: Sweep
    kind: Kind
    lines: dict[str, Line]


def charts(
    identity: str, found: list[Sweep], values: Values, looks: dict[str, Style]
) -> list[tuple[str, list[Chart]]]:
    """Return each sweep's fixed values and its charts: the protected job's and the background's.

    Leave out a sweep without a chart. All latency charts have the same axis, so that a reader can
    compare them.
    """
    views = [view for sweep in found for _, view in sweep.steps]
    tail = _told(views, views[0].protected, TAIL) if views else TAIL
    relative = all(_alone(view, values, tail) for view in views)
    latencies = [_latency(sweep, values, tail, relative) for sweep in found]
    ends = _log_range(latencies)
    drawn = []
    for index, latency in enumerate(latencies):
        throughput = _throughput(latency.sweep, values)
        pair = []
        if latency.lines:
            pair.append(_chart(f"{identity}-{index}-p99", latency, looks, *ends))
        if throughput.lines:
            top = 1.05 * _ends(throughput.lines.values())[1]
            pair.append(_chart(f"{identity}-{index}-moved", throughput, looks, 0.0, top or 1.0))
        if pair:
            drawn.append((latency.sweep.fixed, pair))
    return drawn


def lines(
    identity: str,
    sweep: Sweep,
    job: str | None,
    metric: str,
    values: Values,
    looks: dict[str, Style],
) -> Chart | None:
    """Draw one metric over the steps of a sweep; return None if it was not measured.

    Latency has a log axis, because it varies by orders of magnitude. If there are too few requests
    for a percentile at some step, draw the maximum at all steps.
    """
    metric = _told([view for _, view in sweep.steps], job, metric)
    found = {
        scheduler: [
            _dot(_endured(view, values, scheduler, job, metric), metric) for _, view in sweep.steps
        ]
        for scheduler in _schedulers(sweep)
    }
    found = {scheduler: line for scheduler, line in found.items() if any(line)}
    if not found:
        return None
    low, high = _ends(found.values())
    unit = metrics.find(metric).unit.name
    log = unit == "µs" and low > 0
    scale = scale_for(unit, math.sqrt(low * high) if log else high)
    of = f"{job}'s " if job else ""
    side = Side(sweep, Kind(f"{of}{name_of(metric)}", job, metric, scale, log), found)
    ends = _log_range([side]) if log else (0.0, 1.05 * high or 1.0)
    return _chart(identity, side, looks, *ends)


# ---- the measurements -----------------------------------------------------------


def _told(views: list[View], job: str | None, metric: str) -> str:
    """Return `metric`, or the maximum latency if some point has too few requests for `metric`."""
    return MAXIMUM if any(view.told(job, metric) != metric for view in views) else metric


def _latency(sweep: Sweep, values: Values, tail: str, relative: bool) -> Side:
    """Return the chart content for the protected job's tail latency: a line for each scheduler.

    relative  True: as a ratio to the latency of the job alone; False: in µs
    """
    lines = {}
    for scheduler in _schedulers(sweep):
        line: Line = []
        for _, view in sweep.steps:
            measured = _endured(view, values, scheduler, view.protected, tail)
            alone = _alone(view, values, tail)
            line.append(_ratio(measured, alone, tail) if relative else _dot(measured, tail))
        lines[scheduler] = line
    lines = {scheduler: line for scheduler, line in lines.items() if any(line)}
    middle = math.sqrt(math.prod(_ends(lines.values()))) if lines else 0.0
    scale = Scale(1, "× alone") if relative else scale_for("µs", middle)
    job = sweep.steps[0][1].protected
    return Side(sweep, Kind(f"{job}'s {name_of(tail)}", job, tail, scale, log=True), lines)


def _throughput(sweep: Sweep, values: Values) -> Side:
    """Return the chart content for the background's total bandwidth: a line for each scheduler."""
    metric = "background_bytes_per_s"
    lines = {
        scheduler: [
            _dot(values.get((view.point, scheduler, None, metric), {}), metric)
            for _, view in sweep.steps
        ]
        for scheduler in _schedulers(sweep)
    }
    lines = {scheduler: line for scheduler, line in lines.items() if any(line)}
    scale = scale_for("B/s", _ends(lines.values())[1] if lines else 0.0)
    jobs = dict.fromkeys(job for _, view in sweep.steps for job in view.background)
    name = f"bandwidth of {figures.listed(jobs)}" if jobs else ""
    return Side(sweep, Kind(name, None, metric, scale, log=False), lines)


def _schedulers(sweep: Sweep) -> list[str]:
    return list(dict.fromkeys(name for _, view in sweep.steps for name in view.schedulers))


def _alone(view: View, values: Values, tail: str) -> Measured:
    key = alone_key(view.point, [key[0] for key in values])
    return values.get((key, BASELINE, view.protected, tail), {}) if key else {}


def _endured(view: View, values: Values, scheduler: str, job: str | None, metric: str) -> Measured:
    """Return a metric's values by repeat.

    For a job's latency, return no value if the job starved in some repeat: the latency is infinite.
    """
    if view.endless(scheduler, job, metric):
        return {}
    return values.get((view.point, scheduler, job, metric), {})


def _dot(measured: Measured, metric: str) -> Dot | None:
    if not measured:
        return None
    estimate = statistics.estimate(
        [measured[repeat] for repeat in sorted(measured)], metrics.find(metric).resolution
    )
    return Dot(estimate.mean, estimate.ci95)


def _ratio(measured: Measured, base: Measured, tail: str) -> Dot | None:
    compared = statistics.compare(measured, base, metrics.find(tail).resolution)
    if compared is None or compared.ratio is None:
        return None
    return Dot(compared.ratio, compared.ci95)


def _ends(lines: Iterable[Line]) -> tuple[float, float]:
    """Return the lowest and the highest value of the lines, intervals included."""
    dots = [dot for line in lines for dot in line if dot]
    reached = [end for dot in dots for end in (*(dot.ci95 or ()), dot.mean)]
    return min(reached), max(reached)


# ---- the drawing ----------------------------------------------------------------


def _log_range(sides: list[Side]) -> tuple[float, float]:
    """Return the decimal logarithms of the ends of an axis that fits the lines of all `sides`."""
    reached = [_ends(side.lines.values()) for side in sides if side.lines]
    if not reached:
        return 0.0, 1.0
    low, high = min(low for low, _ in reached), max(high for _, high in reached)
    low, high = math.log10(low), math.log10(max(high, 2 * low))
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _chart(identity: str, side: Side, looks: dict[str, Style], bottom: float, top: float) -> Chart:
    """Draw a chart with a line for each scheduler.

    The y axis is from `bottom` to `top`. On a log axis, these are decimal logarithms.
    """
    widest = max(len(name) for name in side.lines)
    margin = {"l": 56, "r": 30 + round(0.58 * LABEL * min(widest, 16)), "t": 12, "b": 46}
    figure = go.Figure()
    for scheduler, line in side.lines.items():
        figure.add_trace(_trace(scheduler, line, side, looks[scheduler]))
    pixels = (HEIGHT - margin["t"] - margin["b"]) / (top - bottom)
    for label in _labels(side, looks, pixels, (bottom, top)):
        figure.add_annotation(label)
    if side.kind.scale.unit == "× alone":
        figure.add_hline(1, line={"color": INK, "width": 1, "dash": "dash"})
    figure.update_layout(
        **drawing.layout(HEIGHT, margin),
        xaxis=_across(side.sweep),
        yaxis=_up(side.kind, bottom, top),
    )
    return drawing.chart(identity, _title(side), _note(side), figure)


def _trace(scheduler: str, line: Line, side: Side, look: Style) -> go.Scatter:
    divisor = side.kind.scale.divisor
    name = html.escape(scheduler)
    return go.Scatter(
        x=list(range(len(line))),
        y=[dot.mean / divisor if dot else None for dot in line],
        error_y=_error_bars(line, divisor, look.colour),
        mode="lines+markers",
        line={"color": look.colour, "width": 2, "dash": look.dash},
        marker={"symbol": look.marker, "size": 8, "color": look.colour},
        name=name,
        text=[side.kind.scale.show(dot.mean) if dot else "" for dot in line],
        hovertemplate=f"<b>{name}</b>: %{{text}}<extra></extra>",
    )


def _error_bars(line: Line, divisor: float, colour: str) -> dict[str, object]:
    ends = [(dot.mean, *dot.ci95) if dot and dot.ci95 else (0.0, 0.0, 0.0) for dot in line]
    return {
        "type": "data",
        "symmetric": False,
        # A rounding error must not make a distance negative.
        "array": [max(high - mean, 0) / divisor for mean, _, high in ends],
        "arrayminus": [max(mean - low, 0) / divisor for mean, low, _ in ends],
        "color": colour,
        "thickness": 1,
        "width": 3,
    }


def _labels(
    side: Side, looks: dict[str, Style], pixels: float, ends: tuple[float, float]
) -> list[dict[str, object]]:
    """Return a label for each line: the scheduler's name, at the height of the line's last value.

    Labels are shifted so that they do not overlap. If there is room, they stay within `ends`, the
    range of the y axis.
    """
    divisor = side.kind.scale.divisor
    last = [next(dot for dot in reversed(line) if dot).mean for line in side.lines.values()]
    down = [-pixels * (math.log10(mean) if side.kind.log else mean) for mean in last]
    shifts = drawing.label_shifts(down, (-pixels * ends[1], -pixels * ends[0]), LABEL + 3)
    return [
        {
            "x": len(side.sweep.steps) - 1,
            "y": math.log10(mean / divisor) if side.kind.log else mean / divisor,
            "yshift": -shift,
            "xshift": 8,
            "xanchor": "left",
            "text": f'<span style="color:{looks[scheduler].colour}">'
            f"{GLYPHS[looks[scheduler].marker]}</span> {html.escape(scheduler)}",
            "font": {"size": LABEL, "color": INK},
            "showarrow": False,
        }
        for scheduler, mean, shift in zip(side.lines, last, shifts, strict=True)
    ]


def _across(sweep: Sweep) -> dict[str, object]:
    """Return the x axis, on which all steps have equal distances.

    Experiments choose steps that are equally important, so the numbers do not set the distances.
    """
    count = len(sweep.steps)
    named = range(0, count, math.ceil(count / MOST_STEPS_NAMED))
    return drawing.axis(
        html.escape(sweep.key),
        range=[-0.3, count - 0.7],
        tickvals=list(named),
        ticktext=[f"{sweep.steps[index][0]:g}" for index in named],
    )


def _up(kind: Kind, bottom: float, top: float) -> dict[str, object]:
    if not kind.log:
        ends = [bottom / kind.scale.divisor, top / kind.scale.divisor]
        unit = f" ({kind.scale.unit})" if kind.scale.unit else ""
        return drawing.axis(f"{kind.axis}{unit}", range=ends)
    shift = math.log10(kind.scale.divisor)
    ends = [bottom - shift, top - shift]
    ticks, labels = drawing.log_ticks(10 ** ends[0], 10 ** ends[1])
    return drawing.axis(
        f"{kind.axis} ({kind.scale.unit}, log)",
        type="log",
        range=ends,
        tickvals=ticks,
        ticktext=labels,
    )


# ---- in words -------------------------------------------------------------------


def _title(side: Side) -> str:
    """Return the title, which names the best and the worst scheduler at the last step."""
    last = {name: dot for name, line in side.lines.items() if (dot := line[-1])}
    ranked = sorted(last, key=lambda name: last[name].mean, reverse=side.kind.more_is_better)
    view = side.sweep.steps[-1][1]
    compared = (next(iter(ranked), ""), side.kind.job, side.kind.metric)
    said = findings.ends(
        side.kind.name,
        ranked,
        [name for name in view.equals(*compared) if name in last],
        [name for name in view.uncertain(*compared) if name in last],
        lambda name: side.kind.scale.show(last[name].mean),
        more_is_better=side.kind.more_is_better,
    )
    return f"At {side.sweep.key} = {side.sweep.steps[-1][0]:g} {said}"


def _note(side: Side) -> str:
    """Return the note: each line's change from the first step to the last, and missing values."""
    key, steps = side.sweep.key, side.sweep.steps
    note = "Bars are 95 % intervals over repeats."
    changes = [
        f"{digits(last.mean / first.mean)}{SPACE}× under {name}"
        for name, line in side.lines.items()
        if (first := line[0]) and (last := line[-1]) and first.mean
    ]
    if changes:
        reach = f"From {key} = {steps[0][0]:g} to {steps[-1][0]:g}"
        note += f" {reach} it becomes {figures.listed(changes)}."
    lines = {name: side.lines.get(name, [None]) for name in _schedulers(side.sweep)}
    if missing := [name for name, line in lines.items() if not all(line)]:
        under = figures.listed(missing)
        note += (
            f" Some points have no figure under {under}: in some repeat nothing completed, or runs "
            "are missing."
        )
    return note
