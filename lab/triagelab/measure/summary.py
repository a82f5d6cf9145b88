# SPDX-License-Identifier: GPL-2.0-only
"""Build the summary for other programs (summary.json) from the table of samples.collect().

Rows and verdicts have a fixed order: by point, job, metric and scheduler. So the same
measurements always give the same text.
"""

import itertools
import json
from typing import Any

import polars as pl

from triagelab.base import metrics
from triagelab.base.metrics import Metric, Of
from triagelab.measure import statistics
from triagelab.run import records
from triagelab.run.records import point_order

Record = dict[str, Any]
Key = tuple[str, str, str | None, str]  # point, scheduler, job, metric
Values = dict[Key, dict[int, float]]  # by repeat number
Requests = dict[Key, dict[int, int]]  # the number of requests behind a value, by repeat


def is_alone(point: Record) -> bool:
    """Return whether the protected job runs alone at a point."""
    return bool(point.get("alone"))


def summarise(table: pl.DataFrame, environment: Record) -> Record:
    """Build the content of summary.json from the table of samples.collect().

    A verdict compares two schedulers, `a` and `b`, at one point. `b` comes before `a` in the
    experiment's list of schedulers, and `ratio` is the value under `a` divided by the value under
    `b`. In a row, `requests` is the number of requests in all repeats, and `starved` is the number
    of repeats in which the job completed nothing.
    """
    values, requests = by_repeat(table), _requests(table)
    return {
        "schema": 1,
        "experiment": environment["experiment"],
        "machine": environment["machine"],
        "device": environment["device"]["name"],
        "kernel": environment["kernel"],
        "repeats": environment["repeats"],
        "rows": _rows(values, requests, environment),
        "verdicts": _verdicts(values, requests, environment),
    }


def by_repeat(table: pl.DataFrame) -> Values:
    """Return the values of each point, scheduler, job and metric, by repeat.

    Leave out a percentile if, in some repeat, the job completed requests but too few for it.
    """
    values: Values = {}
    done: dict[tuple[str, str, str | None], set[int]] = {}
    whole = table.filter(pl.col("time_s").is_null())
    columns = ("point", "scheduler", "job", "metric", "repeat", "value", "requests")
    for point, scheduler, job, metric, repeat, value, requests in whole.select(columns).iter_rows():
        values.setdefault((point, scheduler, job, metric), {})[repeat] = value
        if requests:
            done.setdefault((point, scheduler, job), set()).add(repeat)
    return {
        key: of
        for key, of in values.items()
        if metrics.find(key[3]).needs == 1 or of.keys() >= done[key[:3]]
    }


def _requests(table: pl.DataFrame) -> Requests:
    """Return the number of requests behind each value, by repeat."""
    found: Requests = {}
    counted = table.filter(pl.col("time_s").is_null(), pl.col("requests").is_not_null())
    columns = ("point", "scheduler", "job", "metric", "repeat", "requests")
    for *key, repeat, requests in counted.select(columns).iter_rows():
        found.setdefault(_key(key), {})[repeat] = requests
    return found


def _key(cells: list[Any]) -> Key:
    point, scheduler, job, metric = cells
    return point, scheduler, job, metric


def starved(requests: Requests, point: str, scheduler: str, job: str | None) -> str:
    """Return a phrase that says in how many repeats a job completed nothing; empty if in none."""
    done = requests.get((point, scheduler, job, "iops"), {})
    nothing = sum(count == 0 for count in done.values())
    return nothing_completed(nothing, len(done)) if nothing else ""


def nothing_completed(nothing: int, repeats: int) -> str:
    """Return the phrase for a job that starved in some repeats."""
    return f"nothing completed in {nothing} of {repeats} repeats"


def points(values: Values) -> list[str]:
    """Return the measured points; the points where the protected job runs alone come last."""
    found = {key[0]: json.loads(key[0]) for key in values}
    return sorted(found, key=lambda text: (is_alone(found[text]), point_order(found[text])))


def schedulers(values: Values, environment: Record) -> list[str]:
    """Return the measured schedulers, in the experiment's order."""
    found = {key[1] for key in values}
    known = [name for name in environment["schedulers"] if name in found]
    return known + sorted(found - set(known))


