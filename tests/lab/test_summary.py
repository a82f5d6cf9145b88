# SPDX-License-Identifier: GPL-2.0-only
"""Tests that summary.json has its documented rows and verdicts, in a fixed order."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from triagelab.base import metrics
from triagelab.base.metrics import Of
from triagelab.measure import samples, summary
from triagelab.measure.statistics import ALPHA, HIGHER, LOWER, NO_DIFFERENCE, NOT_ENOUGH
from triagelab.measure.summary import alone_key
from triagelab.run import records
from triagelab.run.records import point_key

from tests.lab import rundirs
from tests.lab.rundirs import Load

STUDY = dataclasses.replace(rundirs.STUDY, seconds=1.0)


JOB_METRICS = [metric.name for metric in metrics.of(Of.JOB)]
COMPARED = [metric.name for metric in metrics.of(Of.JOB) if metric.compared]


def summarised(out: Path) -> dict[str, Any]:
    environment = records.read_environment(out)
    return summary.summarise(samples.collect(out), environment)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rundirs.make(tmp_path_factory.mktemp("study") / "out", STUDY)


@pytest.fixture(scope="module")
def found(study: Path) -> dict[str, Any]:
    return summarised(study)


def test_head(found: dict[str, Any]) -> None:
    head = {key: value for key, value in found.items() if key not in ("rows", "verdicts")}
    assert head == {
        "schema": 1,
        "experiment": "mixed-priority",
        "machine": "sim",
        "device": "null",
        "kernel": "6.12.117+deb12-amd64",
        "repeats": 5,
    }


def test_background_jobs_come_after_the_protected_one_and_before_others() -> None:
    values: Any = dict.fromkeys(("{}", "none", job, "iops") for job in ("a", "b", "c", "d", None))
    environment = {"protected": "c", "background": ["d", "b", "missing"]}
    assert summary.jobs(values, environment) == ["c", "d", "b", "a"]


def test_every_row_is_there_once(found: dict[str, Any]) -> None:
    keys = [
        (row["scheduler"], str(row["point"]), row["job"], row["metric"]) for row in found["rows"]
    ]
    assert len(set(keys)) == len(keys)
    wanted = {
        (scheduler, "{}", job, metric)
        for scheduler in STUDY.loads
        for job in ("database_sim", "backup_sim")
        for metric in JOB_METRICS
    }
    wanted |= {("none", "{'alone': True}", "database_sim", metric) for metric in JOB_METRICS}
    # 300 and 180 requests are too few for a P99.9.
    wanted -= {(name, "{}", "database_sim", "p999_us") for name in ("none", "mq-deadline", "kyber")}
    assert wanted <= set(keys)
    assert ("none", "{}", "database_sim", "p999_us") not in keys
    assert ("kyber", "{}", None, "instructions_per_io") in keys
    for row in found["rows"]:
        low, high = row["ci95"] or (row["mean"], row["mean"])
        assert row["n"] == 5
        assert low <= row["mean"] * (1 + 1e-12)
        assert row["mean"] <= high * (1 + 1e-12)


def test_verdicts_are_of_every_pair(found: dict[str, Any]) -> None:
    pairs = [(v["a"], v["b"], v["job"], v["metric"]) for v in found["verdicts"]]
    of_jobs = [pair for pair in pairs if pair[2] is not None]
    of_run = [pair for pair in pairs if pair[2] is None]
    assert len(set(of_jobs)) == len(of_jobs) == 10 * 2 * len(COMPARED)
    assert len(set(of_run)) == len(of_run) == 10 * 2
    assert {metric for *_, metric in of_run} == {"instructions_per_io", "background_bytes_per_s"}
    by_pair = dict(zip(pairs, found["verdicts"], strict=True))
    means = {
        (row["scheduler"], row["job"], row["metric"]): row["mean"]
        for row in found["rows"]
        if row["point"] == {}
    }
    for (a, b, job, metric), verdict in by_pair.items():
        assert verdict["ratio"] == pytest.approx(
            means[a, job, metric] / means[b, job, metric], rel=0.05
        )
    protected = by_pair["prio-basic", "none", "database_sim", "p99_us"]
    assert protected["verdict"] == LOWER
    assert by_pair["prio-basic", "bfq", "backup_sim", "iops"]["verdict"] == HIGHER


def test_a_percentile_one_bin_higher_is_no_difference(tmp_path: Path) -> None:
    """A P99 that is one histogram bin higher in every repeat is no difference.

    A mean that is higher by the same factor is a difference.
    """
    loads = {name: STUDY.loads[name] for name in ("none", "kyber")}
    out = rundirs.make(tmp_path / "out", dataclasses.replace(STUDY, loads=loads))
    environment = records.read_environment(out)
    table = samples.collect(out)
    a_bin = {"none": 127.0, "kyber": 128.0}
    wobble = 1 + pl.col("repeat") / 10000  # constant values would leave the spread unknown
    told = table.with_columns(value=pl.col("scheduler").replace_strict(a_bin) * wobble)
    told = told.with_columns(
        value=pl.when(pl.col("metric") == "mean_us", pl.col("scheduler") == "none")
        .then(pl.col("value") * wobble)
        .otherwise(pl.col("value"))
    )
    verdicts = {
        verdict["metric"]: verdict["verdict"]
        for verdict in summary.summarise(told, environment)["verdicts"]
        if verdict["job"] == "database_sim"
    }
    assert verdicts["p99_us"] == NO_DIFFERENCE
    assert verdicts["mean_us"] == HIGHER


def test_one_request_more_is_no_difference(tmp_path: Path) -> None:
    """301 requests in every repeat do not differ from 300; 330 requests do."""
    quiet = dataclasses.replace(STUDY, noise=0.0, alone=None, seconds=1.0)
    for more, seen in ((301, NO_DIFFERENCE), (330, HIGHER)):
        loads = {
            name: {"database_sim": Load(count, 3000), "backup_sim": Load(9000, 3000)}
            for name, count in (("none", 300), ("kyber", more))
        }
        bench = dataclasses.replace(quiet, loads=loads)
        found = summarised(rundirs.make(tmp_path / str(more), bench))
        verdicts = {(v["job"], v["metric"]): v["verdict"] for v in found["verdicts"]}
        assert verdicts["database_sim", "iops"] == seen


def test_a_row_says_how_many_requests_it_rests_on(found: dict[str, Any]) -> None:
    rows = {
        (row["scheduler"], row["job"], row["metric"]): row
        for row in found["rows"]
        if row["point"] == {}
    }
    for scheduler, jobs in STUDY.loads.items():
        for job, load in jobs.items():
            for metric in ("iops", "p99_us", "cpu_s"):
                requests = rows[scheduler, job, metric]["requests"]
                assert requests == pytest.approx(5 * load.iops, rel=0.05)
    assert rows["none", None, "instructions_per_io"]["requests"] > 9000
    assert (
        rows["none", None, "background_bytes_per_s"]["requests"]
        == (rows["none", "backup_sim", "bytes_per_s"]["requests"])
    )


def test_a_percentile_that_one_repeat_has_too_few_requests_for_is_left_out(tmp_path: Path) -> None:
    """If a repeat has fewer than 100 requests, P99 has no row: the others' mean would mislead."""

    def few(point: dict[str, Any], scheduler: str, job: str, load: Load) -> Load:
        return dataclasses.replace(load, iops=99.0) if job == "database_sim" else load

    bench = dataclasses.replace(STUDY, loads={"none": STUDY.loads["none"]}, at=few, alone=None)
    out = rundirs.make(tmp_path / "out", bench)
    table = samples.collect(out).filter(job="database_sim", metric="p99_us")
    assert 0 < len(table) < 5, "some repeats have 100 requests"
    assert table["requests"].min() >= 100  # type: ignore[operator]
    metrics_found = {row["metric"] for row in summarised(out)["rows"]}
    in_rows = {row["metric"] for row in summarised(out)["rows"] if row["job"] == "database_sim"}
    assert "p99_us" in metrics_found, "of the background"
    assert "p99_us" not in in_rows
    assert "max_us" in in_rows


