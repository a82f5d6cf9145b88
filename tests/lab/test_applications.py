# SPDX-License-Identifier: GPL-2.0-only
"""Tests of applications: the lab finds them, plans their runs and tabulates their figures."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from triagelab.ask import applications, devices, experiments
from triagelab.base import settings
from triagelab.base.errors import LabError, RequestError
from triagelab.base.metrics import percentile
from triagelab.measure import samples
from triagelab.plan import plan

from tests.lab import rundirs
from tests.lab.rundirs import Bench, Load
from tests.lab.test_plan import MACHINE


@pytest.mark.parametrize("name", applications.names())
def test_every_application_is_whole(name: str) -> None:
    found = applications.find(name)
    assert found.packages
    assert found.image_mb < found.memory_mb
    for word in ("up", "run"):
        assert f"{word})" in found.script("run")
    assert found.script("make").startswith("#!/bin/sh\n")


def test_one_that_does_not_exist() -> None:
    with pytest.raises(RequestError, match="did you mean 'postgres'"):
        applications.find("postgre")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an application called `made`, which is a copy of `source-tree`."""
    shutil.copytree(applications.FOLDER / "source-tree", tmp_path / "made")
    monkeypatch.setattr(applications, "FOLDER", tmp_path)
    return tmp_path / "made"


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ("image_mb = 64", "", "missing: image_mb"),
        (
            "image_mb = 64",
            'image_mb = "64"',
            'image_mb must be a whole number, 1 or more, not "64"',
        ),
        ('packages = ["linux-libc-dev"]', "packages = 5", "packages must be a list, not 5"),
        ("image_mb = 64", "image_mb = 64\nx = 5", "not known: x"),
        ("image_mb = 64", "image_mb", "Expected '='"),
    ],
)
def test_one_that_makes_no_sense(made: Path, line: str, instead: str, message: str) -> None:
    path = made / "application.toml"
    path.write_text(path.read_text().replace(line, instead))
    with pytest.raises(RequestError, match=rf"{path}: {message}"):
        applications.find("made")


def test_a_script_that_is_no_text(made: Path) -> None:
    (made / "run").write_bytes("# für jeden\n".encode("latin-1"))
    with pytest.raises(RequestError, match="run is not in UTF-8"):
        applications.find("made").uses("rate")


def test_what_an_application_is_told_is_what_it_asks_for() -> None:
    experiment = experiments.find("postgres", {"rate": (50, 100)})
    point: dict[str, settings.Value] = {"beside": "backup", "ionice": "idle", "rate": 50}
    assert experiment.application_at(point) == {"rate": "50"}
    with pytest.raises(RequestError, match="rates"):
        experiments.find("postgres", {"rates": (50, 100)})


# ---- the plan -------------------------------------------------------------------


@pytest.fixture
def setup(tmp_path: Path) -> plan.Setup:
    experiment = experiments.find("postgres", {"ionice": ("idle",)})
    return plan.Setup(
        experiment=experiment,
        schedulers=("none",),
        repeats=1,
        points=[
            plan.Point(where, MACHINE, devices.find("flash", {}), {}) for where in experiment.points
        ],
        modules={},
        seed=1,
        image=tmp_path / "postgres-1234" / "image",
    )


def test_it_is_run_beside_each_load_and_once_alone(setup: plan.Setup) -> None:
    runs = plan.runs(setup)
    assert Counter(run.sections for run in runs) == {
        ("postgres", "backup"): 1,
        ("postgres", "bulk_load"): 1,
        ("postgres",): 1,
    }
    for run in runs:
        assert ("job.fio" in run.job.files) == (len(run.sections) > 1)
        assert run.job.memory_mb == applications.find("postgres").memory_mb
        assert f"export SEED='{run.seed}'" in str(run.job.files["told"])


def test_what_its_file_system_was_made_of_is_in_every_name(setup: plan.Setup) -> None:
    other = replace(setup, image=setup.image and setup.image.parents[1] / "postgres-5678/image")
    moved = replace(setup, image=Path("elsewhere/postgres-1234/image"))
    names = {run.id for run in plan.runs(setup)}
    assert not names & {run.id for run in plan.runs(other)}
    assert names == {run.id for run in plan.runs(moved)}


# ---- the table ------------------------------------------------------------------


def collected(out: Path, operations: str) -> pl.DataFrame:
    """Write the results of an application and a job beside it; return the table of samples."""
    bench = Bench({"none": {"bulk": Load(500, 100)}}, repeats=1, protected="app", background=())
    rundirs.make(out, bench)
    for path, changes in (
        (out / "environment.json", {"application": "app"}),
        (out / "runs/none-0/run.json", {"sections": ["app", "bulk"]}),
    ):
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    # Remove the job's logs. Their names begin with 0, the job's place in the list of sections; now
    # the application has that place.
    shutil.rmtree(out / "runs/none-0/out/logs")
    (out / "runs/none-0/out/operations.csv").write_text(operations)
    return samples.collect(out)


def test_operations_are_a_jobs_figures(tmp_path: Path) -> None:
    latencies = [(n * 7919) % 1000 + 1 for n in range(1000)]
    lines = [f"{n / 100:.6f},{latency}" for n, latency in enumerate(latencies, 1)]
    table = collected(tmp_path / "out", "\n".join(lines) + "\n")
    whole = table.filter(pl.col("job") == "app", pl.col("time_s").is_null())
    found = dict(zip(whole["metric"], whole["value"], strict=True))
    assert found == {
        "iops": 100,
        "mean_us": sum(latencies) / 1000,
        "p50_us": percentile(Counter(latencies), 500),
        "p99_us": percentile(Counter(latencies), 990),
        "p999_us": percentile(Counter(latencies), 999),
        "max_us": max(latencies),
    }
    over_time = table.filter(pl.col("job") == "app", pl.col("metric") == "lat_us")
    assert over_time.height == 201  # windows of 50 ms; the last has the operation that ends at 10 s
    assert over_time["time_s"].is_sorted()
    assert "bulk" in table["job"].to_list()


def test_operations_over_time_are_means_of_50_ms(tmp_path: Path) -> None:
    table = collected(tmp_path / "out", "0.010,5\n0.049,7\n0.050,9\n0.120,11\n")
    windows = table.filter(pl.col("job") == "app", pl.col("time_s").is_not_null())
    assert set(windows["metric"]) == {"lat_us"}
    assert list(windows.select("time_s", "value", "requests").iter_rows()) == [
        (0.05, 6, 2),
        (0.1, 9, 1),
        (0.15, 11, 1),
    ]


def test_an_application_that_completed_nothing(tmp_path: Path) -> None:
    table = collected(tmp_path / "out", "")
    whole = table.filter(pl.col("job") == "app")
    assert dict(zip(whole["metric"], whole["value"], strict=True)) == {"iops": 0}


def test_operations_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"operations\.csv"):
        collected(tmp_path / "out", "1.0;5\n")
