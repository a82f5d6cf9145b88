# SPDX-License-Identifier: GPL-2.0-only
"""Define the parts that all charts share: styles, axes, labels, and a chart's form in the page.

A chart's title states the result in figures. Title and note belong to the page and not to the
drawing, because text in a drawing does not wrap. Schedulers differ by colour (Okabe and Ito, 2008,
a palette for colour-blind people) and by marker, dashes or hatching, so the charts can also be read
in grey.
"""

import html
import math
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import plotly.io
from scipy.optimize import isotonic_regression

from triagelab.judge.lookup import BASELINE

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "star", "triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
HATCHES = ("/", "x", "-", "\\", ".", "+", "|")
GREY = "#8a8a8a"  # the baseline
INK = "#222222"
RULES = "#e3e3e3"

LABEL_GAP = 17  # least number of pixels between the middles of two labels


@dataclass(frozen=True)
class Chart:
    """A drawing, its title, and the note that a reader needs to understand it."""

    identity: str  # id of its element in the page
    title: str
    note: str
    drawing: str  # plotly's JSON, safe inside a script element
    height: int  # pixels


@dataclass(frozen=True)
class Style:
    """The style of a scheduler in every chart of a report."""

    colour: str
    marker: str
    dash: str
    hatch: str


def styles(schedulers: list[str]) -> dict[str, Style]:
    """Return a style for each scheduler; the baseline is plain and grey in all reports."""
    others = [name for name in schedulers if name != BASELINE]
    chosen = {BASELINE: Style(GREY, "circle-open", "solid", "")}
    for index, name in enumerate(others):
        chosen[name] = Style(
            COLOURS[index % len(COLOURS)],
            MARKERS[index % len(MARKERS)],
            DASHES[index % len(DASHES)],
            HATCHES[index % len(HATCHES)],
        )
    return chosen


def chart(identity: str, title: str, note: str, figure: go.Figure) -> Chart:
    """Turn a figure into a chart for the page."""
    # plotly escapes "<", so its JSON is safe inside a script element.
    return Chart(identity, title, note, str(plotly.io.to_json(figure)), figure.layout.height)


def layout(height: int, margin: dict[str, int]) -> dict[str, Any]:
    """Return the layout that all figures share."""
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


def axis(title: str, **settings: Any) -> dict[str, Any]:
    """Return an axis; plotly's own `settings` override the defaults."""
    return {
        "title": {"text": title, "font": {"size": 12}},
        "gridcolor": RULES,
        "linecolor": GREY,
        "zeroline": False,
        "showline": True,
        "ticks": "outside",
        "tickcolor": GREY,
        "fixedrange": True,  # otherwise a touch on the chart would not scroll the page
        **settings,
    }


def heading(text: str, axis: str) -> dict[str, Any]:
    """Return a title to place above a panel; `axis` is plotly's name of the panel's y axis."""
    return {
        "xref": "paper",
        "yref": f"{axis} domain",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "text": f"<b>{html.escape(text)}</b>",
        "font": {"size": 12, "color": INK},
        "showarrow": False,
    }


def side_title(text: str) -> dict[str, Any]:
    """Return the title that the y axes of all panels share."""
    return {
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "xshift": -56,
        "y": 0.5,
        "textangle": -90,
        "text": text,
        "font": {"size": 12, "color": INK},
        "showarrow": False,
    }


def log_ticks(low: float, high: float, most: int = 8) -> tuple[list[float], list[str]]:
    """Return round values between the ends of a log axis, and their labels.

    There are at most `most` values, unless the axis has more powers of ten than that.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= most:
            break
    return ticks, [f"{tick:.10g}" for tick in ticks]


def error_bar(value: float, ci95: tuple[float, ...] | None, colour: str) -> dict[str, Any] | None:
    """Return an interval as plotly's error bar, whose ends are distances from the value."""
    if ci95 is None:
        return None
    return {
        "type": "data",
        "symmetric": False,
        # A rounding error must not make a distance negative.
        "array": [max(ci95[1] - value, 0)],
        "arrayminus": [max(value - ci95[0], 0)],
        "color": colour,
        "thickness": 1.5,
        "width": 5,
    }


def label_shifts(
    down: list[float], within: tuple[float, float], gap: float = LABEL_GAP
) -> list[float]:
    """Return the shift of each label in pixels that keeps labels from overlapping.

    down    the wanted position of each label in pixels; a larger number is lower on the page, and a
            positive shift moves a label down
    within  the range of pixels for the labels; if there are too many, they exceed its lower end. A
            label covers half a `gap` above and half a `gap` below its position
    gap     the least distance between the positions of two labels

    The sum of squared shifts is the smallest possible. To find it, subtract the required gaps from
    the positions, fit an isotonic regression, and clamp the result to the range.
    """
    order = sorted(range(len(down)), key=lambda index: down[index])
    gaps = [gap * rank for rank in range(len(order))]
    wanted = [down[index] - less for index, less in zip(order, gaps, strict=True)]
    highest = within[0] + gap / 2
    lowest = max(within[1] - gap / 2 - gap * (len(order) - 1), highest)
    placed = isotonic_regression(wanted).x.clip(highest, lowest)
    shifts = [0.0] * len(down)
    for index, position, less in zip(order, placed, gaps, strict=True):
        shifts[index] = float(position) + less - down[index]
    return shifts
