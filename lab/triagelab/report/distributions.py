# SPDX-License-Identifier: GPL-2.0-only
"""Draw charts of whole latency distributions, from the histograms of a job's requests.

A histogram counts the requests of all repeats.
"""

import bisect
import html
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from triagelab.base import metrics
from triagelab.base.metrics import TAIL, Bins, percentile
from triagelab.judge import figures
from triagelab.judge.figures import Scale, scale_for
from triagelab.report import drawing
from triagelab.report.drawing import INK, Chart, Style

Step = tuple[float, Mapping[str, Bins]]  # a varied value, and histograms by scheduler

NINES = 3  # a CDF ends at 99.9 % of the requests
HEAT_BINS = 28
PANEL = 92  # pixels


# ---- the cumulative distribution ------------------------------------------------


def cdf(identity: str, job: str, found: Mapping[str, Bins], looks: Mapping[str, Style]) -> Chart:
    """Draw the cumulative distribution of latency, with a line for each scheduler.

    On the y axis, 0, 90, 99 and 99.9 % have equal distances: from each of them to the next, the
    share of slower requests falls to a tenth.

    found  the job's histograms, by scheduler
    """
    scale = _scale(found.values())
    figure = go.Figure()
    for scheduler, bins in found.items():
        latency, share = _cumulated(bins)
        look, name = looks[scheduler], html.escape(scheduler)
        figure.add_trace(
            go.Scatter(
                x=[value / 1000 / scale.divisor for value in latency],
                y=[-math.log10(1 - part) for part in share],
                mode="lines",
                line={"color": look.colour, "width": 2, "dash": look.dash, "shape": "hv"},
                name=name,
                text=[f"{100 * part:.4g} %" for part in share],
                hovertemplate=f"<b>{name}</b>: %{{text}} within %{{x:.4g}} {scale.unit}"
                "<extra></extra>",
            )
        )
    low, high = _reach(found.values(), scale)
    ticks, labels = drawing.log_ticks(10**low, 10**high)
    figure.update_layout(
        **{
            **drawing.layout(360, {"l": 62, "r": 14, "t": 10, "b": 46}),
            "showlegend": True,
            "legend": {"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0},
        },
        xaxis=drawing.axis(
            f"latency ({scale.unit}, log)",
            type="log",
            range=[low, high],
            tickvals=ticks,
            ticktext=labels,
        ),
        yaxis=drawing.axis(
            "requests done (%)",
            range=[0, NINES],
            tickvals=[-math.log10(1 - part) for part in (0, 0.5, 0.9, 0.99, 0.999)],
            ticktext=["0", "50", "90", "99", "99.9"],
        ),
    )
    note = "Total latency of all requests of all repeats; each step up leaves a tenth of them."
    return drawing.chart(identity, f"{job}: {_slowest_hundredth(found)}", note, figure)


def _cumulated(bins: Bins) -> tuple[list[int], list[float]]:
    """Return the curve's points: latencies, and the share of requests that took at most that long.

    The curve starts at the shortest latency with share 0, and ends at 99.9 % (NINES nines).
    """
    total, seen = bins.total(), 0
    latency, share = [min(bins)], [0.0]
    for value in sorted(bins):
        seen += bins[value]
        latency.append(value)
        share.append(min(seen / total, 1 - 10**-NINES))
        if share[-1] >= 1 - 10**-NINES:
            break
    return latency, share


def _slowest_hundredth(found: Mapping[str, Bins]) -> str:
    """Return a sentence with the lowest and the highest P99, and their schedulers.

    If some scheduler has too few requests for P99, use the maxima instead.
    """
    few = not all(map(_enough, found.values()))
    slow = {
        name: (max(bins) if few else percentile(bins, 990)) / 1000 for name, bins in found.items()
    }
    ranked = sorted(slow, key=lambda name: slow[name])
    said = [
        f"{figures.quantity(slow[name], 'µs')} under {name}"
        for name in dict.fromkeys((ranked[0], ranked[-1]))
    ]
    return f"{'The slowest' if few else '99 % of'} requests took at most {figures.listed(said)}"


def _enough(bins: Bins) -> bool:
    """Return True if there are enough requests for P99."""
    return bins.total() >= metrics.find(TAIL).needs


# ---- the distribution over a varied value ---------------------------------------


def heat(identity: str, job: str, key: str, steps: Sequence[Step]) -> Chart:
    """Draw a heat map for each scheduler: the varied setting `key` across, and latency up.

    A darker cell has a larger share of the requests at its value of `key`.
    """
    schedulers = list(dict.fromkeys(name for _, seen in steps for name in seen))
    every = [bins for _, seen in steps for bins in seen.values()]
    scale = _scale(every)
    low, high = _reach(every, scale)
    edges = [10 ** (low + (high - low) * step / HEAT_BINS) for step in range(HEAT_BINS + 1)]
    middles = [math.sqrt(a * b) for a, b in itertools.pairwise(edges)]
    across = list(range(len(steps)))
    figure = make_subplots(
        rows=len(schedulers), cols=1, shared_xaxes=True, vertical_spacing=0.24 / len(schedulers)
    )
    ticks, labels = drawing.log_ticks(10**low, 10**high, most=4)
    for row, scheduler in enumerate(schedulers, 1):
        columns = [_shares(seen.get(scheduler), edges, scale) for _, seen in steps]
        panel = go.Heatmap(
            x=across,
            y=middles,
            z=[list(line) for line in zip(*columns, strict=True)],
            coloraxis="coloraxis",
            hovertemplate=f"<b>{html.escape(scheduler)}</b>: %{{z:.3g}} % of requests"
            f" at about %{{y:.3g}} {scale.unit}<extra></extra>",
        )
        figure.add_trace(panel, row=row, col=1)
        figure.add_trace(_tails(scheduler, steps, scale), row=row, col=1)
        figure.update_yaxes(
            **drawing.axis(
                "", type="log", range=[low, high], tickvals=ticks, ticktext=labels, showgrid=False
            ),
            row=row,
            col=1,
        )
        figure.update_xaxes(
            **drawing.axis(
                html.escape(key) if row == len(schedulers) else "",
                tickvals=across,
                ticktext=[f"{step:g}" for step, _ in steps],
                showgrid=False,
            ),
            showticklabels=row == len(schedulers),
            row=row,
            col=1,
        )
        figure.add_annotation(drawing.heading(scheduler, f"y{row if row > 1 else ''}"))
    figure.add_annotation(drawing.side_title(f"latency ({scale.unit}, log)"))
    figure.update_layout(
        **drawing.layout(70 + PANEL * len(schedulers), {"l": 62, "r": 12, "t": 22, "b": 46}),
        # A darker cell has more requests, so the chart can also be read in grey.
        coloraxis={"colorscale": "Blues", "cmin": 0, "cmax": 50,
                   "showscale": False},
    )  # fmt: skip
    step, seen = steps[-1]
    note = (
        "The share of requests that took so long, of all at that step and of all repeats: from "
        "none, light, to half and more, dark. Circles: P99, or the maximum of fewer than "
        f"{metrics.find(TAIL).needs} requests."
    )
    title = f"{job} at {key} = {step:g}: {_slowest_hundredth(seen)}"
    return drawing.chart(identity, title, note, figure)


def _shares(bins: Bins | None, edges: list[float], scale: Scale) -> list[float | None]:
    """Return the percentage of requests between each pair of adjacent edges; None for 0 %."""
    if not bins:
        return [None] * (len(edges) - 1)
    counts = [0.0] * (len(edges) - 1)
    for value, count in bins.items():
        place = bisect.bisect_right(edges, value / 1000 / scale.divisor) - 1
        counts[min(max(place, 0), len(counts) - 1)] += count
    return [100 * count / bins.total() or None for count in counts]


def _tails(scheduler: str, steps: Sequence[Step], scale: Scale) -> go.Scatter:
    """Draw a circle at each step: P99, or the maximum if requests are too few for it."""
    seen = [of.get(scheduler) or Bins() for _, of in steps]
    tails = [
        (percentile(bins, 990) if _enough(bins) else max(bins)) / 1000 / scale.divisor
        if bins
        else None
        for bins in seen
    ]
    return go.Scatter(
        x=list(range(len(steps))),
        y=tails,
        mode="markers",
        marker={
            "symbol": "circle",
            "size": 7,
            "color": "white",
            "line": {"color": INK, "width": 1.5},
        },
        text=["P99" if _enough(bins) else "maximum" for bins in seen],
        hovertemplate=f"%{{text}} %{{y:.3g}} {scale.unit}<extra></extra>",
    )


# ---- shared by both charts ------------------------------------------------------


def _scale(every: Iterable[Bins]) -> Scale:
    """Return the scale that suits the middle of a log axis for all latencies."""
    low, high = _ends(every)
    return scale_for("µs", math.sqrt(low * high))


def _reach(every: Iterable[Bins], scale: Scale) -> tuple[float, float]:
    """Return the ends of a latency axis as decimal logarithms: _ends() with a margin."""
    low, high = _ends(every)
    return math.log10(low / scale.divisor) - 0.03, math.log10(high / scale.divisor) + 0.1


def _ends(every: Iterable[Bins]) -> tuple[float, float]:
    """Return the lowest latency and the highest P99.9 latency, in µs."""
    ends = [(min(bins) / 1000, percentile(bins, 999) / 1000) for bins in every]
    return min(low for low, _ in ends), max(high for _, high in ends)
