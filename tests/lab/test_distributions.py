# SPDX-License-Identifier: GPL-2.0-only
"""Tests that CDFs and heat maps match the requests, and that each cell of a grid is right."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from triagelab.judge import figures
from triagelab.measure import samples
from triagelab.report import distributions, drawing, grids
from triagelab.run import records
from triagelab.run.records import point_key

from tests.lab import rundirs
from tests.lab.measured import case, drawn

MS = 1_000_000
#: Latencies of 1000 requests under each scheduler: 1 ms, but under bfq 100 ms for one in twenty.
FOUND = {"none": Counter({MS: 1000}), "bfq": Counter({MS: 950, 100 * MS: 50})}
LOOKS = drawing.styles(list(FOUND))


def test_a_cdf_says_how_many_requests_are_done_by_when() -> None:
    chart = distributions.cdf("c", "job", FOUND, LOOKS)
    traces = {trace["name"]: trace for trace in drawn(chart)["data"]}
    none, bfq = traces["none"], traces["bfq"]
    assert none["x"] == [1.0, 1.0]
    # y is -log10(1 - share of requests done). This line has one step, from 0 to 3, which is 99.9 %:
    # every line ends there.
    assert none["y"] == pytest.approx([0, 3], abs=1e-6)
    assert bfq["x"] == [1.0, 1.0, 100.0]
    assert bfq["y"][1] == pytest.approx(-np.log10(0.05))
    assert chart.title == (
        "job: 99 % of requests took at most 1.00\u00a0ms under none and 100\u00a0ms under bfq"
    )
    assert none["line"]["dash"] != bfq["line"]["dash"] or none["line"]["color"] == drawing.GREY


def test_a_heat_map_has_all_requests_of_a_step_in_its_column() -> None:
    worse = {"none": Counter({10 * MS: 10}), "bfq": Counter({MS: 500, 2 * MS: 500})}
    chart = distributions.heat("h", "job", "t_apps", [(1, FOUND), (8, worse)])
    heats = [trace for trace in drawn(chart)["data"] if trace["type"] == "heatmap"]
    assert len(heats) == 2
    for panel in heats:
        columns = zip(*panel["z"], strict=True)
        assert [sum(part or 0 for part in column) for column in columns] == pytest.approx([100] * 2)
    none, bfq = heats
    assert [len([part for part in column if part]) for column in zip(*none["z"], strict=True)] == [
        1, 1
    ]  # fmt: skip
    assert sorted(part for column in bfq["z"] for part in column if part) == [5, 50, 50, 95]
    assert "at t_apps = 8" in chart.title
    circles = [trace["y"] for trace in drawn(chart)["data"] if trace["type"] == "scatter"]
    assert circles == [[1, 10], [100, 2]]


def test_a_scheduler_that_completed_nothing_at_a_step_has_an_empty_column() -> None:
    steps = [(1.0, FOUND), (8.0, {"none": FOUND["none"]})]
    chart = distributions.heat("h", "job", "t_apps", steps)
    bfq = [trace for trace in drawn(chart)["data"] if trace["type"] == "heatmap"][1]
    assert all(line[1] is None for line in bfq["z"])


def test_histograms_are_those_of_one_job_over_all_repeats(tmp_path: Path) -> None:
    bench = replace(rundirs.STUDY, seconds=0.2, repeats=2, failed=(("bfq", 0),))
    out = rundirs.make(tmp_path / "out", bench)
    found = samples.histograms(out, "database_sim")
    counted = 0
    for path, run in records.runs(out):
        if run["scheduler"] == "none" and not run["point"]:
            jobs = json.loads((path / "out/fio.json").read_text())["jobs"]
            (mine,) = (job for job in jobs if job["jobname"] == "database_sim")
            counted += mine["read"]["total_ios"]
    assert found["{}", "none"].total() == counted
    assert found[point_key({"alone": True}), "none"].total() > counted
    assert samples.histograms(out, "nobody") == {}


def test_a_grid_has_each_mean_where_it_belongs(tmp_path: Path) -> None:
    points = tuple({"reads": r, "writes": w} for r in (1, 2) for w in (10, 20, 30))
    loads = {"kyber": rundirs.STUDY.loads["kyber"]}
    bench = replace(rundirs.STUDY, loads=loads, alone=None, seconds=0.1, repeats=1, points=points)
    views = case(tmp_path, bench).views
    cells = [
        (point["reads"], point["writes"], view)
        for view in views
        for point in [json.loads(view.point)]
    ]
    chart = grids.grid("g", cells, ("reads", "writes"), "kyber", "backup_sim", "iops")
    assert chart is not None
    (panel,) = drawn(chart)["data"]
    for x, y, view in cells:
        row = view.row("kyber", "backup_sim", "iops")
        assert row is not None
        column, line = (1, 2).index(x), (10, 20, 30).index(y)
        assert panel["z"][line][column] == pytest.approx(row["mean"])
        assert panel["text"][line][column] == figures.quantity(row["mean"], "IOPS")
    assert chart.title.startswith("Under kyber backup_sim's throughput is from ")
    assert grids.grid("g", cells, ("reads", "writes"), "nobody", None, "iops") is None


def test_a_grid_says_where_its_job_starved_in_some_repeats(tmp_path: Path) -> None:
    loads = {"kyber": rundirs.STUDY.loads["kyber"]}
    bench = replace(rundirs.STUDY, loads=loads, alone=None, seconds=0.2, starved=(("kyber", 1),))
    cells = [("a", "b", view) for view in case(tmp_path, bench).views]
    for metric in ("max_us", "iops"):
        chart = grids.grid("g", cells, ("x", "y"), "kyber", "database_sim", metric)
        assert chart is not None
        ((text,),) = drawn(chart)["data"][0]["text"]
        assert text.endswith("; nothing completed in 1 of 5 repeats")
        assert "1 of 5" in chart.title


def test_an_applications_operations_are_its_requests(tmp_path: Path) -> None:
    environment = rundirs.environment(rundirs.STUDY) | {"application": "app", "runs": ["0", "1"]}
    (tmp_path / "environment.json").write_text(json.dumps(environment))
    for repeat in (0, 1):
        folder = tmp_path / "runs" / str(repeat)
        (folder / "out").mkdir(parents=True)
        run = {"status": "done", "sections": ["app"], "point": {}, "scheduler": "none"}
        (folder / "run.json").write_text(json.dumps(run))
        (folder / "out/operations.csv").write_text("0.5,1000\n0.6,2.5\n")
    assert samples.histograms(tmp_path, "app") == {("{}", "none"): Counter({MS: 2, 2500: 2})}
