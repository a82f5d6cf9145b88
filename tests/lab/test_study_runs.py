# SPDX-License-Identifier: GPL-2.0-only
"""Tests that stopping a study loses no finished run, and resuming it gives the same rows.

A program replaces QEMU, because these tests are not about guests.
"""

import contextlib
import fcntl
import html
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from triagelab import cli
from triagelab.ask import experiments, study
from triagelab.base import files, tools
from triagelab.commands import places, telling
from triagelab.judge import published
from triagelab.plan.machine import BootError
from triagelab.plan.plan import Run
from triagelab.provision import guest, kernels
from triagelab.run import execute, machines, records, rundir

from tests.lab import browser, fakeqemu

EXPERIMENTS = {
    "crowd": """
        title = "A crowd"
        question = "Who waits?"
        protected = "urgent"
        background = ["bulk"]
        [vary]
        apps = [1, 2]
        """,
    "total": """
        title = "All together"
        question = "How much?"
        judged_by = ["total_iops"]
        """,
}
WORKLOAD = "[global]\nrw=randread\n[urgent]\n[bulk]\nnumjobs=${apps}\n"
STUDY = """
[measure.crowd]
schedulers = ["none", "kyber"]
repeats = 2
quick = { schedulers = ["kyber"], repeats = 1, vary = { apps = [2] } }
[measure.total]
schedulers = ["none", "kyber"]
repeats = 2
quick = false
[[page]]
name = "crowd"
question = "Who waits?"
measures = ["crowd"]
charts = [
    { kind = "lines", measure = "crowd", job = "urgent", metric = "p99_us", x = "apps" },
    { kind = "heat", measure = "crowd", job = "urgent", x = "apps" },
    { kind = "cdf", measure = "crowd", job = "urgent", at = { apps = 2 } },
]
[[page]]
name = "total"
question = "How much?"
measures = ["total"]
charts = [{ kind = "bars", measure = "total", metric = "total_iops" }]
"""
PUBLISHED = """
[source.s]
title = "T"
short = "S"
setup = "U"
[[finding]]
source = "s"
where = "figure 1"
says = "kyber is slower"
measure = "crowd"
at = { apps = 2 }
job = "urgent"
metric = "p99_us"
expects = ["kyber > none"]
"""
WORDS = ["study", "--device", "null"]
REPEATS = 2
#: crowd has 2 points with 2 schedulers each, and a run of the job urgent alone. total has a run
#: with each scheduler.
RUNS = REPEATS * (2 * 2 + 1 + 2)
QUICK_RUNS = 1 + 1
INTERRUPTED = 130

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put a study of two small experiments in place of the lab's, and a fake in place of QEMU."""
    folder = tmp_path_factory.mktemp("laboratory")
    with pytest.MonkeyPatch.context() as patch:
        fakeqemu.install(folder / "bin")
        patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        patch.setenv("TRIAGE_CACHE", str(folder / "cache"))
        tools.qemu_version.cache_clear()
        tools.qemu_files.cache_clear()
        patch.setattr(experiments, "FOLDER", folder)
        for name, text in EXPERIMENTS.items():
            (folder / name).mkdir()
            (folder / name / "experiment.toml").write_text(text)
            workload = WORKLOAD if name == "crowd" else WORKLOAD.replace("${apps}", "1")
            (folder / name / "workload.fio").write_text(workload)
        for module, text in ((study, STUDY), (published, PUBLISHED)):
            patch.setattr(module, "FILE", folder / f"{module.__name__}.toml")
            module.FILE.write_text(text)

        kernel = kernels.Kernel("6.12", folder / "vmlinuz", folder, None)
        kernel.image.write_bytes(b"no kernel")
        kernel.modules.mkdir(parents=True)
        (kernel.modules / "modules.builtin").write_text("null_blk.ko\nkyber-iosched.ko\n")
        patch.setattr(kernels, "find", lambda name: kernel)
        base = guest.Base(kernel, folder / "base")
        base.folder.mkdir()
        for name in ("base.cpio", "modules.dep"):
            (base.folder / name).write_text("")
        patch.setattr(guest, "base", lambda kernel: base)
        patch.setattr(rundir, "_LEAST_FREE_BYTES", 0)
        yield
    tools.qemu_version.cache_clear()
    tools.qemu_files.cache_clear()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the study without a disturbance; return its folder."""
    out = tmp_path_factory.mktemp("quiet") / "out"
    assert triage(*WORDS, "--out", out) == 0
    return out


@pytest.fixture(autouse=True)
def nothing_befalls() -> Iterator[None]:
    yield
    fakeqemu.befall("")


def triage(*words: object) -> int:
    return cli.main(list(map(str, words)))


def rows(out: Path) -> Any:
    """Return the content of each measure's summary, verdicts included."""
    found = {path.parent.name: json.loads(path.read_text()) for path in out.glob("*/summary.json")}
    assert set(found) == {"crowd", "total"}
    return found


