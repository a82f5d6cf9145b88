# SPDX-License-Identifier: GPL-2.0-only
"""Look up figures in a summary: by point, by scheduler, or along a sweep."""

import json
from dataclasses import dataclass
from typing import Any

from triagelab.base import metrics
from triagelab.base.metrics import MAXIMUM, TAIL
from triagelab.judge.figures import listed, more_is_better, quantity
from triagelab.measure.statistics import LOWER, NO_DIFFERENCE, NOT_CERTAIN, Comparison, Estimate
from triagelab.measure.summary import alone_key, is_alone, nothing_completed
from triagelab.run.records import parts, point_key

Record = dict[str, Any]

BASELINE = "none"  # the scheduler that others are compared with


class View:
    """The figures and verdicts of a summary at one point of the experiment's matrix."""

    def __init__(self, summary: Record, environment: Record, point: str) -> None:
        found = [point_key(row["point"]) for row in summary["rows"]]
        self._alone_key = alone_key(point, found)
        self._rows = {
            (point_key(row["point"]), row["scheduler"], row["job"], row["metric"]): row
            for row in summary["rows"]
        }
        self._verdicts = {
            (verdict["a"], verdict["b"], verdict["job"], verdict["metric"]): verdict
            for verdict in summary["verdicts"]
            if point_key(verdict["point"]) == point
        }
        here = [row for row in summary["rows"] if point_key(row["point"]) == point]
        seen = {row["scheduler"] for row in here}
        self.point = point
        self.schedulers = [name for name in environment["schedulers"] if name in seen]
        self.jobs = list(dict.fromkeys(row["job"] for row in here if row["job"] is not None))
        protected = environment.get("protected")
        self.protected: str | None = protected if protected in self.jobs else None
        self.background = [name for name in environment.get("background", []) if name in self.jobs]
        self.repeats = min(map(_repeats, here), default=0)  # the fewest repeats of any figure
        #: scheduler -> its repeats; some of its figures may rest on fewer
        self.repeats_of = {
            name: max(_repeats(row) for row in here if row["scheduler"] == name)
            for name in self.schedulers
        }
        self.metrics = list(dict.fromkeys(row["metric"] for row in here))
        judged_by = environment.get("judged_by", [])
        self.judged_by = [name for name in judged_by if name in self.metrics]
        self.parts = [
            name for name in parts(environment) if metrics.part(name).name in self.metrics
        ]

    def row(self, scheduler: str, job: str | None, metric: str) -> Record | None:
        """Return a row of the summary; `job` is None for a metric of the whole run."""
        return self._rows.get((self.point, scheduler, job, metric))

    def alone(self, metric: str) -> Record | None:
        """Return the row of the protected job when it runs alone under the baseline, or None."""
        if self._alone_key is None or self.protected is None:
            return None
        return self._rows.get((self._alone_key, BASELINE, self.protected, metric))

    def alone_run(self, metric: str) -> Record | None:
        """Return the row of a whole-run metric for the runs that alone() reads, or None."""
        if self._alone_key is None:
            return None
        return self._rows.get((self._alone_key, BASELINE, None, metric))

    def starved(self, scheduler: str, job: str | None) -> str:
        """Return a phrase that says in how many repeats a job starved; empty if in none."""
        row = self.row(scheduler, job, "iops")
        return nothing_completed(row["starved"], row["n"]) if row and row["starved"] else ""

    def endless(self, scheduler: str, job: str | None, metric: str) -> str:
        """Return the phrase of starved() if the metric is a job's latency, and "" if it is not.

        The latency of a starved job is infinite. Its other metrics, such as IOPS, are finite.
        """
        return self.starved(scheduler, job) if metrics.find(metric).is_latency_of_job else ""

    def told(self, job: str | None, metric: str) -> str:
        """Return `metric`, or MAXIMUM if requests are too few for `metric` under some scheduler.

        For the protected job, return MAXIMUM also if requests are too few when it runs alone.
        """
        rows = [
            (self.row(name, job, metric), self.row(name, job, MAXIMUM)) for name in self.schedulers
        ]
        if job is not None and job == self.protected:
            rows.append((self.alone(metric), self.alone(MAXIMUM)))
        needs = metrics.find(metric).needs
        few = needs > 1 and any(maximum and not found for found, maximum in rows)
        return MAXIMUM if few else metric

    def tail(self, job: str | None) -> str:
        """Return a job's tail metric: P99 latency, or the maximum if requests are too few."""
        return self.told(job, TAIL)

    def mean(self, scheduler: str, job: str | None, metric: str) -> str:
        """Format a row's mean and, if the job starved, the number of repeats in which it starved.

        Return an empty text if there is no row.
        """
        row = self.row(scheduler, job, metric)
        if row is None:
            return ""
        starved = self.starved(scheduler, job)
        return "; ".join(filter(None, [quantity(row["mean"], row["unit"]), starved]))

    def compare(self, a: str, b: str, job: str | None, metric: str) -> Comparison | None:
        """Return the comparison of a with b; None if the summary does not compare them.

        If the summary compares b with a, invert that comparison.
        """
        if verdict := self._verdicts.get((a, b, job, metric)):
            return _comparison(verdict)
        if verdict := self._verdicts.get((b, a, job, metric)):
            return _comparison(verdict).inverse()
        return None

    def ratio(self, a: str, b: str, job: str | None, metric: str) -> float | None:
        """Return a's figure divided by b's; None if a figure is missing, or if b's is 0.

        It is the ratio of paired repeats if the summary has it, else the ratio of the means.
        """
        compared = self.compare(a, b, job, metric)
        if compared is not None and compared.ratio is not None:
            return compared.ratio
        above, below = (self.row(name, job, metric) for name in (a, b))
        return above["mean"] / below["mean"] if above and below and below["mean"] else None

    def kept(self, scheduler: str, job: str) -> float | None:
        """Return a job's bandwidth relative to the baseline; None if this ratio is unknown."""
        return self.ratio(scheduler, BASELINE, job, "bytes_per_s")

    def ranked(self, job: str | None, metric: str) -> list[str]:
        """Return the schedulers that have a mean, the best first.

        If the metric is a latency, schedulers under which the job starved in a repeat come last.
        """
        means = {
            name: (bool(self.endless(name, job, metric)), row["mean"])
            for name in self.schedulers
            if (row := self.row(name, job, metric)) is not None
        }
        return sorted(means, key=lambda name: means[name], reverse=more_is_better(metric))

    def equals(self, best: str, job: str | None, metric: str) -> list[str]:
        """Return the schedulers of which no difference to `best` was seen (Comparison.words).

        Leave out schedulers under which the job starved, if the metric is a latency.
        """
        return self._compared(best, job, metric, NO_DIFFERENCE)

    def uncertain(self, best: str, job: str | None, metric: str) -> list[str]:
        """Return the schedulers whose difference to `best` is not certain (Comparison.words)."""
        return self._compared(best, job, metric, NOT_CERTAIN)

    def _compared(self, best: str, job: str | None, metric: str, words: str) -> list[str]:
        return [
            name
            for name in self.ranked(job, metric)
            if name != best
            and not self.endless(name, job, metric)
            and (seen := self.compare(name, best, job, metric))
            and seen.words == words
        ]

    def protectors(self) -> list[str]:
        """Return the schedulers that lower the protected job's tail latency, by the verdicts.

        The scheduler with the lowest latency comes first.
        """
        if self.protected is None:
            return []
        tail = self.tail(self.protected)
        return [
            name
            for name in self.ranked(self.protected, tail)
            if (seen := self.compare(name, BASELINE, self.protected, tail))
            and seen.verdict == LOWER
        ]