def jobs(values: Values, environment: Record) -> list[str]:
    """Return the measured jobs: the protected job, the background jobs, then the others."""
    found = list(dict.fromkeys(key[2] for key in values if key[2] is not None))
    wanted = [environment.get("protected"), *environment.get("background", [])]
    known = [name for name in wanted if name in found]
    return known + [name for name in found if name not in known]


def _rows(values: Values, requests: Requests, environment: Record) -> list[Record]:
    rows = []
    every = [*metrics.METRICS, *map(metrics.part, records.parts(environment))]
    keys = itertools.product(
        points(values),
        [*jobs(values, environment), None],
        every,
        schedulers(values, environment),
    )
    for point, job, metric, scheduler in keys:
        key = (point, scheduler, job, metric.name)
        measured = values.get(key)
        if not measured:
            continue
        rests_on = requests.get(key, {})
        estimate = statistics.estimate(
            [measured[repeat] for repeat in sorted(measured)], _step(metric, rests_on)
        )
        of_job = requests.get((point, scheduler, job, "iops"), {})
        rows.append(
            {
                "scheduler": scheduler,
                "point": json.loads(point),
                "job": job,
                "metric": metric.name,
                "unit": metric.unit.name,
                "mean": estimate.mean,
                "ci95": _as_list(estimate.ci95),
                "n": estimate.n,
                "requests": sum(rests_on[repeat] for repeat in measured) if rests_on else None,
                "starved": sum(count == 0 for count in of_job.values()),
            }
        )
    return rows


def _step(metric: Metric, *rest_on: dict[int, int]) -> float:
    """Return the smallest difference that the metric can show, as a share of its value.

    The step depends on the repeat with the fewest requests, but repeats with 0 requests do not
    count.
    """
    counts = [count for of in rest_on for count in of.values() if count]
    return metric.step(min(counts, default=0))


def _verdicts(values: Values, requests: Requests, environment: Record) -> list[Record]:
    """Return the verdicts on all pairs of schedulers at all points, corrected for their number.

    If a job starved under a scheduler of the pair, the verdict says so, and the correction does
    not count it.
    """
    wanted: list[tuple[str | None, Metric]] = [
        *itertools.product(
            jobs(values, environment), [of for of in metrics.of(Of.JOB) if of.compared]
        ),
        *((None, of) for of in metrics.of(Of.RUN, Of.JOBS) if of.compared),
    ]
    pairs = itertools.combinations(schedulers(values, environment), 2)
    family: list[tuple[Record, statistics.Ratio]] = []
    verdicts = []
    for point, (job, metric), (b, a) in itertools.product(points(values), wanted, pairs):
        keys = [(point, scheduler, job, metric.name) for scheduler in (a, b)]
        above, below = (values.get(key, {}) for key in keys)
        about = {"point": json.loads(point), "job": job, "metric": metric.name, "a": a, "b": b}
        nothing = [
            f"{said} under {scheduler}"
            for scheduler in (a, b)
            if (said := starved(requests, point, scheduler, job))
        ]
        if nothing and (above or below or metric.is_latency_of_job):
            n = len(above.keys() & below.keys())
            no_verdict = {"ratio": None, "ci95": None, "n": n, "verdict": "; ".join(nothing)}
            verdicts.append(about | no_verdict)
            continue
        step = _step(metric, *(requests.get(key, {}) for key in keys))
        ratio = statistics.compare(above, below, step)
        if ratio is not None:
            family.append((about, ratio))
            verdicts.append(about)
    for (about, _), found in zip(
        family, statistics.judged([ratio for _, ratio in family]), strict=True
    ):
        about |= {
            "ratio": found.ratio,
            "ci95": _as_list(found.ci95),
            "n": found.n,
            "verdict": found.verdict,
        }
    return verdicts


def _as_list(interval: statistics.Interval | None) -> list[float] | None:
    return list(interval) if interval else None


def alone_key(point: str, found: list[str]) -> str | None:
    """Return the point in `found` where the protected job runs alone, to compare `point` with.

    Except for `alone`, the settings of the returned point are a subset of those of `point`. If
    several points fit, return the one with the most settings; if no point fits, return None.
    """
    here = {**json.loads(point), "alone": True}.items()
    baselines = {
        key: len(there)
        for key in dict.fromkeys(found)
        if is_alone(there := json.loads(key)) and there.items() <= here
    }
    return max(baselines, key=lambda key: baselines[key], default=None)
