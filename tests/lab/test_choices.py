# SPDX-License-Identifier: GPL-2.0-only
"""Tests of choices.level(): the protected job's latency, relative to alone or in µs."""

from typing import Any

from triagelab.base import metrics
from triagelab.judge import choices, lookup


def row(scheduler: str, point: dict[str, Any], mean: float) -> dict[str, Any]:
    """Return the row of a summary with the protected job's mean tail latency, in µs."""
    return {
        "scheduler": scheduler,
        "point": point,
        "job": "reader",
        "metric": metrics.TAIL,
        "unit": "µs",
        "mean": mean,
        "ci95": None,
        "n": 5,
        "requests": 5000,
        "starved": 0,
    }


def views(alone: dict[str, float]) -> list[lookup.View]:
    """Return a view of each point. `alone`: block size -> latency of the job alone, in µs."""
    rows = [
        row(lookup.BASELINE, {"bs": "4k"}, 300),
        row(lookup.BASELINE, {"bs": "64k"}, 2000),
        *(
            row(lookup.BASELINE, {"bs": size, "alone": True}, latency)
            for size, latency in alone.items()
        ),
    ]
    environment = {
        "schedulers": [lookup.BASELINE],
        "protected": "reader",
        "background": [],
        "device": {},
    }
    return lookup.views({"rows": rows, "verdicts": []}, environment)


def test_a_level_is_relative_where_the_job_was_alone_at_every_point() -> None:
    assert choices.level(views({"4k": 100, "64k": 1000}), lookup.BASELINE) == 3


def test_a_level_never_mixes_ratios_and_times() -> None:
    assert choices.level(views({"4k": 100}), lookup.BASELINE) == 2000
    assert choices.level(views({"64k": 1000}), lookup.BASELINE) == 2000
