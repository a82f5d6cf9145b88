# SPDX-License-Identifier: GPL-2.0-only
"""Tests that charts of one point show the measured figures."""

import dataclasses
from pathlib import Path

import pytest
from triagelab.judge import choices, figures
from triagelab.report import charts

from tests.lab import rundirs
from tests.lab.measured import Case, case, drawn

STUDY = dataclasses.replace(rundirs.STUDY, seconds=1.0)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("study"), STUDY)


def test_a_scheduler_stands_where_its_figures_put_it(study: Case) -> None:
    places = {place.scheduler: place for place in charts.places(study.view, study.values)}
    assert list(places) == list(STUDY.loads)
    assert places["none"].kept.ratio == 1.0
    alone = study.view.alone("p99_us")
    row = study.view.row("bfq", "database_sim", "p99_us")
    assert alone and row
    assert places["bfq"].protection.ratio == pytest.approx(row["mean"] / alone["mean"], rel=1e-3)

    chart = charts.protection("c", list(places.values()), study.view, study.looks)
    for trace in drawn(chart)["data"]:
        place = places[trace["name"]]
        assert (trace["x"], trace["y"]) == ([place.kept.ratio], [place.protection.ratio])
        assert place.protection.ci95
        high = trace["y"][0] + trace["error_y"]["array"][0]
        assert high == pytest.approx(place.protection.ci95[1])
    assert chart.title.startswith("Worth choosing: prio-basic (")
    assert "\u00a0× alone, 58" in chart.title
    assert " and bfq (" in chart.title and "none (" not in chart.title
    assert chart.title.endswith("16.0\u00a0% of the background kept)")


def test_the_title_has_the_ratios_of_the_sentences(study: Case) -> None:
    """The title and the report's sentences have the ratio of the means.

    A dot has the mean of the repeats' ratios.
    """
    places = [
        dataclasses.replace(place, protection=dataclasses.replace(place.protection, ratio=77.0))
        for place in charts.places(study.view, study.values)
    ]
    title = charts.protection("c", places, study.view, study.looks).title
    assert "77" not in title
    level = choices.level([study.view], "prio-basic")
    assert f"prio-basic ({figures.digits(level)}\u00a0× alone" in title


def test_who_starves_in_some_repeats_has_no_place_and_a_note(tmp_path: Path) -> None:
    loads = {name: STUDY.loads[name] for name in ("none", "bfq", "prio-basic")}
    bench = dataclasses.replace(STUDY, loads=loads, starved=(("bfq", 0), ("bfq", 3)))
    found = case(tmp_path, bench)
    places = charts.places(found.view, found.values)
    assert [place.scheduler for place in places] == ["none", "prio-basic"]
    chart = charts.protection("c", places, found.view, found.looks)
    under = "under bfq (nothing completed in 2 of 5 repeats)"
    assert chart.note.endswith(f"Endless, and so without a place, {under}.")
    assert chart.title.startswith("Worth choosing: prio-basic (")
    bars = charts.bars("c", found.view, "database_sim", "p99_us", found.looks)
    assert bars.note.endswith(f"Endless {under}: bars are of the other repeats.")
    assert charts.bars("c", found.view, "database_sim", "iops", found.looks).note.endswith(
        f"Starved {under}."
    )


def test_the_means_of_few_repeats_title_the_chart(tmp_path: Path) -> None:
    found = case(tmp_path, dataclasses.replace(STUDY, repeats=2))
    places = charts.places(found.view, found.values)
    chart = charts.protection("c", places, found.view, found.looks)
    assert chart.title.startswith("By the means, worth choosing: prio-basic (")


@pytest.mark.parametrize("repeats", [1, 5])
def test_a_background_that_starves_without_a_scheduler_has_a_title(
    tmp_path: Path, repeats: int
) -> None:
    """If `none` starves the background, other schedulers have no dot: a share of 0 is undefined.

    The title still names bfq, which is worth choosing.
    """
    stuck = STUDY.loads["none"] | {"backup_sim": rundirs.Load(0, 100)}
    bench = dataclasses.replace(STUDY, loads=STUDY.loads | {"none": stuck}, repeats=repeats)
    found = case(tmp_path, bench)
    places = charts.places(found.view, found.values)
    chart = charts.protection("c", places, found.view, found.looks)
    assert "orth choosing: " in chart.title
    assert "bfq" in chart.title


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
    assert bfq.kept.ratio == pytest.approx(totals[0] / totals[1], rel=1e-3)


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


def test_bars_of_a_percentile_of_too_few_requests_are_of_the_maximum(tmp_path: Path) -> None:
    found = case(tmp_path, dataclasses.replace(STUDY, seconds=0.5))
    chart = charts.bars("c", found.view, "database_sim", "p99_us", found.looks)
    assert chart.title.startswith("database_sim: maximum latency is lowest under bfq")
    assert "maximum latency" in drawn(chart)["layout"]["xaxis"]["title"]["text"]
    place = charts.protection("c", charts.places(found.view, found.values), found.view, found.looks)
    assert "P99" not in place.note
    assert place.note.startswith("Up: maximum latency of database_sim")


def test_one_repeat_has_bars_without_intervals(tmp_path: Path) -> None:
    found = case(tmp_path, dataclasses.replace(STUDY, repeats=1))
    chart = charts.bars("c", found.view, "backup_sim", "iops", found.looks)
    assert all("array" not in bar.get("error_x", {}) for bar in drawn(chart)["data"])
