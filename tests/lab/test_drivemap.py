# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the map of drives: each cell shows a drive's worst point; the worst drive is first."""

import dataclasses
import math
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from triagelab.judge import measured
from triagelab.report import drivemap, report

from tests.lab import rundirs
from tests.lab.measured import Case, case, drawn, plain
from tests.lab.rundirs import Load, Record

POINTS = tuple(
    {"device": device, "beside": beside}
    for device in ("good", "bad")
    for beside in ("reads", "writes")
)


def at(point: Record, scheduler: str, job: str, load: Load) -> Load:
    """Return the load; it is worse under bfq on the bad drive beside writes.

    There the database's latency is 100 × as high, and each job's throughput is halved.
    """
    if point["device"] == "bad" and scheduler == "bfq" and point["beside"] == "writes":
        factor = 100 if job == "database_sim" else 1
        return dataclasses.replace(load, median_us=load.median_us * factor, iops=load.iops / 2)
    return load


BENCH = dataclasses.replace(
    rundirs.STUDY,
    loads={name: rundirs.STUDY.loads[name] for name in ("none", "bfq")},
    points=POINTS,
    at=at,
    seconds=0.5,
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case(tmp_path_factory.mktemp("map"), BENCH)


def test_a_cell_is_the_worst_of_a_drives_points(found: Case) -> None:
    made = drivemap.made(found.views)
    assert made is not None
    bad, good = made.cells["bad", "bfq"], made.cells["good", "bfq"]
    assert bad.where == "beside = writes"
    assert bad.level == pytest.approx(100 * good.level, rel=0.3)
    assert bad.kept == pytest.approx(good.kept / 2, rel=0.1)
    assert made.cells["good", "none"].kept == 1


def test_the_drive_that_is_protected_least_comes_first_and_is_named(found: Case) -> None:
    made = drivemap.made(found.views)
    assert made is not None
    assert made.drives == ["bad", "good"]
    assert "on bad (beside = writes; at its worst point there the background keeps" in made.sentence
    assert made.behind == {"bfq": 1}
    assert made.beaten == {"none": 0, "bfq": 1}
    assert "1 under bfq" in made.losses and "of 4" in made.losses
    chart = drivemap.chart("map", made)
    (panel,) = drawn(chart)["data"]
    assert panel["y"] == [0, 1] and panel["text"][1][1] == made.cells["bad", "bfq"].text
    assert panel["z"][1][1] == pytest.approx(math.log10(made.cells["bad", "bfq"].level))


def test_who_starves_has_no_end(tmp_path: Path) -> None:
    there = case(tmp_path, dataclasses.replace(BENCH, starved=(("bfq", 0),)))
    made = drivemap.made(there.views)
    assert made is not None
    assert plain(made.cells["good", "bfq"].text).startswith("∞, ")
    assert made.behind == {"bfq": 4}


def test_what_failed_leaves_its_cell_empty(tmp_path: Path) -> None:
    out = rundirs.make(tmp_path / "part", BENCH)
    for folder in (out / "runs").glob("bfq-devicegood-*"):
        shutil.rmtree(folder)
    made = drivemap.made(measured.read(out).views)
    assert made is not None
    assert made.text("good", "bfq") == "–" and made.text("bad", "bfq") != "–"
    (panel,) = drawn(drivemap.chart("map", made))["data"]
    assert panel["z"][made.drives[::-1].index("good")][1] is None
    for folder in (out / "runs").glob("bfq-*"):
        shutil.rmtree(folder)
    assert drivemap.made(measured.read(out).views) is None, "there is nothing to compare"


def test_without_the_job_alone_there_is_no_map(tmp_path: Path) -> None:
    """The map shows ratios to the latency of the job alone, so it needs that latency."""
    out = rundirs.make(tmp_path / "part", BENCH)
    assert drivemap.made(measured.read(out).views) is not None
    alone = list((out / "runs").glob("none-alone*"))
    assert alone
    for folder in alone:
        shutil.rmtree(folder)
    assert drivemap.made(measured.read(out).views) is None


def test_one_device_has_no_map(tmp_path: Path) -> None:
    there = case(tmp_path, dataclasses.replace(BENCH, points=POINTS[:2]))
    assert drivemap.made(there.views) is None


def test_the_report_and_the_terminal_open_with_it(tmp_path: Path) -> None:
    out = rundirs.make(tmp_path / "out", BENCH)
    there = measured.read(out)
    page = report.write(there).read_text()
    assert page.index("The worst drive of each scheduler") < page.index("Each point")
    console = Console(width=100, record=True)
    console.print(report.table(there.summary, there.environment))
    assert "The worst drive of each scheduler" in console.export_text()
