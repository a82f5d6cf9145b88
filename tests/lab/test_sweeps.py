# SPDX-License-Identifier: GPL-2.0-only
"""Tests that a sweep's lines and title match the measurements at each step."""

import dataclasses
from pathlib import Path

import pytest
from triagelab.judge import lookup
from triagelab.judge.figures import digits
from triagelab.measure.statistics import NO_DIFFERENCE, Comparison, compare
from triagelab.report import sweeps
from triagelab.report.drawing import Chart
from triagelab.run.records import point_key

from tests.lab import rundirs
from tests.lab.measured import Case, case, drawn
from tests.lab.rundirs import Load


def harder_beside_reads(point: rundirs.Record, scheduler: str, job: str, load: Load) -> Load:
    slower = 10 if point.get("cell") == "64k reads" else 1
    found = rundirs.beside(point, scheduler, job, load)
    return dataclasses.replace(found, median_us=found.median_us * slower)


CELLS, STEPS = ("64k reads", "4k writes"), (1, 4, 16)
SWEPT = dataclasses.replace(
    rundirs.STUDY,
    loads={name: rundirs.STUDY.loads[name] for name in ("none", "mq-deadline", "bfq")},
    seconds=1.0,
    repeats=5,
    at=harder_beside_reads,
    # The steps are not in order; as text, 16 would come before 4.
    points=tuple({"t_apps": step, "cell": cell} for cell in CELLS for step in (4, 16, 1)),
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("swept"), SWEPT)


def charts(found: Case) -> list[tuple[str, list[Chart]]]:
    return sweeps.charts("s", lookup.sweeps(found.views), found.values, found.looks)


def key(step: int, cell: str) -> str:
    return point_key({"t_apps": step, "cell": cell})


def test_a_panel_for_each_combination_of_the_rest(swept: Case) -> None:
    found = lookup.sweeps(swept.views)
    assert [sweep.fixed for sweep in found] == ["cell = 4k writes", "cell = 64k reads"]
    for sweep in found:
        assert sweep.key == "t_apps"
        assert [step for step, _ in sweep.steps] == list(STEPS)
    drawings = charts(swept)
    assert [fixed for fixed, _ in drawings] == ["cell = 4k writes", "cell = 64k reads"]
    assert len({chart.identity for _, pair in drawings for chart in pair}) == 4


def test_latency_is_relative_to_alone(swept: Case) -> None:
    (_, (chart, _)), _ = charts(swept)
    traces = drawn(chart)["data"]
    assert [trace["name"] for trace in traces] == list(SWEPT.loads)
    alone = swept.values['{"alone": true}', "none", "database_sim", "p99_us"]
    for trace in traces:
        for index, step in enumerate(STEPS):
            point = key(step, "4k writes")
            measured = swept.values[point, trace["name"], "database_sim", "p99_us"]
            ratio = compare(measured, alone, 1 / 64)
            assert ratio and ratio.ci95
            assert trace["y"][index] == ratio.ratio
            high = trace["y"][index] + trace["error_y"]["array"][index]
            assert high == pytest.approx(ratio.ci95[1])
    assert drawn(chart)["layout"]["yaxis"]["type"] == "log"
    assert "× alone" in drawn(chart)["layout"]["yaxis"]["title"]["text"]
    assert drawn(chart)["layout"]["xaxis"]["ticktext"] == ["1", "4", "16"]


def test_latency_has_one_axis_in_all_panels(swept: Case) -> None:
    drawings = [drawn(pair[0]) for _, pair in charts(swept)]
    (bottom, top), other = (one["layout"]["yaxis"]["range"] for one in drawings)
    assert [bottom, top] == other
    heights = [y for one in drawings for trace in one["data"] for y in trace["y"]]
    assert 10**bottom < min(heights)
    assert max(heights) < 10**top


def test_throughput_is_of_all_background_jobs(tmp_path: Path) -> None:
    loads = {name: {**jobs, "scrub": Load(500, 300, bs=4096)} for name, jobs in SWEPT.loads.items()}
    bench = dataclasses.replace(SWEPT, loads=loads, background=("backup_sim", "scrub"))
    found = case(tmp_path, bench)
    (_, (_, chart)), _ = charts(found)
    trace = next(trace for trace in drawn(chart)["data"] if trace["name"] == "bfq")
    point = key(16, "4k writes")
    both = [
        sum(found.values[point, "bfq", job, "bytes_per_s"].values()) / 5
        for job in ("backup_sim", "scrub")
    ]
    assert trace["y"][-1] * 1e9 == pytest.approx(sum(both))
    assert "(GB/s)" in drawn(chart)["layout"]["yaxis"]["title"]["text"]
    assert "backup_sim and scrub" in chart.title


def test_title_is_about_the_last_step(swept: Case) -> None:
    (_, (latency, throughput)), _ = charts(swept)
    last = {trace["name"]: trace["y"][-1] for trace in drawn(latency)["data"]}
    best, worst = (f"({digits(last[name])}\u00a0× alone)" for name in ("bfq", "mq-deadline"))
    assert latency.title == (
        f"At t_apps = 16 database_sim's P99 latency is lowest under bfq {best}, "
        f"highest under mq-deadline {worst}"
    )
    assert "lowest under bfq (" in throughput.title
    assert "From t_apps = 1 to 16 it becomes " in latency.note