def test_a_job_that_starved_says_so_and_has_no_verdict(tmp_path: Path) -> None:
    bench = dataclasses.replace(STUDY, starved=(("kyber", 0), ("kyber", 3)))
    out = rundirs.make(tmp_path / "out", bench)
    table = samples.collect(out).filter(job="database_sim", scheduler="kyber", metric="iops")
    assert [row["repeat"] for row in table.iter_rows(named=True) if not row["requests"]] == [0, 3]
    found = summarised(out)
    said = "nothing completed in 2 of 5 repeats under kyber"
    mine = [
        v for v in found["verdicts"] if v["job"] == "database_sim" and "kyber" in (v["a"], v["b"])
    ]
    assert {v["metric"] for v in mine} == set(COMPARED)
    assert {(v["verdict"], v["ratio"], v["n"]) for v in mine if v["metric"] == "p99_us"} == {
        (said, None, 3)
    }
    assert {v["verdict"] for v in mine} == {said}
    rows = {row["metric"]: row for row in found["rows"]
            if row["scheduler"] == "kyber" and row["job"] == "database_sim"}  # fmt: skip
    assert {row["starved"] for row in rows.values()} == {2}
    assert (rows["p99_us"]["n"], rows["iops"]["n"]) == (3, 5)
    others = [v["verdict"] for v in found["verdicts"] if v["job"] == "backup_sim"]
    assert said not in others


