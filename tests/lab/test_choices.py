# SPDX-License-Identifier: GPL-2.0-only
"""Tests of choices: the protected job's latency at the worst point, and choices by metrics."""

from typing import Any

import pytest
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


def test_what_the_background_keeps_is_all_where_it_is_unknown() -> None:
    assert choices.kept(views({}), "another") == 1


def judged(**of: dict[str, float]) -> list[lookup.View]:
    """Return a list with one view, of one repeat. `of`: scheduler -> metric -> figure."""
    rows = [
        row(name, {}, mean) | {"job": None, "metric": metric, "unit": "", "n": 1}
        for name, figures in of.items()
        for metric, mean in figures.items()
    ]
    environment = {"schedulers": list(of), "judged_by": list(next(iter(of.values()))), "device": {}}
    return lookup.views({"rows": rows, "verdicts": []}, environment)


@pytest.mark.parametrize("locks", [0, 1e-7, 0.0002])
def test_a_few_locks_less_are_not_worth_half_of_the_throughput(locks: float) -> None:
    found = choices.choose_judged(
        judged(
            none={"total_iops": 14000, "contended_locks_per_io": 0.0006},
            slow={"total_iops": 7000, "contended_locks_per_io": locks},
        )
    )
    assert found and found.worth == ["none"]


def test_many_locks_less_are_worth_something() -> None:
    found = choices.choose_judged(
        judged(
            none={"total_iops": 14000, "contended_locks_per_io": 0.8},
            slow={"total_iops": 13000, "contended_locks_per_io": 0.0006},
        )
    )
    assert found and found.best == ["slow"]


def test_what_is_always_late_does_not_make_every_other_gain_endless() -> None:
    found = choices.choose_judged(
        judged(
            none={"late_share": 1.0, "total_bytes_per_s": 100},
            strict={"late_share": 0.004, "total_bytes_per_s": 1},
            fair={"late_share": 0.005, "total_bytes_per_s": 80},
        )
    )
    assert found and found.best == ["fair"]


def test_what_has_no_bandwidth_has_no_power() -> None:
    found = choices.choose_judged(
        judged(
            none={"least_share": 0.0, "total_bytes_per_s": 100},
            idle={"least_share": 0.2, "total_bytes_per_s": 0},
            busy={"least_share": 0.1, "total_bytes_per_s": 90},
        )
    )
    assert found and found.best == ["busy"]


def test_a_point_without_any_judged_figure_lets_nothing_be_chosen() -> None:
    full = judged(none={"total_iops": 100}, fast={"total_iops": 900})
    other = judged(none={"iops": 100}, fast={"iops": 900})
    other[0].judged_by = []
    assert choices.choose_judged(full)
    assert choices.choose_judged([*full, *other]) is None
