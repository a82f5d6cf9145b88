# SPDX-License-Identifier: GPL-2.0-only
"""Guards: charts show what was measured, and can be told apart without colour."""

import dataclasses
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from triagelab import charts, findings, samples, summary
from triagelab.charts import Chart, log_ticks, styles
from triagelab.findings import View

from tests.lab import rundirs

STUDY = dataclasses.replace(rundirs.STUDY, seconds=0.5)


@dataclasses.dataclass(frozen=True)
class Case:
    view: View
    values: summary.Values
    measured: Any
    looks: dict[str, charts.Style]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("study"), STUDY)


def case(folder: Path, bench: rundirs.Bench) -> Case:
    out = rundirs.make(folder / "out", bench)
    measured = samples.collect(out)
    environment = samples.read_environment(out)
    (view,) = findings.views(summary.summarise(measured, environment), environment)
    return Case(view, summary.by_repeat(measured), measured, styles(view.schedulers))


def drawn(chart: Chart) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(chart.drawing)
    return loaded


def test_styles_differ_in_grey_too() -> None:
    looks = styles(["none", *"abcdefg"])
    assert len({look.marker for look in looks.values()}) == 8
    assert len({look.hatch for look in looks.values()}) == 8
    assert styles(["none", "x"])["none"] == looks["none"]


def test_a_scheduler_stands_where_its_figures_put_it(study: Case) -> None:
    places = {place.scheduler: place for place in charts.places(study.view, study.values)}
    assert list(places) == list(STUDY.loads)
    assert places["none"].kept.ratio == 1.0
    alone = study.view.alone("p99_us")
    row = study.view.row("bfq", "database_sim", "p99_us")
    assert alone and row
    assert places["bfq"].protection.ratio == pytest.approx(row["mean"] / alone["mean"])

    chart = charts.protection("c", list(places.values()), study.view, study.looks)
    for trace in drawn(chart)["data"]:
        place = places[trace["name"]]
        assert (trace["x"], trace["y"]) == ([place.kept.ratio], [place.protection.ratio])
        assert place.protection.ci95
        high = trace["y"][0] + trace["error_y"]["array"][0]
        assert high == pytest.approx(place.protection.ci95[1])
    assert chart.title.startswith("bfq protects most")
    assert "prio-basic costs least" in chart.title


def test_background_jobs_count_together(tmp_path: Path) -> None:
    loads = {
        name: {**jobs, "scrub": dataclasses.replace(jobs["backup_sim"], iops=100)}
        for name, jobs in STUDY.loads.items()
    }
    bench = dataclasses.replace(STUDY, loads=loads, background=("backup_sim", "scrub"))
    found = case(tmp_path, bench)
    (bfq,) = (p for p in charts.places(found.view, found.values) if p.scheduler == "bfq")
    totals = [
        sum(
            row["mean"]
            for job in ("backup_sim", "scrub")
            if (row := found.view.row(scheduler, job, "bytes_per_s"))
        )
        for scheduler in ("bfq", "none")
    ]
    assert bfq.kept.ratio == pytest.approx(totals[0] / totals[1])


def test_labels_never_overlap() -> None:
    heights = [50.0, 51.0, 49.5, 70.0, 1.3, 1.3, 1.31]
    pixels = 150.0
    shifts = charts._label_shifts(heights, pixels)
    places = sorted(-math.log10(h) * pixels + s for h, s in zip(heights, shifts, strict=True))
    for upper, lower in itertools.pairwise(places):
        assert lower - upper >= charts.LABEL_GAP - 1e-9
    assert charts._label_shifts([100.0, 1.0], pixels) == [0.0, 0.0]


def test_bars_are_the_rows(study: Case) -> None:
    chart = charts.bars("c", study.view, "database_sim", "p99_us", study.looks)
    bars = drawn(chart)["data"]
    assert [bar["name"] for bar in bars] == list(STUDY.loads)
    for bar in bars:
        row = study.view.row(bar["name"], "database_sim", "p99_us")
        assert row
        assert bar["x"][0] * 1000 == pytest.approx(row["mean"])  # shown in ms
        ends = (bar["x"][0] - bar["error_x"]["arrayminus"][0],
                bar["x"][0] + bar["error_x"]["array"][0])  # fmt: skip
        assert [end * 1000 for end in ends] == pytest.approx(row["ci95"])
    assert "(ms)" in drawn(chart)["layout"]["xaxis"]["title"]["text"]
    assert "alone" in chart.note
    assert "alone" not in charts.bars("c", study.view, "backup_sim", "iops", study.looks).note


def test_one_repeat_has_bars_without_intervals(tmp_path: Path) -> None:
    found = case(tmp_path, dataclasses.replace(STUDY, repeats=1))
    chart = charts.bars("c", found.view, "backup_sim", "iops", found.looks)
    assert all("array" not in bar.get("error_x", {}) for bar in drawn(chart)["data"])


def test_latency_over_time_has_a_panel_for_each_scheduler(study: Case) -> None:
    chart = charts.over_time("c", study.view, "backup_sim", study.measured, study.looks)
    assert chart
    axes = [trace.get("yaxis", "y") for trace in drawn(chart)["data"]]
    assert set(axes) == {"y", "y2", "y3", "y4", "y5"}
    for trace in drawn(chart)["data"]:
        assert len(trace["x"]) == len(trace["y"]) == 10  # 0.5 s in windows of 50 ms
        assert all(value > 0 for value in trace["y"])
    bare = study.measured.filter(metric="iops")
    assert charts.over_time("c", study.view, "backup_sim", bare, study.looks) is None


def test_latency_over_time_is_the_mean_over_repeats(study: Case) -> None:
    chart = charts.over_time("c", study.view, "database_sim", study.measured, study.looks)
    assert chart
    (mean,) = (
        trace
        for trace in drawn(chart)["data"]
        if trace.get("yaxis") == "y4" and trace["line"].get("width") == 2
    )
    entries = study.measured.filter(
        scheduler="bfq", job="database_sim", metric="clat_us", time_s=0.05, point="{}"
    )
    assert len(entries) == 5
    assert mean["x"][0] == pytest.approx(0.025)
    values = entries["value"].to_list()
    assert mean["y"][0] == pytest.approx(sum(values) / 5)
    low, high = (
        trace["y"][0]
        for trace in drawn(chart)["data"]
        if trace.get("yaxis") == "y4" and trace["line"].get("width") == 0
    )
    assert (low, high) == (min(values), max(values))


def test_log_ticks_are_round_and_few() -> None:
    assert log_ticks(0.9, 110, most=4)[1] == ["1", "10", "100"]
    assert log_ticks(0.9, 5.5)[1] == ["1", "1.5", "2", "3", "4", "5"]
    for low, high in ((1e-4, 1e6), (0.5, 0.6), (3, 900)):
        ticks, _ = log_ticks(low, high)
        assert all(low <= tick <= high for tick in ticks)


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    name = "</script><b>x"
    loads = {"none": {name: STUDY.loads["none"]["backup_sim"]}}
    bench = dataclasses.replace(STUDY, loads=loads, protected=None, background=(), alone=None)
    found = case(tmp_path, bench)
    chart = charts.over_time("c", found.view, name, found.measured, found.looks)
    assert chart
    assert "<" not in chart.drawing
    assert "<b>none</b>" in drawn(chart)["layout"]["annotations"][0]["text"]