def test_a_job_that_always_starved_says_so_in_the_same_place(tmp_path: Path) -> None:
    every = tuple(("kyber", repeat) for repeat in range(5))
    found = summarised(rundirs.make(tmp_path / "out", dataclasses.replace(STUDY, starved=every)))
    (verdict,) = (
        v for v in found["verdicts"]
        if (v["a"], v["b"], v["job"], v["metric"]) == ("kyber", "none", "database_sim", "p99_us")
    )  # fmt: skip
    assert verdict["verdict"] == "nothing completed in 5 of 5 repeats under kyber"
    assert verdict["ratio"] is None and verdict["n"] == 0


@pytest.mark.slow
def test_where_nothing_differs_five_reports_of_100_have_a_verdict_at_most(tmp_path: Path) -> None:
    """If all schedulers have the same true values, at most about 5 % of reports claim a difference.

    The test simulates 200 reports. It takes the means of one report, some of them from few
    requests, and multiplies each value by random noise of 5 %. The bound allows three standard
    errors above 5 %.
    """
    loads = dict.fromkeys(("none", "a", "b", "c", "d"), STUDY.loads["none"])
    bench = dataclasses.replace(STUDY, loads=loads, alone=None, seconds=0.2)
    out = rundirs.make(tmp_path / "out", bench)
    environment, table = records.read_environment(out), samples.collect(out)
    table = table.filter(pl.col("time_s").is_null())
    random = np.random.default_rng(1)
    reports, wrong = 200, 0
    level = table.select(pl.col("value").mean().over("job", "metric"))["value"]
    for _ in range(reports):
        noise = np.exp(random.normal(0, 0.05, len(table)))
        drawn = table.with_columns(value=level * pl.Series(noise))
        verdicts = summary.summarise(drawn, environment)["verdicts"]
        wrong += any(verdict["verdict"] in (LOWER, HIGHER) for verdict in verdicts)
    assert len(verdicts) > 100
    assert wrong / reports <= ALPHA + 3 * (ALPHA * (1 - ALPHA) / reports) ** 0.5


def test_same_measurements_make_the_same_text(study: Path, found: dict[str, Any]) -> None:
    assert json.dumps(summarised(study)) == json.dumps(found)


def test_no_figure_is_nan_or_infinite(found: dict[str, Any]) -> None:
    json.dumps(found, allow_nan=False)


def test_one_repeat_claims_nothing(tmp_path: Path) -> None:
    found = summarised(rundirs.make(tmp_path / "out", dataclasses.replace(STUDY, repeats=1)))
    assert NOT_ENOUGH == "too few repeats to tell"
    assert {row["ci95"] for row in found["rows"]} == {None}
    assert {verdict["verdict"] for verdict in found["verdicts"]} == {NOT_ENOUGH}


def test_only_repeats_both_finished_are_compared(tmp_path: Path) -> None:
    bench = dataclasses.replace(STUDY, failed=(("kyber", 0), ("bfq", 4)))
    found = summarised(rundirs.make(tmp_path / "out", bench))
    numbers = {(v["a"], v["b"]): v["n"] for v in found["verdicts"]}
    assert numbers["bfq", "kyber"] == 3
    assert numbers["kyber", "none"] == 4
    assert numbers["mq-deadline", "none"] == 5


def test_points_are_kept_apart(tmp_path: Path) -> None:
    points = ({"t_apps": 1}, {"t_apps": 8}, {"t_apps": 16})  # sorted as text, 16 is before 8
    bench = dataclasses.replace(STUDY, points=points, seconds=0.2)
    found = summarised(rundirs.make(tmp_path / "out", bench))
    verdicts = [v for v in found["verdicts"] if v["job"] is not None]
    assert [v["point"] for v in verdicts[:: 10 * 2 * len(COMPARED)]] == list(points)


@pytest.mark.parametrize(
    ("point", "baseline"),
    [
        ({"bs": "4k", "n": 1}, {"alone": True, "bs": "4k"}),
        ({"bs": "4k", "n": 2}, {"alone": True, "bs": "4k", "n": 2}),
        ({"bs": "64k", "n": 2}, {"alone": True}),
    ],
)
def test_the_baseline_that_agrees_in_most_is_a_points_own(
    point: dict[str, Any], baseline: dict[str, Any]
) -> None:
    found: list[dict[str, Any]] = [
        {"alone": True},
        {"alone": True, "bs": "4k"},
        {"alone": True, "bs": "4k", "n": 2},
        {"bs": "64k", "n": 2},
    ]
    assert alone_key(point_key(point), [*map(point_key, found)]) == point_key(baseline)


def test_parts_of_the_device_have_rows(tmp_path: Path) -> None:
    found = summarised(rundirs.make(tmp_path / "out", dataclasses.replace(STUDY, device="flash")))
    rows = {
        row["metric"]: row
        for row in found["rows"]
        if row["scheduler"] == "bfq" and row["job"] is None and row["metric"].endswith("sation")
    }
    assert list(rows) == [
        f"{name}_utilisation" for name in ("device", "cpu", "dies", "bus", "controller")
    ]
    assert {row["unit"] for row in rows.values()} == {"1"}
    assert rows["device_utilisation"]["mean"] == rows["dies_utilisation"]["mean"]