def finished(out: Path) -> dict[Path, int]:
    folders = [path.parent for path in out.glob("*/runs/*/run.json")]
    return {path: (path / "run.json").stat().st_mtime_ns for path in folders
            if records.is_done(path)}  # fmt: skip


def test_a_study_is_run_once_and_reported(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = finished(quiet)
    assert len(before) == RUNS
    page = (quiet / "study.html").read_text()
    assert page.count('class="drawing"') == 4
    assert (
        "Too few repeats to tell; by the means: no scheduler seems worth choosing over none: "
        "at the worst of 2 points urgent's maximum latency under none"
    ) in html.unescape(page)
    assert (quiet / "crowd/report.html").is_file()
    assert triage(*WORDS, "--out", quiet) == 2, "it exists"
    assert triage(*WORDS, "--out", quiet, "--resume") == 0
    assert finished(quiet) == before
    (quiet / "study.html").unlink()
    assert triage("report", quiet) == 0
    assert (quiet / "study.html").read_text() == page
    assert "Of 1 finding 1 not comparable." in capsys.readouterr().out, "of two repeats"


@pytest.mark.parametrize("name", ["study.json", "crowd/environment.json", "crowd/runs/*/run.json"])
def test_what_a_damaged_record_says_to_do_costs_no_other_run(
    tmp_path: Path, quiet: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(quiet, out)
    damaged = next(out.glob(name))
    before = finished(out)
    before.pop(damaged.parent, None)
    damaged.write_text("{")
    assert triage("report", out) == 1
    said = capsys.readouterr().err
    assert str(damaged) in said
    if "Delete the run's folder" in said:
        shutil.rmtree(damaged.parent)
    else:
        assert "Delete that file alone and repeat the command" in said
        damaged.unlink()
    assert triage(*WORDS, "--out", out, "--resume") == 0
    assert before.items() <= finished(out).items()
    assert rows(out) == rows(quiet)


def test_its_page_is_readable_on_a_screen_and_a_telephone(quiet: Path, tmp_path: Path) -> None:
    page = (quiet / "study.html").read_text()
    seen = browser.look({"screen": (page, 1280), "telephone": (page, 390)}, tmp_path)
    for of in seen.values():
        browser.assert_readable(of)
        # Each of 2 schedulers has one trace in lines, CDF and bars, and two traces in heat maps.
        assert sorted(of["drawings"].values()) == [2, 2, 2, 4]


def test_quick_measures_its_part(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert triage(*WORDS, "--quick", "--out", out) == 0
    assert [path.parts[-3] for path in finished(out)] == ["crowd"] * QUICK_RUNS
    page = (out / "study.html").read_text()
    assert "total was not measured" in page
    assert page.count('class="page unanswered"') == 1, (
        "only an unanswered question takes no new sheet in print"
    )
    assert "<p>Preliminary: Only kyber was measured" in page, "the list of questions says it"
    assert page.count("Preliminary: ") == 2, "the list says it once, and the answer once"
    assert triage(*WORDS, "--out", out, "--resume") == 0
    assert "Preliminary" not in (out / "study.html").read_text()


def measurements(out: Path) -> set[int]:
    """Return an inode number for each finished run; a new measurement has a new number."""
    return {(path / "out/exit-status").stat().st_ino for path in finished(out)}


def told_of_runs(out: Path) -> dict[str, Any]:
    """Return each run's record by the path of its file, with the boot time erased."""
    found = {path: json.loads(path.read_text()) for path in out.glob("*/runs/*/run.json")}
    return {str(path.relative_to(out)): said | {"boot_s": None} for path, said in found.items()}


@pytest.mark.parametrize("befalls", ["", "SIGINT kyber 0", "panic kyber"])
def test_the_whole_study_takes_over_what_the_quick_one_has_measured(
    tmp_path: Path, quiet: Path, monkeypatch: pytest.MonkeyPatch, befalls: str
) -> None:
    out = tmp_path / "out"
    fakeqemu.befall(befalls)
    status = triage(*WORDS, "--quick", "--out", out)
    assert status == {"": 0, "SIGINT kyber 0": INTERRUPTED, "panic kyber": 1}[befalls]
    fakeqemu.befall("")
    before = measurements(out)
    assert len(before) == QUICK_RUNS if not befalls else len(before) < QUICK_RUNS

    assert triage(*WORDS, "--out", out, "--resume") == 0
    assert before <= measurements(out)
    assert told_of_runs(out) == told_of_runs(quiet)
    assert rows(out) == rows(quiet)
    assert (out / "study.html").read_text() == (quiet / "study.html").read_text()
    measured = finished(out)
    assert triage(*WORDS, "--out", out, "--resume") == 0
    assert finished(out) == measured


def test_the_protected_job_alone_has_another_name_in_the_whole(quiet: Path, tmp_path: Path) -> None:
    """The run of the job alone has another name in the whole study than in the quick one.

    So the tests of taking over the quick study's runs also cover a run that gets a new name.
    """
    assert triage(*WORDS, "--quick", "--out", tmp_path / "out") == 0
    alone = [name for name in told_of_runs(tmp_path / "out") if "alone" in name]
    assert len(alone) == 1 and alone[0] not in told_of_runs(quiet)


def test_who_is_stopped_while_it_is_taken_over_can_ask_for_the_whole_again(
    tmp_path: Path, quiet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert triage(*WORDS, "--quick", "--out", out) == 0
    before = measurements(out)
    write_json = files.write_json
    for stops_at in ("run.json", "environment.json", "study.json"):

        def write(path: Path, content: object, stops_at: str = stops_at) -> None:
            if path.name == stops_at:
                raise KeyboardInterrupt
            write_json(path, content)

        with monkeypatch.context() as patch:
            patch.setattr(files, "write_json", write)
            assert triage(*WORDS, "--out", out, "--resume") == INTERRUPTED
        assert measurements(out) == before
    assert triage(*WORDS, "--out", out, "--resume") == 0
    assert before <= measurements(out)
    assert rows(out) == rows(quiet)


def content(out: Path) -> dict[Path, tuple[int, bytes]]:
    files = [path for path in out.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--schedulers", "none,kyber"], "schedulers"),
        (["--repeats", "3"], "repeats"),
        (["--machine", "vm"], "machine"),
    ],
    ids=["schedulers", "repeats", "machine"],
)
def test_another_study_takes_over_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    out = tmp_path / "out"
    assert triage(*WORDS, "--quick", "--out", out) == 0
    before = content(out)
    assert triage(*WORDS, *words, "--out", out, "--resume") == 2
    error = capsys.readouterr().err
    assert "was measured differently" in error and told in error
    assert content(out) == before


def test_another_kernel_takes_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert triage(*WORDS, "--quick", "--out", out) == 0
    before = content(out)
    this = kernels.find("")
    kernel = replace(this, release="6.13")
    shutil.copytree(this.modules, kernel.modules)
    base = guest.Base(kernel, tmp_path / "other")
    shutil.copytree(guest.base(this).folder, base.folder)
    (base.folder / "base.cpio").write_text("another")
    monkeypatch.setattr(kernels, "find", lambda name: kernel)
    monkeypatch.setattr(guest, "base", lambda kernel: base)
    assert triage(*WORDS, "--out", out, "--resume") == 2
    error = capsys.readouterr().err
    assert "was measured differently" in error and "kernel" in error
    assert content(out) == before


def test_the_whole_is_not_made_a_quick_one(quiet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(quiet)
    assert triage(*WORDS, "--quick", "--out", quiet, "--resume") == 2
    assert "go on with it without --quick" in capsys.readouterr().err
    assert content(quiet) == before


def test_where_time_is_real_the_report_says_what_was_measured_before_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise execute.StoppedError

    out = tmp_path / "out"
    monkeypatch.setattr(places, "REAL_TIME_LOCK", tmp_path / "lock")
    assert triage(*WORDS, "--machine", "vm", "--quick", "--out", out) == 0
    monkeypatch.setattr(execute, "execute", stop)
    for _ in ("taken over", "gone on with"):
        assert triage(*WORDS, "--machine", "vm", "--out", out, "--resume") == INTERRUPTED
        assert triage("report", out) == 0
        page = (out / "crowd/report.html").read_text()
        assert f"{QUICK_RUNS} of the runs were measured before the others" in page


def test_in_real_time_it_waits_for_who_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While another triage measures in real time, a study waits, but a new `run` fails at once."""
    lock = tmp_path / "lock"
    monkeypatch.setattr(places, "REAL_TIME_LOCK", lock)
    waiting = []
    (tmp_path / "out").mkdir()

    def study(then: Callable[[], None]) -> int:
        """Run the study while the lock is held. When it waits, free the lock and call `then`."""
        with lock.open("w") as theirs:

            def said(message: object, **_: object) -> None:
                if "waiting" in str(message):
                    waiting.append(message)
                    theirs.close()
                    then()

            fcntl.flock(theirs, fcntl.LOCK_EX)
            monkeypatch.setattr(telling.output, "print", said)
            words = [*WORDS, "--machine", "vm", "--quick", "--out", tmp_path / "out", "--resume"]
            return triage(*words)

    def interrupt() -> None:
        raise KeyboardInterrupt

    def nothing() -> None:
        pass

    with lock.open("w") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert triage("run", "crowd", "--device", "null", "--machine", "vm") == 1
    assert "another triage is measuring in real time" in capsys.readouterr().err
    assert study(interrupt) == INTERRUPTED
    assert f"--out {tmp_path}/out --resume" in capsys.readouterr().err
    assert study(nothing) == 0
    assert len(waiting) == 2
    assert len(finished(tmp_path / "out")) == QUICK_RUNS
    assert study(nothing) == 0, "a study with nothing left to measure is done"
    assert len(waiting) == 2


def test_interrupted_it_keeps_what_is_finished_and_goes_on(
    tmp_path: Path,
    quiet: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    fakeqemu.befall("SIGINT kyber 1")
    assert triage(*WORDS, "--out", out) == INTERRUPTED
    assert f"--out {out} --resume" in capfd.readouterr().err
    before = finished(out)
    assert 0 < len(before) < RUNS
    assert triage("report", out) == 0, "the finished runs have a report"
    assert triage(*WORDS, "--out", out, "--resume") == 0
    assert before.items() <= finished(out).items()
    assert rows(out) == rows(quiet)


@pytest.mark.parametrize("dies", ["panic kyber", "no-boot kyber"])
def test_a_guest_that_dies_costs_its_own_runs_alone(
    tmp_path: Path, quiet: Path, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    out = tmp_path / "out"
    fakeqemu.befall(dies)
    assert triage(*WORDS, "--out", out) == 1
    before = finished(out)
    assert len(before) == RUNS - REPEATS * (2 + 1)
    assert {row["scheduler"] for row in rows(out)["total"]["rows"]} == {"none"}
    fakeqemu.befall("")
    assert triage(*WORDS, "--out", out, "--resume") == 0
    assert before.items() <= finished(out).items()
    assert rows(out) == rows(quiet)


def test_where_nothing_boots_it_stops_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fakeqemu.befall("no-boot none")
    out = tmp_path / "out"
    assert triage(*WORDS, "--schedulers", "none", "--out", out) == 1
    assert "the kernel did not boot" in capsys.readouterr().err
    assert not finished(out)


def test_as_many_at_once_as_there_are_cores_gives_the_same_rows(
    tmp_path: Path, quiet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = 1 if machines.cores() > 1 else 2
    monkeypatch.setattr(machines, "cores", lambda: others)
    assert triage(*WORDS, "--out", tmp_path / "out") == 0
    assert rows(tmp_path / "out") == rows(quiet)


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_full_disk_costs_nothing_that_is_finished(
    tmp_path: Path, quiet: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, "500k"):
        assert triage(*WORDS, "--out", disk / "out") == 1
        assert "no space left" in capsys.readouterr().err.lower()
        before = finished(disk / "out")
        assert 0 < len(before) < RUNS
        subprocess.run(["mount", "-o", "remount,size=50m", str(disk)], check=True)
        assert triage(*WORDS, "--out", disk / "out", "--resume") == 0
        assert before.items() <= finished(disk / "out").items()
        assert rows(disk / "out") == rows(quiet)


def test_a_killed_worker_costs_nothing_and_nothing_is_in_the_rows_twice(
    tmp_path: Path, quiet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import LocalCluster

    out = tmp_path / "out"
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "cache"))
    fakeqemu.befall("SIGKILL kyber 1")
    with (
        contextlib.redirect_stderr(io.StringIO()),
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
    ):
        assert triage(*WORDS, "--out", out, "--dask", cluster.scheduler_address) == 0
    assert (fakeqemu.installed / "once").exists(), "no worker was killed"
    assert len(finished(out)) == RUNS
    assert rows(out) == rows(quiet)


def test_dask_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from triagelab.run import cluster

    monkeypatch.setattr(cluster, "_CONNECT_S", 0.5)
    assert triage(*WORDS, "--out", tmp_path / "out", "--dask", "tcp://127.0.0.1:9") == 1
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err
    assert triage("run", "crowd", "--machine", "vm", "--dask", "tcp://127.0.0.1:9") == 2


def test_what_a_worker_could_not_boot_can_be_looked_at_here(tmp_path: Path) -> None:
    from triagelab.run import cluster

    (tmp_path / "there").mkdir()
    (tmp_path / "there/console.log").write_text("why")
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(tmp_path / "there", ".")
    reason = "the kernel did not boot, see /on/a/worker/console.log"
    back = cluster._Back(reason, None, BootError, "/on/a/worker", content.getvalue())
    with pytest.raises(BootError, match=f"see {tmp_path}/here/console.log"):
        cluster._receive(cast(Run, None), back, tmp_path / "here")
    assert (tmp_path / "here/console.log").read_text() == "why"
