# SPDX-License-Identifier: GPL-2.0-only
"""Tests of METRICS: how each metric is computed and compared, and how many requests it needs."""

from collections import Counter

import pytest
from triagelab.base import metrics
from triagelab.base.metrics import METRICS, Better, Done, Of, Together, Whole

JOB = Done(
    requests=2000,
    seconds=4.0,
    bytes=8_192_000,
    cpu_s=0.25,
    mean_us=70.0,
    max_us=900.0,
    bins=Counter({50_000: 1970, 400_000: 20, 800_000: 10}),
    completion=Counter({40_000: 2000}),
)
STARVED = Done(requests=0, seconds=0.0, bytes=0, cpu_s=0.01)
WHOLE = Whole(
    requests=1000, elapsed_ns=2_000_000_000, busy_ns=3_000_000, cpus=2, devices=4,
    context_switches=77, io_ticks_ms=4000, virtual_time=True, contended=250,
    used={"dies_utilisation": 0.5, "bus_utilisation": 0.75},
)  # fmt: skip
TOGETHER = Together(
    jobs={"a": JOB, "b": STARVED},
    background=("b", "gone"),
    by_weight=(3.0, 0.0),
    longest_ms=4000,
    deadlines={"a": 500, "b": 1, "gone": 1},
)


def value(name: str, of: object) -> float | None:
    return metrics.find(name).measure(of)


@pytest.mark.parametrize(
    ("name", "of", "expected"),
    [
        ("iops", JOB, 500), ("iops", STARVED, 0), ("bytes_per_s", JOB, 2_048_000),
        ("bytes_per_s", Done(5, 1.0), None), ("mean_us", JOB, 70), ("mean_us", STARVED, None),
        ("p50_us", JOB, 50), ("p99_us", JOB, 400), ("p999_us", JOB, 800),
        ("p99_us", STARVED, None), ("max_us", JOB, 900), ("max_us", STARVED, None),
        ("cpu_s", JOB, 0.25), ("clat_p99_us", JOB, 40), ("clat_p99_us", STARVED, None),
        ("instructions_per_io", WHOLE, 3000), ("contended_locks_per_io", WHOLE, 0.25),
        ("context_switches", WHOLE, 77), ("cpu_utilisation", WHOLE, 0.00075),
        ("device_utilisation", WHOLE, 0.75), ("device_busy", WHOLE, 0.5),
        ("dies_utilisation", WHOLE, 0.5), ("arm_utilisation", WHOLE, None),
        ("background_bytes_per_s", TOGETHER, 0), ("total_iops", TOGETHER, 500),
        ("total_bytes_per_s", TOGETHER, 2_048_000), ("jain_index", TOGETHER, 0.5),
        ("least_share", TOGETHER, 0), ("longest_wait_us", TOGETHER, 4e6),
        ("late_share", TOGETHER, (10 / 2000 + 1) / 2),
    ],
)  # fmt: skip
def test_a_metric_is_computed(name: str, of: object, expected: float | None) -> None:
    assert value(name, of) == pytest.approx(expected)


def test_every_metric_is_computed_above() -> None:
    told = {args[0] for args in test_a_metric_is_computed.pytestmark[0].args[1]}  # type: ignore[attr-defined]
    assert {metric.name for metric in METRICS if metric.of is not Of.TIME} <= told


def test_a_name_and_a_label_stand_for_one_metric() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert len({metric.label for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert metrics.known(metric.name)
        assert metrics.find(metric.name) is metric
        assert metrics.unit(metric.unit.name) is metric.unit


def test_schedulers_are_compared_only_by_what_can_be_better() -> None:
    assert all(metric.better for metric in METRICS if metric.compared)
    assert {metric.name for metric in METRICS if metric.better is Better.MORE} == {
        "iops", "bytes_per_s", "background_bytes_per_s", "total_iops", "total_bytes_per_s",
        "jain_index", "least_share",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "needs"),
    [("p50_us", 2), ("p99_us", 100), ("clat_p99_us", 100), ("p999_us", 1000), ("max_us", 1)],
)
def test_a_percentile_needs_requests_to_stand_on(name: str, needs: int) -> None:
    assert metrics.find(name).needs == needs


def test_one_request_is_the_step_of_what_counts_them() -> None:
    assert metrics.find("iops").step(50) == 0.02
    assert metrics.find("iops").step(0) == 0
    assert metrics.find("p99_us").step(50) == 1 / 64
    assert metrics.find("mean_us").step(50) == 0


def test_a_metric_rests_on_the_requests_it_is_made_of() -> None:
    assert metrics.find("background_bytes_per_s").rests_on(TOGETHER) == 0
    assert metrics.find("total_iops").rests_on(TOGETHER) == 2000
    assert metrics.find("least_share").rests_on(TOGETHER) == 0
    assert metrics.find("late_share").rests_on(TOGETHER) == 2000
    assert metrics.find("iops").rests_on(JOB) == 2000
    assert metrics.find("device_busy").rests_on(WHOLE) == 1000
