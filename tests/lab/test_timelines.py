# SPDX-License-Identifier: GPL-2.0-only
"""Tests that charts over time show the measurements at the right place and time."""

import dataclasses
from pathlib import Path

import pytest
from triagelab.report import timelines

from tests.lab import rundirs
from tests.lab.measured import Case, case, drawn

STUDY = dataclasses.replace(rundirs.STUDY, seconds=0.5)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("study"), STUDY)


def test_latency_over_time_has_a_panel_for_each_scheduler(study: Case) -> None:
    chart = timelines.latency("c", study.view, "backup_sim", study.measured, study.looks)
    assert chart
    axes = [trace.get("yaxis", "y") for trace in drawn(chart)["data"]]
    assert set(axes) == {"y", "y2", "y3", "y4", "y5"}
    for trace in drawn(chart)["data"]:
        assert len(trace["x"]) == len(trace["y"]) == 10  # 0.5 s in windows of 50 ms
        assert all(value > 0 for value in trace["y"])
    bare = study.measured.filter(metric="iops")
    assert timelines.latency("c", study.view, "backup_sim", bare, study.looks) is None


def test_latency_over_time_is_the_mean_over_repeats(study: Case) -> None:
    chart = timelines.latency("c", study.view, "database_sim", study.measured, study.looks)
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


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    name = "</script><b>x"
    loads = {"none": {name: STUDY.loads["none"]["backup_sim"]}}
    bench = dataclasses.replace(STUDY, loads=loads, protected=None, background=(), alone=None)
    found = case(tmp_path, bench)
    chart = timelines.latency("c", found.view, name, found.measured, found.looks)
    assert chart
    assert "<" not in chart.drawing
    assert "<b>none</b>" in drawn(chart)["layout"]["annotations"][0]["text"]


# ---- utilisation ----------------------------------------------------------------


@pytest.mark.parametrize("device", ["null", "flash"])
def test_utilisation_over_time(tmp_path: Path, device: str) -> None:
    """Made-up requests come evenly, so each interval has the utilisation of the whole run."""
    found = case(tmp_path, dataclasses.replace(STUDY, device=device, seconds=1.0))
    chart = timelines.utilisation("c", found.view, found.measured, found.looks)
    assert chart
    means = [trace for trace in drawn(chart)["data"] if trace["line"].get("width") == 2]
    assert [trace.get("yaxis", "y") for trace in means] == ["y", "y2", "y3", "y4", "y5"]
    for scheduler, trace in zip(STUDY.loads, means, strict=True):
        row = found.view.row(scheduler, None, "device_utilisation")
        assert row
        intervals = 8 if device == "flash" else 9  # the drive's sample at the end is 3 µs late
        assert trace["x"] == pytest.approx([0.05 + 0.1 * index for index in range(intervals)])
        assert trace["y"] == pytest.approx([100 * row["mean"]] * intervals, rel=1e-2)
    assert "more than 100 %" not in chart.note
    assert ("dies, bus or controller" in chart.note) == (device == "flash")


def test_utilisation_above_all_there_is_fits_and_is_explained(tmp_path: Path) -> None:
    found = case(tmp_path, dataclasses.replace(STUDY, capacity_iops=4000.0))
    chart = timelines.utilisation("c", found.view, found.measured, found.looks)
    assert chart
    highest = max(max(trace["y"]) for trace in drawn(chart)["data"])
    assert 200 < highest < drawn(chart)["layout"]["yaxis"]["range"][1]
    assert "more than 100 %" in chart.note


def test_unknown_utilisation_has_no_chart(tmp_path: Path) -> None:
    found = case(tmp_path, dataclasses.replace(STUDY, capacity_iops=None))
    assert timelines.utilisation("c", found.view, found.measured, found.looks) is None
