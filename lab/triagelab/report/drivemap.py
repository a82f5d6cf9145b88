# SPDX-License-Identifier: GPL-2.0-only
"""Build the map of an experiment on several drives: drives are rows, schedulers are columns.

A cell has two figures, each the worst over the drive's points. One is the protected job's tail
latency relative to the job alone. The other is the background's bandwidth, as a share of its
bandwidth under the baseline.
"""

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from triagelab.base import settings
from triagelab.judge import choices, figures
from triagelab.judge.choices import ALIKE
from triagelab.judge.figures import SPACE, digits, percent
from triagelab.judge.lookup import BASELINE, View, describe
from triagelab.report import drawing
from triagelab.report.drawing import Chart

_ROW = 34  # pixels


@dataclass(frozen=True)
class Cell:
    """The result of a scheduler on a drive.

    level  the protected job's tail latency relative to the job alone; infinite if the job starved
    kept   the background's bandwidth, as a share of its bandwidth under the baseline
    where  the point with this level, for people; `kept` may come from another point
    """

    level: float
    kept: float
    where: str

    @property
    def text(self) -> str:
        """Return both figures as text for people."""
        return f"{self.protection}, {self.cost}"

    @property
    def protection(self) -> str:
        """Return the level as text for people."""
        return "∞" if math.isinf(self.level) else f"{digits(self.level)}{SPACE}×"

    @property
    def cost(self) -> str:
        """Return `kept` as text for people."""
        return percent(self.kept)


@dataclass(frozen=True)
class Map:
    """The map, with a cell for each drive and each scheduler that was measured on it.

    drives      sorted by the lowest level under any scheduler, the highest first
    schedulers  in the experiment's order
    behind      scheduler -> number of points where its tail latency is more than a tenth above the
                baseline's, or where the protected job starved
    beaten      scheduler -> number of points where, under another scheduler, the tail latency is
                not longer and the background keeps over a tenth more bandwidth
    points      number of all points
    """

    drives: list[str]
    schedulers: list[str]
    cells: Mapping[tuple[str, str], Cell]
    behind: Mapping[str, int]
    beaten: Mapping[str, int]
    points: int

    def worst(self, scheduler: str) -> tuple[str, Cell]:
        """Return the drive on which a scheduler has the highest level, and its cell there."""
        seen = [
            (drive, cell) for drive in self.drives if (cell := self.cells.get((drive, scheduler)))
        ]
        return max(seen, key=lambda each: each[1].level)

    def text(self, drive: str, scheduler: str) -> str:
        """Return both figures of a cell as text for people; a dash if there is no such cell."""
        cell = self.cells.get((drive, scheduler))
        return cell.text if cell else "–"

    @property
    def sentence(self) -> str:
        """Return a sentence that names each scheduler's worst drive, the best scheduler first."""
        ranked = sorted(self.schedulers, key=lambda name: self.worst(name)[1].level)
        told = []
        for name in ranked:
            drive, cell = self.worst(name)
            told.append(
                f"{name} {cell.protection} on {drive} ({cell.where}; at its worst point there the "
                f"background keeps {cell.cost})"
            )
        return f"The worst drive of each scheduler: {'; '.join(told)}."

    @property
    def losses(self) -> str:
        """Return sentences about the numbers of points in `behind` and `beaten`."""
        behind, beaten = (
            figures.listed(f"{number} under {name}" for name, number in of.items())
            for of in (self.behind, self.beaten)
        )
        return (
            f"Points of {self.points} at which the longest latencies are more than a tenth above "
            f"those under {BASELINE}: {behind}. Points at which another scheduler gives the "
            f"background more by a tenth and has longest latencies no longer: {beaten}."
        )


