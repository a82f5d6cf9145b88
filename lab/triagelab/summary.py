# SPDX-License-Identifier: GPL-2.0-only
"""From the tidy table to the summary that other programs read (summary.json).

Rows and verdicts come in a fixed order (point, job, metric, scheduler), so that
two summaries of the same measurements are the same text.
"""

import itertools
import json
from typing import Any

import polars as pl

from triagelab import statistics
from triagelab.samples import OVERALL_UNITS, point_order, resolution, units

# What schedulers are compared by; the rest is in the rows.
COMPARED = ("p99_us", "iops", "mean_us", "bytes_per_s", "cpu_s")
COMPARED_OF_RUN = ("instructions_per_io", "contended_locks_per_io", *OVERALL_UNITS)

Record = dict[str, Any]
Key = tuple[str, str, str | None, str]  # point, scheduler, job, metric
Values = dict[Key, dict[int, float]]  # by repeat number


def is_alone(point: Record) -> bool:
    """Whether this is the baseline, in which the protected job runs alone."""
    return bool(point.get("alone"))


def summarise(samples: pl.DataFrame, environment: Record) -> Record:
    """The content of summary.json.

    A verdict compares scheduler `a` with `b`, which stands before it in the
    experiment's list, at one point: `ratio` is a's mean over b's.
    """
    values = by_repeat(samples)
    return {
        "schema": 1,
        "experiment": environment["experiment"],
        "machine": environment["machine"],
        "device": environment["device"]["name"],
        "kernel": environment["kernel"],
        "repeats": environment["repeats"],
        "rows": _rows(values, environment),
        "verdicts": _verdicts(values, environment),
    }


def by_repeat(samples: pl.DataFrame) -> Values:
    """Each metric of each job under each scheduler: its value in every repeat."""
    values: Values = {}
    whole = samples.filter(pl.col("time_s").is_null())
    columns = ("point", "scheduler", "job", "metric", "repeat", "value")
    for point, scheduler, job, metric, repeat, value in whole.select(columns).iter_rows():
        values.setdefault((point, scheduler, job, metric), {})[repeat] = value
    return values


def points(values: Values) -> list[str]:
    """The points measured, the baselines last."""
    found = {key[0]: json.loads(key[0]) for key in values}
    return sorted(found, key=lambda text: (is_alone(found[text]), point_order(found[text])))


def schedulers(values: Values, environment: Record) -> list[str]:
    """The schedulers measured, in the experiment's order."""
    found = {key[1] for key in values}
    known = [name for name in environment["schedulers"] if name in found]
    return known + sorted(found - set(known))


def jobs(values: Values, environment: Record) -> list[str]:
    """The jobs measured: the protected one, the background, then any other."""
    found = list(dict.fromkeys(key[2] for key in values if key[2] is not None))
    wanted = [environment.get("protected"), *environment.get("background", [])]
    known = [name for name in wanted if name in found]
    return known + [name for name in found if name not in known]


def _rows(values: Values, environment: Record) -> list[Record]:
    rows = []
    unit_of = units(environment)
    keys = itertools.product(
        points(values),
        [*jobs(values, environment), None],
        unit_of,
        schedulers(values, environment),
    )
    for point, job, metric, scheduler in keys:
        measured = values.get((point, scheduler, job, metric))
        if not measured:
            continue
        estimate = statistics.estimate([measured[repeat] for repeat in sorted(measured)])
        rows.append(
            {
                "scheduler": scheduler,
                "point": json.loads(point),
                "job": job,
                "metric": metric,
                "unit": unit_of[metric],
                "mean": estimate.mean,
                "ci95": _as_list(estimate.ci95),
                "n": estimate.n,
            }
        )
    return rows


def _verdicts(values: Values, environment: Record) -> list[Record]:
    verdicts = []
    metrics: list[tuple[str | None, str]] = [
        *itertools.product(jobs(values, environment), COMPARED),
        *((None, metric) for metric in COMPARED_OF_RUN),
    ]
    pairs = itertools.combinations(schedulers(values, environment), 2)
    for point, (job, metric), (b, a) in itertools.product(points(values), metrics, pairs):
        above = values.get((point, a, job, metric), {})
        below = values.get((point, b, job, metric), {})
        comparison = statistics.compare(above, below, resolution(metric))
        if comparison is None:
            continue
        verdicts.append(
            {
                "point": json.loads(point),
                "job": job,
                "metric": metric,
                "a": a,
                "b": b,
                "ratio": comparison.ratio,
                "ci95": _as_list(comparison.ci95),
                "n": comparison.n,
                "verdict": comparison.verdict,
            }
        )
    return verdicts


def _as_list(interval: statistics.Interval | None) -> list[float] | None:
    return list(interval) if interval else None


def alone_key(point: str, found: list[str]) -> str | None:
    """The baseline that belongs to a point: the one that agrees with it in most, and in all."""
    here = {**json.loads(point), "alone": True}.items()
    baselines = {
        key: len(there)
        for key in dict.fromkeys(found)
        if is_alone(there := json.loads(key)) and there.items() <= here
    }
    return max(baselines, key=lambda key: baselines[key], default=None)
