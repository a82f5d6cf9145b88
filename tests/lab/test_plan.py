# SPDX-License-Identifier: GPL-2.0-only
"""Plans: what is run, in which order, and what a run's name depends on."""

from dataclasses import replace
from pathlib import Path

import pytest
from triagelab import devices, experiments, plan, tools
from triagelab.guest import Base
from triagelab.kernels import Kernel
from triagelab.machines import Machine

MACHINE = Machine("sim", 1, ("-accel", "tcg"), ("nokaslr",), {}, 2, "a machine")


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> plan.Setup:
    monkeypatch.setattr(tools, "qemu_version", lambda: "QEMU 1")
    module = tmp_path / "prio-basic-iosched.ko"
    module.write_bytes(b"module")
    return plan.Setup(
        experiment=experiments.find("mixed-priority"),
        schedulers=("none", "kyber", "prio-basic"),
        repeats=3,
        machine=MACHINE,
        base=Base(Kernel("6.12", tmp_path, tmp_path, None), tmp_path / "base-key"),
        device=devices.find("null", {}),
        modules={"prio-basic": module},
        tunables={},
        seed=1,
    )


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
        {"seed": 2},
    ],
    ids=["machine", "device", "seed"],
)
def test_what_determines_a_run_is_in_its_name(setup: plan.Setup, change: dict[str, object]) -> None:
    assert not names(setup) & names(replace(setup, **change))  # type: ignore[arg-type]


def test_a_new_module_renames_its_own_runs_alone(setup: plan.Setup) -> None:
    before = names(setup)
    setup.modules["prio-basic"].write_bytes(b"changed")
    assert {name.rsplit("-r", 1)[0] for name in before ^ names(setup)} == {"prio-basic"}


def test_a_tunable_renames_its_own_runs_alone(setup: plan.Setup) -> None:
    changed = replace(setup, tunables={"kyber": {"read_lat_nsec": "1"}})
    assert {name.rsplit("-r", 1)[0] for name in names(setup) ^ names(changed)} == {"kyber"}


def test_only_the_scheduler_that_needs_it_gets_a_module(setup: plan.Setup) -> None:
    for run in plan.runs(setup):
        assert bool(run.job.modules) == (run.scheduler == "prio-basic")
