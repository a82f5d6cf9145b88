# SPDX-License-Identifier: GPL-2.0-only
"""Build the pages of a study: each has a question with its answers and charts."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from triagelab.ask import study
from triagelab.base import metrics
from triagelab.base.settings import Value
from triagelab.judge import bottleneck, figures, findings, lookup, shares, values
from triagelab.judge.answers import Answer
from triagelab.judge.lookup import Sweep, View
from triagelab.judge.measured import Measured
from triagelab.report import charts, distributions, grids, sweeps
from triagelab.report.drawing import Chart, Style
from triagelab.run import records


@dataclass(frozen=True)
class Part:
    """A section of a page. It shows one measure: an experiment of the study."""

    name: str
    title: str
    answer: Answer | None
    how: str  # machine, device, repeats and runs
    why_not: str  # reason why there is no answer; empty if there is an answer
    bottlenecks: list[tuple[str, list[str]]]  # by point


@dataclass(frozen=True)
class Page:
    """A question with its answers and charts, formatted."""

    page: study.Page
    parts: list[Part]
    drawn: list[tuple[str, Chart]]  # each with a caption that names measure and points
    missing: list[str]  # charts that lack measurements

    @property
    def answer(self) -> str:
        """Return the headline of the first part that has an answer."""
        return next((part.answer.headline for part in self.parts if part.answer), "Not measured.")


def page(
    wanted: study.Page,
    found: Mapping[str, Measured],
    left_out: Mapping[str, str],
    looks: dict[str, Style],
    *,
    quick: bool,
) -> Page:
    """Build a page from the measurements.

    found     measure -> its measurements
    left_out  measure -> the reason why it was not measured
    quick     True for measurements of the quick study: each answer is marked as preliminary
    """
    drawn, missing = [], []
    for index, chart in enumerate(wanted.charts):
        there = found.get(chart.measure)
        made = _chart(f"{wanted.name}-{index}", chart, there, looks) if there else None
        if made:
            drawn.append((_where(chart), made))
        else:
            missing.append(_described(chart))
    parts = [
        _part(name, found.get(name), left_out.get(name, ""), wanted.answer)
        for name in wanted.measures
    ]
    if quick:
        parts = [_preliminary(part) for part in parts]
    return Page(wanted, parts, drawn, missing)


def _part(
    name: str, there: Measured | None, why_not: str, asked: study.Values | study.Shares | None
) -> Part:
    if there is None or not there.views:
        return Part(name, name, None, "", why_not or "not measured", [])
    environment = there.environment
    runs = records.runs(there.out)
    done = sum(run["status"] == "done" for _, run in runs)
    how = (
        f"{environment['machine']}, {environment['device']['name']}, "
        f"{figures.counted(environment['repeats'], 'repeat')}, "
        f"{figures.counted(done, 'run')} finished"
    )
    if failed := len(runs) - done:
        how += f", {failed} failed"
    limits = [
        (lookup.describe(view.point), bottleneck.sentences(view, environment["machine"]))
        for view in there.views
    ]
    answer = _asked(there, asked) if asked and asked.measure == name else None
    answer = answer or findings.of_all(there.views)
    return Part(name, environment["title"], answer, how, "", limits)


def _asked(there: Measured, asked: study.Values | study.Shares) -> Answer | None:
    if isinstance(asked, study.Shares):
        return shares.answer(there.views, asked.of, asked.over, asked.due)
    return values.answer(there.views, asked.scheduler, asked.values_of)


def _preliminary(part: Part) -> Part:
    if part.answer is None:
        return part
    headline = f"Preliminary: {part.answer.headline}"
    return replace(part, answer=replace(part.answer, headline=headline))


# ---- charts ---------------------------------------------------------------------


def at(found: list[View], wanted: Mapping[str, Value]) -> list[View]:
    """Return the views of the points that have all the `wanted` values."""
    return [view for view in found if wanted.items() <= json.loads(view.point).items()]


def _described(chart: study.Chart) -> str:
    """Describe a chart that cannot be drawn, because its measurements are missing."""
    of = " of ".join(filter(None, [chart.metric and figures.name_of(chart.metric), chart.job]))
    return f"{chart.kind}: {', '.join(filter(None, [of, _where(chart)]))}"


def _where(chart: study.Chart) -> str:
    return ", ".join([chart.measure, *(f"{name} = {value}" for name, value in chart.at.items())])


@dataclass(frozen=True)
class _Asked:
    """A chart that a page needs, and the data for it."""

    identity: str
    chart: study.Chart
    there: Measured
    views: list[View]  # the points that the chart shows
    looks: dict[str, Style]


def _chart(
    identity: str, chart: study.Chart, there: Measured, looks: dict[str, Style]
) -> Chart | None:
    """Draw a chart; return None if there is no measurement for it."""
    views = at(there.views, chart.at)
    return _KINDS[chart.kind](_Asked(identity, chart, there, views, looks)) if views else None


def _protection(asked: _Asked) -> Chart | None:
    view = asked.views[0]
    found = charts.places(view, asked.there.values)
    return charts.protection(asked.identity, found, view, asked.looks) if found else None


def _bars(asked: _Asked) -> Chart | None:
    view, job, metric = asked.views[0], asked.chart.job, _named(asked.chart.metric)
    if not view.ranked(job, metric):
        return None
    return charts.bars(asked.identity, view, job, metric, asked.looks)


def _lines(asked: _Asked) -> Chart | None:
    key, metric = _named(asked.chart.x), _named(asked.chart.metric)
    sweep = Sweep(key, "", _steps(asked.views, key))
    if len(sweep.steps) == 1:
        return _bars(asked)
    return sweeps.lines(
        asked.identity, sweep, asked.chart.job, metric, asked.there.values, asked.looks
    )


def _cdf(asked: _Asked) -> Chart | None:
    job = _named(asked.chart.job)
    seen = _seen(asked.there, job, asked.views[0])
    return distributions.cdf(asked.identity, job, seen, asked.looks) if seen else None


def _heat(asked: _Asked) -> Chart | None:
    job, key = _named(asked.chart.job), _named(asked.chart.x)
    steps = [(step, _seen(asked.there, job, view)) for step, view in _steps(asked.views, key)]
    steps = [step for step in steps if step[1]]
    return distributions.heat(asked.identity, job, key, steps) if steps else None


def _grid(asked: _Asked) -> Chart | None:
    chart = asked.chart
    x, y = _named(chart.x), _named(chart.y)
    points = [(json.loads(view.point), view) for view in asked.views]
    cells = [(point[x], point[y], view) for point, view in points]
    return grids.grid(
        asked.identity, cells, (x, y), _named(chart.scheduler), chart.job, _named(chart.metric)
    )


_KINDS: Mapping[str, Callable[[_Asked], Chart | None]] = {
    "protection": _protection,
    "bars": _bars,
    "lines": _lines,
    "cdf": _cdf,
    "heat": _heat,
    "grid": _grid,
}


def _named(name: str | None) -> str:
    assert name is not None  # study.KINDS requires this key for this kind of chart
    return name


def _steps(views: list[View], key: str) -> list[tuple[float, View]]:
    steps = [(json.loads(view.point)[key], view) for view in views]
    return sorted(steps, key=lambda step: step[0])


def _seen(there: Measured, job: str, view: View) -> dict[str, metrics.Bins]:
    """Return a job's latency histograms at a point, by scheduler."""
    found = there.histograms(job)
    return {name: bins for name in view.schedulers if (bins := found.get((view.point, name)))}
