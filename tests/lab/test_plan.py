# SPDX-License-Identifier: GPL-2.0-only
"""Tests of plans: the runs, their order, and the inputs that determine a run's name."""

import json
import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from triagelab.ask import devices, experiments
from triagelab.ask.fiofile import FioFile
from triagelab.base import settings
from triagelab.plan import plan
from triagelab.plan.machine import Job
from triagelab.provision.guest import Base
from triagelab.provision.kernels import Kernel
from triagelab.run.machines import Qemu

BASE = Base(Kernel("6.12", Path("vmlinuz"), Path("/"), None), Path("base"))


class Machine(Qemu):
    """A machine whose `determines` reads no files; test_identity.py tests the real property."""

    @property
    def determines(self) -> dict[str, Any]:
        return {"machine": [self.name, self.cpus, *self.qemu, *self.arguments]}


MACHINE = Machine("sim", BASE, 1, ("-accel", "tcg"), ("nokaslr",), {}, 2, "a machine")


@pytest.fixture
def setup(tmp_path: Path) -> plan.Setup:
    module = tmp_path / "prio-basic-iosched.ko"
    module.write_bytes(b"module")
    return plan.Setup(
        experiment=experiments.find("mixed-priority"),
        schedulers=("none", "kyber", "prio-basic"),
        repeats=3,
        points=[plan.Point({}, MACHINE, devices.find("null", {}), {})],
        modules={"prio-basic": module},
        seed=1,
    )


def changed(setup: plan.Setup, **changes: object) -> plan.Setup:
    """Return the setup with changes to each of its points."""
    points = [replace(point, **changes) for point in setup.points]  # type: ignore[arg-type]
    return replace(setup, points=points)


def names(setup: plan.Setup) -> set[str]:
    return {run.id for run in plan.runs(setup)}


def test_every_scheduler_and_the_baseline_in_every_repeat(setup: plan.Setup) -> None:
    runs = plan.runs(setup)
    assert len(runs) == len({run.id for run in runs}) == 3 * (3 + 1)
    for repeat in range(3):
        here = [run for run in runs if run.repeat == repeat]
        assert sorted(run.scheduler for run in here) == ["kyber", "none", "none", "prio-basic"]
        assert {run.seed for run in here} == {1000 + repeat}
    (alone,) = (run for run in runs if run.point and run.repeat == 0)
    assert alone.sections == ("database_sim",)


def test_repeats_are_shuffled_each_its_own_way_and_again_the_same(setup: plan.Setup) -> None:
    setup = replace(setup, repeats=8)
    orders = [
        tuple((run.scheduler, bool(run.point)) for run in plan.runs(setup) if run.repeat == repeat)
        for repeat in range(8)
    ]
    assert len(set(orders)) > 1
    assert [run.id for run in plan.runs(setup)] == [run.id for run in plan.runs(setup)]


@pytest.mark.parametrize(
    "change",
    [
        {"machine": replace(MACHINE, qemu=("-accel", "kvm"))},
        {"device": devices.find("null", {"device.hw_queue_depth": "8"})},
    ],
    ids=["machine", "device"],
)
def test_what_determines_a_run_is_in_its_name(setup: plan.Setup, change: dict[str, object]) -> None:
    assert not names(setup) & names(changed(setup, **change))


def test_the_seed_is_in_every_name(setup: plan.Setup) -> None:
    assert not names(setup) & names(replace(setup, seed=2))


def test_repeats_start_at_times_of_their_own_the_same_under_any_scheduler(
    setup: plan.Setup,
) -> None:
    """Each repeat delays its jobs by its own time below 0.1 s, the same under all schedulers.

    No user controls when jobs start, so confidence intervals must include this variation.
    """
    starts: dict[int, set[float]] = {}
    for run in plan.runs(replace(setup, repeats=20)):
        (start,) = re.findall(r"^START_LATER_S=([\d.]+)$", str(run.job.files["settings"]), re.M)
        starts.setdefault(run.repeat, set()).add(float(start))
    assert {len(of) for of in starts.values()} == {1}
    every = sorted(start for (start,) in starts.values())
    assert len(set(every)) == 20
    assert 0 <= every[0] < 0.02 < 0.08 < every[-1] < 0.1
    assert 'sleep "$START_LATER_S"' in str(plan.runs(setup)[0].job.files["run"])


