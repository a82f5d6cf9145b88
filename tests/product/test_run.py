# SPDX-License-Identifier: GPL-2.0-only
"""Tests of whole runs: repeated, interrupted, killed, and with a guest that dies."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from triagelab.base import files, tools
from triagelab.base.version import version
from triagelab.commands import places
from triagelab.provision import kernels, modules

from tests.product.product import ROOT, SMALL, qemus, triage


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "small.fio"
    path.write_text(SMALL)
    return path


def summary(out: Path) -> Any:
    return json.loads((out / "summary.json").read_text())


def wait_until(happens: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def test_sim_gives_the_same_figures_to_the_last_digit(tmp_path: Path, job: Path) -> None:
    words = ["run", job, "--schedulers", "none,prio-basic", "--repeats", "2"]
    for name in ("one", "other"):
        done = triage(*words, "--device", "flash", "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
    one, other = (summary(tmp_path / name) for name in ("one", "other"))
    assert one["rows"]
    assert one == other
    assert any(row["ci95"][0] < row["ci95"][1] for row in one["rows"]), "seeds change nothing"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the small job once under kyber; return the run directory, and what --json printed."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "small.fio").write_text(SMALL)
    words = ["--device", "null", "--schedulers", "kyber", "--repeats", "1", "--json"]
    done = triage("run", folder / "small.fio", *words, "--out", folder / "out")
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stdout


def test_the_kernel_says_what_the_summary_says(measured: tuple[Path, str]) -> None:
    """fio and the block layer count the same requests, and the disk has the chosen scheduler."""
    out, _ = measured
    (folder,) = (path for path in (out / "runs").glob("kyber-*"))
    queue = dict(
        line.split("=", 1)
        for line in (folder / "out/queue").read_text().splitlines()
        if "=" in line
    )
    assert "[kyber]" in queue["scheduler"]
    assert queue["nr_requests"] == "256"
    fio = json.loads((folder / "out/fio.json").read_text())
    by_fio = sum(entry["read"]["total_ios"] for entry in fio["jobs"])
    last = (folder / "out/samples.csv").read_text().splitlines()[-1].split(",")
    # Before its jobs start, fio reads a little from the device.
    assert by_fio <= int(last[3]) <= by_fio + 20


def test_drives_are_asked_in_turn_and_counted_together(tmp_path: Path, job: Path) -> None:
    out = tmp_path / "out"
    words = ["--schedulers", "triage", "--repeats", "1", "--set", "device.count=2"]
    done = triage("run", job, "--device", "null", *words, "--out", out)
    assert done.returncode == 0, done.stderr
    (folder,) = (path for path in (out / "runs").glob("triage-*"))
    fio = json.loads((folder / "out/fio.json").read_text())
    reads = {disk["name"]: disk["read_ios"] for disk in fio["disk_util"]}
    assert set(reads) == {"nullb0", "nullb1"}
    assert abs(reads["nullb0"] - reads["nullb1"]) < 40
    by_fio = sum(entry["read"]["total_ios"] for entry in fio["jobs"])
    last = (folder / "out/samples.csv").read_text().splitlines()[-1].split(",")
    # Before its jobs start, fio reads a little from each device.
    assert by_fio <= int(last[3]) <= by_fio + 40


def test_json_is_the_summary_and_nothing_else(measured: tuple[Path, str]) -> None:
    out, printed = measured
    assert json.loads(printed) == summary(out)


def test_a_module_somebody_built_is_run_beside_the_others(tmp_path: Path, job: Path) -> None:
    built = modules.build(kernels.find(kernels.DEFAULT_SERIES))
    module = tmp_path / "prio-basic-iosched.ko"
    shutil.copyfile(built / module.name, module)
    out = tmp_path / "out"
    words = ["--schedulers", "none,prio-basic", "--module", module, "--repeats", "1"]
    done = triage("run", job, "--device", "null", *words, "--out", out)
    assert done.returncode == 0, done.stderr
    recorded = json.loads((out / "environment.json").read_text())
    assert recorded["version"] == version()
    assert recorded["modules"]["prio-basic"]["sha256"] == tools.sha256(module)
    assert {row["scheduler"] for row in summary(out)["rows"]} == {"none", "prio-basic"}


def test_a_tunable_the_scheduler_refuses_is_told(tmp_path: Path, job: Path) -> None:
    words = ["--schedulers", "prio-basic", "--repeats", "1"]
    setting = ["--set", "iosched.prio-basic.aging_expire=0"]
    done = triage("run", job, "--device", "null", *words, *setting, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "the scheduler prio-basic refused the value 0 for aging_expire" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_interrupted_it_keeps_what_is_finished_and_goes_on(
    tmp_path: Path, job: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    words = [
        "run",
        job,
        "--device",
        "null",
        "--schedulers",
        "none,kyber",
        "--repeats",
        "2",
        "--out",
        out,
    ]
    running = subprocess.Popen(
        [ROOT / "triage", *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: list(out.glob("runs/*/run.json")))
    wait_until(lambda: qemus(out))
    os.killpg(running.pid, number)
    _, errors = running.communicate(timeout=300)
    assert running.returncode == 130, errors
    assert "--resume" in errors
    assert not qemus(out)
    finished = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/run.json")}
    assert finished

    done = triage(*words, "--resume")
    assert done.returncode == 0, done.stderr
    assert all(path.stat().st_mtime_ns == when for path, when in finished.items())
    assert len(list(out.glob("runs/*/run.json"))) == 2 * 3
    assert not list(out.glob("runs/*/job.cpio"))

    changed = triage(*words, "--resume", "--set", "device.hw_queue_depth=9")
    assert (changed.returncode, "measured differently" in changed.stderr) == (2, True)


def test_killed_it_leaves_no_qemu_behind(tmp_path: Path, job: Path) -> None:
    out = tmp_path / "out"
    words = ["run", job, "--device", "null", "--schedulers", "none", "--out", out]
    running = subprocess.Popen(
        [ROOT / "triage", *map(str, words)], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    wait_until(lambda: qemus(out))
    running.kill()
    running.wait()
    wait_until(lambda: not qemus(out), seconds=10)


def test_a_guest_that_panics_costs_its_own_run_alone(tmp_path: Path) -> None:
    # The job crashes the kernel at once, but only if the disk's scheduler is kyber.
    crash = (
        "exec_prerun=grep -q '[[]kyber' /sys/block/nullb0/queue/scheduler "
        "&& echo c > /proc/sysrq-trigger || true"
    )
    job = tmp_path / "crash.fio"
    job.write_text(SMALL + crash + "\n")
    out = tmp_path / "out"
    done = triage(
        "run", job, "--device", "null", "--schedulers", "none,kyber", "--repeats", "1", "--out", out
    )
    assert done.returncode == 1
    assert "panicked" in done.stderr
    assert "sysrq triggered crash" in done.stderr
    assert "console.log" in done.stderr
    assert {row["scheduler"] for row in summary(out)["rows"]} == {"none"}
    assert "kyber" in (out / "report.html").read_text()


def test_a_program_takes_longer_beside_a_load(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--vary", "task=search", "--vary", "load=readers", "--schedulers", "none"]
    done = triage("run", "source-tree", *words, "--repeats", "1", "--out", out)
    assert done.returncode == 0, done.stderr
    took_us = {
        "alone" in row["point"]: row["mean"]
        for row in summary(out)["rows"]
        if (row["job"], row["metric"]) == ("source-tree", "mean_us")
    }
    assert 0 < took_us[True] < took_us[False]
    # There are three searches. The first begins at 0, so its end is its duration.
    (folder,) = (path for path in (out / "runs").glob("none-*") if "alone" not in path.name)
    lines = (folder / "out/operations.csv").read_text().split()
    assert len(lines) == 3
    first_end_s, first_us = map(float, lines[0].split(","))
    assert first_end_s == pytest.approx(first_us / 1e6, abs=0.02)


def test_a_task_that_takes_too_long_counts_with_the_time_that_it_has_had(tmp_path: Path) -> None:
    out = tmp_path / "out"
    # A build takes longer than a second, even without a load.
    words = ["--vary", "task=build", "--vary", "load=none", "--vary", "patience=1"]
    done = triage(
        "run", "source-tree", *words, "--schedulers", "none", "--repeats", "1", "--out", out
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (out / "runs").glob("none-*")
    (line,) = (folder / "out/operations.csv").read_text().split()
    end_s, took_us = map(float, line.split(","))
    assert end_s == took_us / 1e6
    assert 0.9 < end_s < 1.2


def test_the_report_can_be_made_again(measured: tuple[Path, str]) -> None:
    out, _ = measured
    before = {name: (out / name).read_bytes() for name in ("summary.json", "report.html")}
    for name in before:
        (out / name).unlink()
    assert triage("report", out).returncode == 0
    assert {name: (out / name).read_bytes() for name in before} == before


def test_real_time_runs_measure_the_same_things_but_instructions(tmp_path: Path, job: Path) -> None:
    out = tmp_path / "out"
    words = ["--schedulers", "prio-basic", "--repeats", "1", "--machine", "vm"]
    done = triage("run", job, "--device", "null", *words, "--out", out)
    assert done.returncode == 0, done.stderr
    metrics = {row["metric"] for row in summary(out)["rows"]}
    assert "p99_us" in metrics
    assert "instructions_per_io" not in metrics
    described = json.loads((out / "environment.json").read_text())["machine_description"]
    assert "KVM (a kernel boots under it)" in described or "TCG (" in described


def test_real_time_runs_do_not_disturb_each_other(tmp_path: Path, job: Path) -> None:
    with files.exclusive(places.REAL_TIME_LOCK, "the tests' computer is measuring"):
        done = triage("run", job, "--device", "null", "--machine", "vm", "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "another triage is measuring in real time" in done.stderr