def made(views: Sequence[View]) -> Map | None:
    """Return the map, or None with fewer than two drives or no scheduler besides the baseline.

    A point counts if it names a drive, if the baseline was measured there, and if the protected
    job was measured there both beside the background and alone.
    """
    groups: dict[str, list[View]] = {}
    for view in views:
        name = json.loads(view.point).get(settings.DEVICE)
        known = view.protected and view.alone(view.tail(view.protected))
        if name is not None and known and BASELINE in view.schedulers:
            groups.setdefault(str(name), []).append(view)
    if len(groups) < 2:
        return None
    found = [view for members in groups.values() for view in members]
    schedulers = list(dict.fromkeys(name for view in found for name in view.schedulers))
    if schedulers == [BASELINE]:
        return None
    cells = {
        (drive, name): _cell(measured, name)
        for drive, members in groups.items()
        for name in schedulers
        if (measured := [view for view in members if name in view.schedulers])
    }
    levels = {
        drive: sorted(cell.level for (where, _), cell in cells.items() if where == drive)
        for drive in groups
    }
    return Map(
        drives=sorted(groups, key=lambda drive: levels[drive], reverse=True),
        schedulers=schedulers,
        cells=cells,
        behind={
            name: sum(_behind(view, name) for view in found)
            for name in schedulers
            if name != BASELINE
        },
        beaten={name: sum(_beaten(view, name) for view in found) for name in schedulers},
        points=len(found),
    )


def _cell(views: list[View], scheduler: str) -> Cell:
    levels = {view.point: choices.level([view], scheduler) for view in views}
    worst = max(levels, key=lambda point: levels[point])
    where = {key: of for key, of in json.loads(worst).items() if key != settings.DEVICE}
    kept = choices.kept(views, scheduler)
    return Cell(levels[worst], kept, describe(json.dumps(where)))


def _behind(view: View, scheduler: str) -> bool:
    seen = view.compare(scheduler, BASELINE, view.protected, view.tail(view.protected))
    if seen is None or seen.ratio is None:
        return bool(view.starved(scheduler, view.protected))
    return seen.ratio > ALIKE


def _beaten(view: View, scheduler: str) -> bool:
    if scheduler not in view.schedulers:
        return False
    level, kept = choices.level([view], scheduler), choices.kept([view], scheduler)
    return any(
        choices.level([view], other) <= level and choices.kept([view], other) > ALIKE * kept
        for other in view.schedulers
    )


def chart(identity: str, drawn: Map) -> Chart:
    """Draw the map as a heat map: a darker cell has a higher level."""
    ends = [cell.level for cell in drawn.cells.values() if not math.isinf(cell.level)]
    top = 2 * max(ends, default=1.0)  # an infinite level is darker than any other
    rows = list(reversed(drawn.drives))  # plotly counts from below
    cells = [[drawn.cells.get((drive, name)) for name in drawn.schedulers] for drive in rows]
    panel = go.Heatmap(
        x=list(range(len(drawn.schedulers))),
        y=list(range(len(rows))),
        z=[
            [math.log10(max(min(cell.level, top), 1)) if cell else None for cell in row]
            for row in cells
        ],
        text=[[drawn.text(drive, name) for name in drawn.schedulers] for drive in rows],
        customdata=[[html.escape(cell.where) if cell else "" for cell in row] for row in cells],
        texttemplate="%{text}",
        colorscale="Blues",
        showscale=False,
        xgap=2,
        ygap=2,
        hovertemplate="%{text}<br>worst: %{customdata}<extra></extra>",
    )
    figure = go.Figure(panel)
    figure.update_layout(
        **drawing.layout(70 + _ROW * len(rows), {"l": 110, "r": 12, "t": 8, "b": 46}),
        xaxis=_axis("scheduler", drawn.schedulers),
        yaxis=_axis("", rows),
    )
    note = (
        f"Of each drive's points the worst: {figures.NAME_OF_TAILS} as times that of the job "
        "alone, and the share of its bandwidth under "
        f"{BASELINE} that the background keeps. {drawn.losses}"
    )
    return drawing.chart(identity, drawn.sentence, note, figure)


def _axis(name: str, values: list[str]) -> dict[str, object]:
    return drawing.axis(
        name,
        tickvals=list(range(len(values))),
        ticktext=[html.escape(value) for value in values],
        showgrid=False,
    )