def test_title_claims_what_the_verdicts_of_the_report_claim(swept: Case) -> None:
    (sweep, _) = lookup.sweeps(swept.views)
    last = sweep.steps[-1][1]
    for metric in ("p99_us", "mean_us"):
        drawing = sweeps.lines("s", sweep, "database_sim", metric, swept.values, swept.looks)
        assert drawing and "lowest under bfq (" in drawing.title
    last.compare = lambda *_: Comparison(1.0, None, 5, NO_DIFFERENCE)  # type: ignore[method-assign]
    try:
        drawing = sweeps.lines("s", sweep, "database_sim", "p99_us", swept.values, swept.looks)
        assert drawing and "no difference between schedulers" in drawing.title
    finally:
        del last.compare


def test_labels_stand_beside_the_lines(swept: Case) -> None:
    (_, (latency, _)), _ = charts(swept)
    traces = {trace["name"]: trace for trace in drawn(latency)["data"]}
    labels = drawn(latency)["layout"]["annotations"]
    assert [label["text"].split(" ")[-1] for label in labels] == list(traces)
    for label in labels:
        end = traces[label["text"].split(" ")[-1]]["y"][-1]
        assert 10 ** label["y"] == pytest.approx(end)  # on a log axis


def test_without_the_job_alone_latency_is_in_its_own_unit(tmp_path: Path) -> None:
    found = case(tmp_path, dataclasses.replace(SWEPT, alone=None))
    (_, (chart, _)), _ = charts(found)
    assert "(ms, log)" in drawn(chart)["layout"]["yaxis"]["title"]["text"]
    (none,) = (trace for trace in drawn(chart)["data"] if trace["name"] == "none")
    measured = found.values[key(4, "4k writes"), "none", "database_sim", "p99_us"]
    assert none["y"][1] == pytest.approx(sum(measured.values()) / 5 / 1000)


def test_step_at_which_nothing_completed_is_a_gap(tmp_path: Path) -> None:
    def starved(point: rundirs.Record, scheduler: str, job: str, load: Load) -> Load:
        stuck = (scheduler, job, point.get("t_apps")) == ("none", "database_sim", 4)
        return Load(0, 100) if stuck else load

    found = case(tmp_path, dataclasses.replace(SWEPT, at=starved))
    (_, (chart, _)), _ = charts(found)
    (none,) = (trace for trace in drawn(chart)["data"] if trace["name"] == "none")
    assert [value is None for value in none["y"]] == [False, True, False]
    assert chart.note.endswith(
        "figure under none: in some repeat nothing completed, or runs are missing."
    )


def test_who_starves_in_some_repeats_has_a_latency_without_end(tmp_path: Path) -> None:
    """A scheduler that starves the job in a repeat has a line of throughput, but none of latency.

    The scheduler's mean latency over its other repeats would be the best of all.
    """
    loads = {"none": SWEPT.loads["none"], "bfq": SWEPT.loads["bfq"]}
    found = case(tmp_path, dataclasses.replace(SWEPT, loads=loads, starved=(("bfq", 1),)))
    (_, (chart, moved)), _ = charts(found)
    assert [trace["name"] for trace in drawn(chart)["data"]] == ["none"]
    assert "latency is " in chart.title and chart.title.endswith("under none")
    assert chart.note.endswith(
        "figure under bfq: in some repeat nothing completed, or runs are missing."
    )
    assert [trace["name"] for trace in drawn(moved)["data"]] == ["none", "bfq"]
    assert "no figure" not in moved.note
    (sweep, _) = lookup.sweeps(found.views)
    for metric, named in (("mean_us", ["none"]), ("iops", ["none", "bfq"])):
        line = sweeps.lines("s", sweep, "database_sim", metric, found.values, found.looks)
        assert line and [trace["name"] for trace in drawn(line)["data"]] == named


@pytest.mark.parametrize(
    "points",
    [
        ({},),
        ({"t_apps": 1},),
        ({"bs": "4k"}, {"bs": "64k"}),
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}),
        ({"verify": True}, {"verify": False}),
        ({"verify": False}, {"verify": 2}),
        ({"a": 1}, {"b": 2}),
        ({"n": 1, "cell": "x"}, {"n": 2, "cell": "y"}),
    ],
)
def test_only_one_number_makes_a_sweep(points: tuple[rundirs.Record, ...]) -> None:
    environment = {"schedulers": ["none"], "device": {}}
    rows = [
        {"scheduler": "none", "point": point, "job": "a", "metric": "iops", "n": 1, "starved": 0}
        for point in points
    ]
    views = lookup.views({"rows": rows, "verdicts": []}, environment)
    assert len(views) == len(points)
    assert lookup.sweeps(views) == []


def test_number_that_is_the_same_everywhere_is_fixed() -> None:
    environment = {"schedulers": ["none"], "device": {}}
    rows = [
        {"scheduler": "none", "point": {"qd": 1, "n": n}, "job": "a", "n": 1, "starved": 0}
        | {"metric": "iops"}
        for n in (2, 1)
    ]
    (sweep,) = lookup.sweeps(lookup.views({"rows": rows, "verdicts": []}, environment))
    assert (sweep.key, sweep.fixed) == ("n", "qd = 1")
