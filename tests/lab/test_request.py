# SPDX-License-Identifier: GPL-2.0-only
"""Tests of a user's request to `./triage run`: values to vary, and modules to measure."""

import argparse
from pathlib import Path

import pytest
from triagelab.ask import experiments
from triagelab.base import sources, tools
from triagelab.base.errors import RequestError
from triagelab.commands import request
from triagelab.plan import plan
from triagelab.provision import guest, kernels, modules
from triagelab.run import machines

from tests.lab.test_plan import Machine

RELEASE = "6.12.1-test"
KERNEL = kernels.Kernel(RELEASE, Path("vmlinuz"), Path("/none"), None)
MACHINE = Machine("sim", guest.Base(KERNEL, Path("base")), 1, (), (), {}, 1, "")


def module(path: Path, release: str = RELEASE, content: str = "") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(f"\x7fELF\0{content}\0vermagic={release} SMP\0".encode())
    return path


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replace the search for a kernel and the build of modules; return the list of builds."""
    folder, asked = tmp_path / "build", []

    def build(_: kernels.Kernel) -> Path:
        asked.append(folder)
        for name in sources.own_schedulers():
            module(folder / f"{name}-iosched.ko", content="ours")
        return folder

    monkeypatch.setattr(tools, "require", lambda wanted: None)
    monkeypatch.setattr(kernels, "find", lambda name: KERNEL)
    monkeypatch.setattr(machines, "make", lambda name, kernel, cpus: MACHINE)
    monkeypatch.setattr(guest, "has_module", lambda kernel, name: True)
    monkeypatch.setattr(modules, "build", build)
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "cache"))
    request._all_built.cache_clear()
    return asked


def prepared(
    *given: Path,
    schedulers: str,
    experiment: experiments.Experiment | None = None,
) -> plan.Setup:
    """Return the setup of a run with these modules, on null_blk, which the kernel has."""
    asked = argparse.Namespace(
        repeats=1, module=list(given), schedulers=schedulers, set=[], vary=[], cpus=None,
        device="null", kernel=None,
    )  # fmt: skip
    found = experiment or experiments.find("mixed-priority")
    setup, _ = request.prepare(asked, found, "sim", None)
    return setup


def test_values_that_no_number_of_64_bits_can_be_stay_texts() -> None:
    """A number with more digits than 2**64 stays a text: Python refuses to convert 5000 digits."""
    assert request.values_to_vary([f"bs=4k,0,7,{'9' * 5000}"]) == {"bs": ("4k", 0, 7, "9" * 5000)}


def test_a_module_that_is_given_is_measured_in_place_of_ours(
    tmp_path: Path, built: list[Path]
) -> None:
    given = module(tmp_path / "triage-iosched.ko", content="theirs")
    setup = prepared(given, schedulers="none,triage")
    assert b"theirs" in setup.modules["triage"].read_bytes()
    assert not built, "nothing of ours is needed"
    setup = prepared(given, schedulers="none,triage,prio-basic")
    assert b"theirs" in setup.modules["triage"].read_bytes()
    assert b"ours" in setup.modules["prio-basic"].read_bytes()


def test_a_module_for_another_kernel_is_refused_before_anything_is_built(
    tmp_path: Path, built: list[Path]
) -> None:
    given = module(tmp_path / "triage-iosched.ko", release="6.1.0-9-amd64")
    with pytest.raises(RequestError, match=r"built for kernel 6\.1\.0-9-amd64, not for 6\.12\.1"):
        prepared(given, schedulers="none,triage,prio-basic")
    assert not built


def test_what_is_planned_is_run_whoever_builds_meanwhile(tmp_path: Path, built: list[Path]) -> None:
    given = module(tmp_path / "triage-iosched.ko", content="theirs")
    setup = prepared(given, schedulers="none,triage,prio-basic")
    planned = {path.name: path.read_bytes() for path in setup.modules.values()}
    assert set(planned) == {"triage-iosched.ko", "prio-basic-iosched.ko"}, (
        "modprobe needs these file names"
    )
    module(given, content="newer")
    module(built[0] / "prio-basic-iosched.ko", content="newer")
    again = prepared(schedulers="none,prio-basic").modules["prio-basic"]
    for path in (*setup.modules.values(), again):
        assert path.read_bytes() == planned[path.name]
    anew = prepared(given, schedulers="none,triage").modules["triage"]
    assert b"newer" in anew.read_bytes()


def test_what_a_replay_of_a_trace_leaves_out_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "mine.csv"
    trace.write_text("".join(f"3,R,0,4096,{time}\n" for time in range(32)) + "3,R,0,\n")
    experiment = experiments.find("trace", {"trace": (str(trace),)})
    assert len(experiment.points) > 1
    setup = prepared(schedulers="none", experiment=experiment)
    (note,) = setup.notes
    assert "mine.csv: left out: lines that are not as in a CSV of Alibaba (1), the first" in note
    assert capsys.readouterr().err.count("mine.csv: left out") == 1