def views(summary: Record, environment: Record) -> list[View]:
    """Return a view of each point, except the points where the protected job runs alone."""
    points = dict.fromkeys(
        point_key(row["point"]) for row in summary["rows"] if not is_alone(row["point"])
    )
    return [View(summary, environment, point) for point in points]


def _comparison(verdict: Record) -> Comparison:
    ci95 = tuple(verdict["ci95"]) if verdict["ci95"] else None
    return Comparison(verdict["ratio"], ci95, verdict["n"], verdict["verdict"])


def estimate(row: Record) -> Estimate:
    """Convert a row of the summary to an estimate."""
    return Estimate(row["mean"], tuple(row["ci95"]) if row["ci95"] else None, row["n"])


def describe(point: str) -> str:
    """Format a point for people: t_apps = 8, bs = 4k. Return "" if nothing varies."""
    return ", ".join(f"{name} = {value}" for name, value in json.loads(point).items())


def _repeats(row: Record) -> int:
    """Return the number of repeats that a row rests on.

    The `n` of a latency does not count the repeats in which the job starved; `starved` counts them.
    """
    counted = metrics.find(row["metric"]).is_latency_of_job
    return int(row["n"] + (row["starved"] if counted else 0))


def missing(found: list[View], scheduler: str) -> str:
    """Return a clause that names the points where a scheduler was not measured; empty if none."""
    where = varying(found)
    points = [where[view.point] for view in found if scheduler not in view.schedulers]
    return f"; not measured at {listed(points)}" if points else ""


def varying(found: list[View]) -> dict[str, str]:
    """Return a text for each point, with the settings that are not the same at all points."""
    points = {view.point: json.loads(view.point) for view in found}
    common = set.intersection(*(set(point.items()) for point in points.values()))
    return {key: describe(point_key(dict(point.items() - common))) for key, point in points.items()}


def shown(row: Record) -> str:
    """Format a row's mean and interval with its unit."""
    return quantity(row["mean"], row["unit"], row["ci95"])


@dataclass(frozen=True)
class Sweep:
    """Points of the matrix that differ only in one number, sorted by that number."""

    key: str  # the number's name
    fixed: str  # the rest of the point, for people; may be empty
    steps: list[tuple[float, View]]


def sweeps(found: list[View]) -> list[Sweep]:
    """Split the points into sweeps; return [] unless exactly one varied setting is a number."""
    points: list[Record] = [json.loads(view.point) for view in found]
    names = dict.fromkeys(name for point in points for name in point)
    varying = [name for name in names if _varies_in_number([p.get(name) for p in points])]
    if len(varying) != 1:
        return []
    key = varying[0]
    groups: dict[str, list[tuple[float, View]]] = {}
    for point, view in zip(points, found, strict=True):
        rest = {name: value for name, value in point.items() if name != key}
        groups.setdefault(describe(point_key(rest)), []).append((point[key], view))
    return [
        Sweep(key, fixed, sorted(steps, key=lambda step: step[0]))
        for fixed, steps in groups.items()
        if len(steps) > 1
    ]


def _varies_in_number(values: list[Any]) -> bool:
    # In Python, a bool is an int, but here it is a choice and not a number.
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )
    return numbers and len(set(values)) > 1