def test_a_new_module_renames_its_own_runs_alone(setup: plan.Setup) -> None:
    before = names(setup)
    setup.modules["prio-basic"].write_bytes(b"changed")
    assert {name.rsplit("-r", 1)[0] for name in before ^ names(setup)} == {"prio-basic"}


def test_a_tunable_renames_its_own_runs_alone(setup: plan.Setup) -> None:
    other = changed(setup, tunables={"kyber": {"read_lat_nsec": "1"}})
    assert {name.rsplit("-r", 1)[0] for name in names(setup) ^ names(other)} == {"kyber"}


def test_only_the_scheduler_that_needs_it_gets_a_module(setup: plan.Setup) -> None:
    for run in plan.runs(setup):
        assert bool(run.job.modules) == (run.scheduler == "prio-basic")


# ---- a matrix -------------------------------------------------------------------


def matrix(
    setup: plan.Setup, vary: dict[str, dict[settings.Value, experiments.Case]]
) -> plan.Setup:
    """Return the setup with one repeat, and a point for each combination of values in `vary`."""
    text = (
        "[database_sim]\nrw=read\nbs=${own}\n[backup_sim]\nrw=read\nnumjobs=${apps}\nbs=${size}\n"
    )
    workload = FioFile(Path("a.fio"), text, {})
    experiment = replace(setup.experiment, workload=workload, vary=vary)
    (point,) = setup.points
    points = [
        replace(point, where=where, tunables=settings.split(experiment.values_at(where)).tunables)
        for where in experiment.points
    ]
    return replace(setup, experiment=experiment, points=points, repeats=1)


def listed(*values: settings.Value, of: str) -> dict[settings.Value, experiments.Case]:
    return {value: {of: value} for value in values}


def test_a_tunable_makes_a_difference_to_its_own_scheduler_alone(setup: plan.Setup) -> None:
    name = "kyber.read_lat_nsec"
    setup = matrix(setup, {name: listed(1, 2, of=name), "apps": listed(1, 4, of="apps")})
    runs = [run for run in plan.runs(setup) if run.sections != ("database_sim",)]
    assert Counter(run.scheduler for run in runs) == {"none": 2, "kyber": 4, "prio-basic": 2}
    everywhere = {json.dumps(point.where) for point in setup.points}
    for scheduler in setup.schedulers:
        stands = [
            json.dumps(point) for run in runs if run.scheduler == scheduler for point in run.points
        ]
        assert sorted(stands) == sorted(everywhere)
    assert all(name not in run.point for run in runs if run.scheduler != "kyber")
    written = {f"'read_lat_nsec' '{run.point[name]}'" in str(run.job.files["settings"])
               for run in runs if run.scheduler == "kyber"}  # fmt: skip
    assert written == {True}


def test_alone_is_run_where_the_matrix_changes_what_it_does(setup: plan.Setup) -> None:
    vary = {"apps": listed(1, 4, of="apps"), "own": listed("4k", "8k", of="own")}
    runs = [run for run in plan.runs(matrix(setup, vary)) if run.point.get("alone")]
    assert sorted(run.point["own"] for run in runs) == ["4k", "8k"]
    assert all("apps" not in run.point for run in runs)


def test_a_job_of_no_process_takes_no_part(setup: plan.Setup) -> None:
    runs = plan.runs(matrix(setup, {"apps": listed(0, 1, of="apps")}))
    by_apps = {run.point["apps"]: run.sections for run in runs if "apps" in run.point}
    assert by_apps == {0: ("database_sim",), 1: ("database_sim", "backup_sim")}


def test_hundreds_of_processes_get_memory_for_each_and_machines_are_few(
    setup: plan.Setup,
) -> None:
    runs = plan.runs(matrix(setup, {"apps": listed(100, 150, 200, 255, 300, of="apps")}))
    memory = {run.point["apps"]: run.job.memory_mb for run in runs if "apps" in run.point}
    assert memory == {100: 512, 150: 1024, 200: 1024, 255: 1024, 300: 2048}
    (alone,) = (run for run in runs if run.point.get("alone"))
    assert alone.job.memory_mb == 512, "the other processes do not run here"


