# SPDX-License-Identifier: GPL-2.0-only
"""Guards: summary.json keeps its contract and its order."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from triagelab import samples, summary
from triagelab.samples import JOB_UNITS, point_key
from triagelab.statistics import HIGHER, LOWER, NO_DIFFERENCE, NOT_ENOUGH
from triagelab.summary import COMPARED, alone_key

from tests.lab import rundirs

STUDY = dataclasses.replace(rundirs.STUDY, seconds=0.5)


def summarised(out: Path) -> dict[str, Any]:
    environment = samples.read_environment(out)
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


def test_every_row_is_there_once(found: dict[str, Any]) -> None:
    keys = [
        (row["scheduler"], str(row["point"]), row["job"], row["metric"]) for row in found["rows"]
    ]
    assert len(set(keys)) == len(keys)
    wanted = {
        (scheduler, "{}", job, metric)
        for scheduler in STUDY.loads
        for job in ("database_sim", "backup_sim")
        for metric in JOB_UNITS
    }
    wanted |= {("none", "{'alone': True}", "database_sim", metric) for metric in JOB_UNITS}
    assert wanted <= set(keys)
    assert ("kyber", "{}", None, "instructions_per_io") in keys
    for row in found["rows"]:
        low, high = row["ci95"]
        assert row["n"] == 5
        assert low <= row["mean"] * (1 + 1e-12)
        assert row["mean"] <= high * (1 + 1e-12)


def test_verdicts_are_of_every_pair(found: dict[str, Any]) -> None:
    pairs = [(v["a"], v["b"], v["job"], v["metric"]) for v in found["verdicts"]]
    of_jobs = [pair for pair in pairs if pair[2] is not None]
    of_run = [pair for pair in pairs if pair[2] is None]
    assert len(set(of_jobs)) == len(of_jobs) == 10 * 2 * len(COMPARED)
    assert len(set(of_run)) == len(of_run) == 10
    assert {metric for *_, metric in of_run} == {"instructions_per_io"}
    by_pair = dict(zip(pairs, found["verdicts"], strict=True))
    means = {
        (row["scheduler"], row["job"], row["metric"]): row["mean"]
        for row in found["rows"]
        if row["point"] == {}
    }
    for (a, b, job, metric), verdict in by_pair.items():
        assert verdict["ratio"] == pytest.approx(means[a, job, metric] / means[b, job, metric])
    protected = by_pair["prio-basic", "none", "database_sim", "p99_us"]
    assert protected["verdict"] == LOWER
    assert by_pair["prio-basic", "bfq", "backup_sim", "iops"]["verdict"] == HIGHER


def test_a_percentile_one_bin_higher_is_no_difference(tmp_path: Path) -> None:
    """In every repeat; other figures may differ by as little."""
    loads = {name: STUDY.loads[name] for name in ("none", "kyber")}
    out = rundirs.make(tmp_path / "out", dataclasses.replace(STUDY, loads=loads, repeats=3))
    environment = samples.read_environment(out)
    table = samples.collect(out)
    a_bin = {"none": 127.0, "kyber": 128.0}
    told = table.with_columns(value=pl.col("scheduler").replace_strict(a_bin))
    verdicts = {
        verdict["metric"]: verdict["verdict"]
        for verdict in summary.summarise(told, environment)["verdicts"]
        if verdict["job"] == "database_sim"
    }
    assert verdicts["p99_us"] == NO_DIFFERENCE
    assert verdicts["mean_us"] == verdicts["iops"] == HIGHER


def test_same_measurements_make_the_same_text(study: Path, found: dict[str, Any]) -> None:
    assert json.dumps(summarised(study)) == json.dumps(found)


def test_no_figure_is_nan_or_infinite(found: dict[str, Any]) -> None:
    json.dumps(found, allow_nan=False)


def test_one_repeat_claims_nothing(tmp_path: Path) -> None:
    found = summarised(rundirs.make(tmp_path / "out", dataclasses.replace(STUDY, repeats=1)))
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
    points = ({"t_apps": 1}, {"t_apps": 8}, {"t_apps": 16})  # as numbers, not as text
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
        f"{name}_utilisation" for name in ("cpu", "device", "dies", "bus", "controller")
    ]
    assert {row["unit"] for row in rows.values()} == {"1"}
    assert rows["device_utilisation"]["mean"] == rows["dies_utilisation"]["mean"]