def test_memory_is_in_every_name(setup: plan.Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    before = names(setup)
    monkeypatch.setattr(Job, "memory_mb", 2 * Job.memory_mb)
    assert not before & names(setup)


def test_where_a_job_takes_no_part_what_it_would_do_makes_no_difference(setup: plan.Setup) -> None:
    vary = {"apps": listed(0, 1, of="apps"), "size": listed("4k", "64k", of="size")}
    runs = [run for run in plan.runs(matrix(setup, vary)) if run.scheduler == "kyber"]
    stands: dict[int, list[int]] = {0: [], 1: []}
    for run in runs:
        stands[run.point["apps"]].append(len(run.points))
    assert stands == {0: [2], 1: [1, 1]}
    assert "size" not in next(run.point for run in runs if run.point["apps"] == 0)


def test_a_run_is_the_same_in_a_larger_matrix_whatever_it_is_called_there(
    setup: plan.Setup,
) -> None:
    def vary(*apps: settings.Value) -> dict[str, dict[settings.Value, experiments.Case]]:
        return {"apps": listed(*apps, of="apps"), "size": listed("4k", "64k", of="size")}

    small = plan.runs(replace(matrix(setup, vary(4)), schedulers=("none",), repeats=2))
    large = plan.runs(replace(matrix(setup, vary(0, 1, 4)), repeats=3))
    for runs in (small, large):
        assert len({run.content for run in runs}) == len(runs)
    by_content = {run.content: run for run in large}
    again = [(run, by_content[run.content]) for run in small]
    for here, there in again:
        assert (here.scheduler, here.repeat, here.seed) == (
            there.scheduler,
            there.repeat,
            there.seed,
        )
        assert (here.sections, here.job) == (there.sections, there.job)
    # A run's name has the values that all of its points share. The run of the job alone belongs to
    # every point. In the small matrix every point has apps=4, so the name of this run has it too.
    # In the large matrix apps varies, so the name lacks it.
    assert {here.id == there.id for here, there in again if here.point.get("alone")} == {False}
    assert {here.id == there.id for here, there in again if not here.point.get("alone")} == {True}


def test_a_value_cannot_lead_out_of_the_folder(setup: plan.Setup) -> None:
    vary = {"own": listed("../4k", of="own"), "apps": listed(1, of="apps")}
    runs = plan.runs(matrix(setup, vary))
    assert all("/" not in run.id for run in runs)


@pytest.mark.parametrize(
    ("tunable", "value", "told"),
    [
        ("exchange", "it's 4", ""),
        ("exchang", "4", "the scheduler kyber has no tunable exchang; it has: exchange full"),
        ("full", "abc", "the scheduler kyber refused the value abc for full"),
    ],
)
def test_a_tunable_that_cannot_be_set_is_named(
    setup: plan.Setup, tmp_path: Path, tunable: str, value: str, told: str
) -> None:
    """The test runs the guest's functions with a folder in place of the queue's `iosched`."""
    folder = tmp_path / "iosched"
    folder.mkdir()
    (folder / "exchange").write_text("16")
    (folder / "full").symlink_to("/dev/full")
    (tmp_path / "out").mkdir()
    runs = plan.runs(changed(setup, tunables={"kyber": {tunable: value}}))
    files = next(run for run in runs if run.scheduler == "kyber").job.files
    functions = re.findall(r"^(?:fail|tunable_set)\(\) \{\n.*?^\}$", str(files["run"]), re.M | re.S)
    assert len(functions) == 2
    (tmp_path / "settings").write_text(str(files["settings"]))
    script = "\n".join([*functions, ". ./settings", "tunables_set iosched"])
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, stderr=subprocess.DEVNULL)
    reason = tmp_path / "out" / "reason"
    assert (done.returncode, reason.exists()) == ((1, True) if told else (0, False))
    if told:
        assert reason.read_text() == f"{told}\n"
    else:
        assert (folder / "exchange").read_text() == f"{value}\n"


def test_locks_are_counted_where_cpus_run_at_the_same_time(setup: plan.Setup) -> None:
    counted = []
    virtual, real = ("-icount", "shift=0"), ("-accel", "kvm")
    for time, cpus in ((virtual, 1), (virtual, 4), (real, 1), (real, 4)):
        on = changed(setup, machine=replace(MACHINE, qemu=time, cpus=cpus))
        counted.append("COUNT_LOCKS=1" in str(plan.runs(on)[0].job.files["settings"]))
    assert counted == [False, False, False, True]
