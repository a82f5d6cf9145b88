# SPDX-License-Identifier: GPL-2.0-only
"""Test that a try restores the disk's settings, also if it is killed.

Most tests use a disk made of files. Tests that need the kernel use a loop device.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.triagectl.machine import Machine
from triagectl import trial, wayback, weights
from triagectl.errors import CtlError, RequestError
from triagectl.sysfs import Disk
from triagectl.system import System

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def no_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wayback, "start_keeper", lambda *_: None)


def chosen(machine: Machine, scheduler: str) -> None:
    machine.file("sys/block/sda/queue/scheduler", f"none mq-deadline [{scheduler}]")


class EndedError(Exception):
    """Raised by the handler of SIGTERM in these tests."""


@pytest.fixture
def ended_by_sigterm() -> Iterator[None]:
    def end(*_: object) -> None:
        raise EndedError

    former = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, former)


@pytest.mark.usefixtures("no_keeper", "ended_by_sigterm")
def test_a_signal_just_before_the_lock_is_given_back_does_not_keep_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A try that still had the lock would wait for itself when it puts the settings back."""
    disk = machine.disk(fifo_batch=16)
    close, closed = os.close, []

    def close_late(fd: int) -> None:
        closed.append(fd)
        signal.raise_signal(signal.SIGTERM)
        close(fd)

    with pytest.raises(EndedError), wayback.kept(machine.system, disk, "none", 60):
        monkeypatch.setattr(os, "close", close_late)
        with wayback.changing(machine.system, disk):
            pass
    monkeypatch.undo()
    assert closed
    with wayback._locked(machine.system, disk):
        pass  # the lock is free


def test_settings_are_put_back(machine: Machine) -> None:
    disk = machine.disk(fifo_batch=16, front_merges=1)
    before = wayback.current(disk)
    machine.file("sys/block/sda/queue/iosched/fifo_batch", "99")
    machine.file("sys/block/sda/queue/nr_requests", "7")
    assert wayback.put_back(disk, before, "mq-deadline") == []
    assert wayback.current(disk) == before


def test_a_third_ones_choice_stays(machine: Machine) -> None:
    disk = machine.disk()
    before = wayback.current(disk)
    chosen(machine, "kyber")
    (said,) = wayback.put_back(disk, before, "bfq")
    assert "another user chose" in said
    assert disk.scheduler == "kyber"


def test_what_cannot_be_put_back_is_told(machine: Machine) -> None:
    disk = machine.disk(fifo_batch=16)
    before = wayback.current(disk)
    shutil.rmtree(disk.folder / "queue/iosched")
    (said,) = wayback.put_back(disk, before, "bfq")
    assert "there is no" in said
    assert "fifo_batch" in said


def test_a_disk_that_is_gone(machine: Machine, no_keeper: None) -> None:
    disk = machine.disk()
    with wayback.kept(machine.system, disk, "bfq", 60) as left:
        disk.folder.unlink()
    assert left == ["sda is gone: there is nothing to put back"]


def test_how_it_was_is_written_before_anything_changes(machine: Machine, no_keeper: None) -> None:
    disk = machine.disk(fifo_batch=16)
    with wayback.kept(machine.system, disk, "bfq", 60):
        state = wayback.pending(machine.system, "sda")
        assert state is not None
        assert state["before"]["scheduler"] == "mq-deadline"
        assert state["before"]["tunables"] == {"fifo_batch": "16"}
    assert wayback.pending(machine.system, "sda") is None


def test_one_try_at_a_time(machine: Machine, no_keeper: None) -> None:
    disk = machine.disk()
    with (
        wayback.kept(machine.system, disk, "bfq", 60),
        pytest.raises(RequestError, match=f"process {os.getpid()} tries bfq"),
        wayback.kept(machine.system, disk, "kyber", 60),
    ):
        pass


def test_a_try_that_was_left_is_undone_first(
    machine: Machine, no_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = machine.disk(fifo_batch=16)
    with pytest.raises(ZeroDivisionError), monkeypatch.context() as patch:
        patch.setattr(wayback, "settle", lambda *_: [])
        with wayback.kept(machine.system, disk, "mq-deadline", 60):
            machine.file("sys/block/sda/queue/iosched/fifo_batch", "99")
            raise ZeroDivisionError
    monkeypatch.setattr(wayback, "alive", lambda *_: False)
    with pytest.raises(RequestError, match="--undo"), wayback.kept(machine.system, disk, "x", 60):
        pass
    assert trial.run(machine.system, trial.Options("sda", None, {}, 60, undo=True)) == 0
    assert disk.tunables == {"fifo_batch": "16"}


def test_one_that_was_killed_before_it_changed_anything_is_no_hindrance(
    machine: Machine, no_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = machine.disk()
    with monkeypatch.context() as patch:
        patch.setattr(wayback, "settle", lambda *_: [])
        with wayback.kept(machine.system, disk, "bfq", 60):
            pass
    monkeypatch.setattr(wayback, "alive", lambda *_: False)
    with wayback.kept(machine.system, disk, "bfq", 60):
        pass


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (trial.Options("sda", None, {}, 60), "say what to try"),
        (trial.Options("sdb", "bfq", {}, 60), "unknown disk 'sdb': did you mean 'sda'"),
        (trial.Options("sda", "cfq", {}, 60), "no scheduler 'cfq'"),
        (trial.Options("dm-0", "bfq", {}, 60), "dm-0 takes no scheduler: choose it on sda"),
        (trial.Options("sda", None, {}, 60, undo=True), "nothing is being tried"),
    ],
)
def test_a_request_without_sense(options: trial.Options, said: str, machine: Machine) -> None:
    machine.disk()
    machine.stacked("dm-0", "LVM-x", "sda")
    with pytest.raises(RequestError, match=said):
        trial.run(machine.system, options)
    assert not list((machine.root / "run").rglob("try-*"))


def test_an_unknown_tunable_changes_nothing(
    machine: Machine, no_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_SETTLE_S", 0.0)
    monkeypatch.setattr(trial.Meter, "block", lambda _: trial.Block())
    disk = machine.disk(fifo_batch=16)
    options = trial.Options("sda", None, {"fifo_batch": "9", "fifo_bitch": "1"}, 6)
    with pytest.raises(RequestError, match="no tunable 'fifo_bitch'"):
        trial.run(machine.system, options)
    assert disk.tunables == {"fifo_batch": "16"}


def test_somebody_elses_choice_meanwhile_is_told(
    machine: Machine,
    no_keeper: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(trial, "_SETTLE_S", 0.0)

    def block(_: trial.Meter) -> trial.Block:
        chosen(machine, "kyber")
        return trial.Block()

    monkeypatch.setattr(trial.Meter, "block", block)
    machine.disk(fifo_batch=16)
    with pytest.raises(CtlError, match=r"something else chose .* sda has kyber now"):
        trial.run(machine.system, trial.Options("sda", None, {"fifo_batch": "9"}, 6))
    assert capsys.readouterr().out == ""
    assert machine.system.path("sys/block/sda/queue/scheduler").read_text().endswith("[kyber]")


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Disk]:
    """Yield a loop device, a disk whose scheduler root can choose."""
    if os.geteuid():
        pytest.skip("only root has loop devices")
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    attach = ["losetup", "-f", "--show", str(image)]
    made = subprocess.run(attach, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    name = made.stdout.strip().removeprefix("/dev/")
    disk = Disk(name, Path("/sys/block") / name)
    before = disk.scheduler
    try:
        if "mq-deadline" not in disk.schedulers:
            pytest.skip("no mq-deadline here")
        yield disk
    finally:
        if disk.scheduler != before:
            wayback.choose(disk, before)
        subprocess.run(["losetup", "-d", f"/dev/{name}"], check=True)


def wait_for(what: str, holds: object) -> None:
    assert callable(holds)
    latest = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < latest, what
        time.sleep(0.02)


@pytest.mark.parametrize("who", ["the try", "the try by a signal", "the try before its keeper"])
def test_killed_at_any_moment_everything_is_as_before(who: str, loop: Disk) -> None:
    other = "mq-deadline" if loop.scheduler != "mq-deadline" else "none"
    before = wayback.current(loop)
    system = System()
    state = wayback.state_file(system, loop.name)
    options = ["--scheduler", other, "--set", "nr_requests=77", "--for", "60s"]
    quick = Path(__file__).parent / "quick_try.py"
    words = [sys.executable, str(quick), "try", loop.name, *options]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        if who == "the try before its keeper":
            wait_for("a state", state.exists)
        else:
            wait_for("a change", lambda: loop.number("queue/nr_requests") == 77)
            assert loop.scheduler == other
        running.send_signal(signal.SIGTERM if who == "the try by a signal" else signal.SIGKILL)
        running.communicate(timeout=60)
        wait_for("as before", lambda: wayback.current(loop) == before)
        if who != "the try before its keeper":
            wait_for("no state left", lambda: not state.exists())
        assert not list(Path("/sys/kernel/tracing/instances").glob(f"*{running.pid}"))
    finally:
        running.kill()
        running.wait()
        wait_for("its keeper to end", lambda: not keepers(loop.name))
        state.unlink(missing_ok=True)
        wayback.ready_file(system, loop.name).unlink(missing_ok=True)


@pytest.mark.parametrize("case", ["scheduler", "tunables"])
def test_killed_at_each_step_everything_is_as_before(case: str, loop: Disk, tmp_path: Path) -> None:
    """The disk is restored if the try, its keeper, both, or `--undo` is killed: see killing.py."""
    # Settings that the kernel would not choose by itself.
    wayback.choose(loop, "mq-deadline")
    wayback.write(loop.folder / "queue/iosched/fifo_batch", "7")
    wayback.write(loop.folder / "queue/nr_requests", "50")
    command = [sys.executable, "-m", "tests.triagectl.killing", loop.name, str(tmp_path), case]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": "lab"},
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    for one in runs:
        assert one["restored"] or (one["died"] and one["keeper_died"] and one["pending"]), one
        assert one["restored_at_last"], one
        assert one.get("next", 0) == 0, one
    # If the audit hook missed steps, fewer runs would have died.
    alone = [one for one in runs if one["dies"][1:] == [None, None]]
    assert sum(one["died"] for one in alone) >= 15
    if case == "scheduler":
        assert sum(not one["restored"] for one in runs) >= 20
        assert sum(one["undo_died"] for one in runs) >= 6


def keepers(disk: str) -> list[str]:
    """Return the process ids of a disk's keepers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")
        except OSError:
            continue
        if words[-3:-1] == ["put-back", disk]:
            found.append(path.parent.name)
    return found


def test_a_keeper_puts_back_when_the_time_is_over(loop: Disk) -> None:
    """If the try hangs, its keeper restores the disk when the time is over."""
    system = System()
    other = "mq-deadline" if loop.scheduler != "mq-deadline" else "none"
    before = wayback.current(loop)
    # The keeper restores the disk GRACE_S after the given time, that is after 3 s.
    with wayback.kept(system, loop, other, 3 - wayback.GRACE_S):
        wayback.choose(loop, other)
        wait_for("as before", lambda: wayback.current(loop) == before)
        wait_for("no state left", lambda: not wayback.state_file(system, loop.name).exists())
    wait_for("its keeper to end", lambda: not keepers(loop.name))


def test_a_keeper_waits_for_a_slow_change_but_not_for_a_hung_trial(
    machine: Machine, no_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = machine.disk(fifo_batch=16)
    monkeypatch.setattr(wayback, "GRACE_S", 0.2)
    # keep() would make this process ignore the signals that end it.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    begun = threading.Event()
    over: list[float] = []

    def change() -> None:
        with wayback.changing(machine.system, disk):
            begun.set()
            time.sleep(1.5)
            machine.file("sys/block/sda/queue/iosched/fifo_batch", "99")
        over.append(time.monotonic())

    with wayback.kept(machine.system, disk, "mq-deadline", 0.8):
        slow = threading.Thread(target=change)
        slow.start()
        begun.wait()
        # The trial's time ends during the change. Only the change prolongs the trial.
        assert wayback.keep(machine.system, "sda") == 0
        assert time.monotonic() - over[0] > 0.2
        assert wayback.pending(machine.system, "sda") is None
        assert disk.tunables == {"fifo_batch": "16"}
        slow.join()


def test_another_disk_of_the_same_name_is_left_alone(
    machine: Machine, no_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = machine.disk(fifo_batch=16)
    machine.file("sys/block/sda/diskseq", "7")
    with wayback.kept(machine.system, disk, "mq-deadline", 60) as left:
        machine.file("sys/block/sda/diskseq", "8")
        machine.file("sys/block/sda/queue/iosched/fifo_batch", "99")
    assert left == ["sda is another disk now: nothing was put back"]
    assert disk.tunables == {"fifo_batch": "99"}
    # The state file of an earlier disk of this name does not prevent a trial.
    with monkeypatch.context() as patch:
        patch.setattr(wayback, "settle", lambda *_: [])
        with wayback.kept(machine.system, disk, "bfq", 60):
            chosen(machine, "bfq")
    machine.file("sys/block/sda/diskseq", "9")
    monkeypatch.setattr(wayback, "alive", lambda *_: False)
    with wayback.kept(machine.system, disk, "bfq", 60):
        pass


def test_settings_are_read_when_no_other_trial_can_begin_or_end(
    machine: Machine, no_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings that are read during another trial may be tried ones, and would stay for good."""
    disk = machine.disk(fifo_batch=16)
    order = []
    was = wayback.current
    locked = fcntl.flock

    def read(disk: Disk) -> wayback.Settings:
        order.append("read")
        return was(disk)

    def lock(fd: Any, how: int) -> None:
        order.append("lock")
        locked(fd, how)

    monkeypatch.setattr(wayback, "current", read)
    monkeypatch.setattr(fcntl, "flock", lock)
    with wayback.kept(machine.system, disk, "bfq", 60):
        assert order == ["lock", "read"]


@pytest.fixture
def group() -> Iterator[Path]:
    """Yield a new control group of this machine with a file for bfq's weights of each disk."""
    for top in (System().mounted("cgroup2"), System().mounted("cgroup", "blkio")):
        if top is None:
            continue
        made = top / f"triagectl-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            made.mkdir()
        try:
            if list(made.glob("*bfq.weight*")):
                yield made
                return
        finally:
            with contextlib.suppress(OSError):
                made.rmdir()
    pytest.skip("no control groups with weights of bfq here")


def test_the_kernels_weights_are_as_before(loop: Disk, group: Path, no_keeper: None) -> None:
    if "bfq" not in loop.schedulers:
        pytest.skip("no bfq here")
    wayback.choose(loop, "bfq")
    found = [group / name for name in ("blkio.bfq.weight_device", "io.bfq.weight")]
    file = next(path for path in found if path.exists())
    wayback.write(file, f"{loop.attribute('dev')} 300")
    before = weights.of(System(), loop)
    assert before == {str(file): "300"}
    with wayback.kept(System(), loop, "mq-deadline", 60) as left:
        wayback.choose(loop, "mq-deadline")
        assert weights.of(System(), loop) == {}
    assert left == []
    assert weights.of(System(), loop) == before


def test_the_end_of_an_undone_trial_leaves_the_next_one_alone(
    machine: Machine, no_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hung trial may end after its `--undo`, when another process already has a trial."""
    disk = machine.disk(fifo_batch=16)
    with wayback.kept(machine.system, disk, "mq-deadline", 60):
        assert wayback.settle(machine.system, disk) == []
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: 1)
            wayback._claim(machine.system, disk, "mq-deadline", 60)
        machine.file("sys/block/sda/queue/iosched/fifo_batch", "99")
    assert disk.tunables == {"fifo_batch": "99"}
    assert wayback.pending(machine.system, "sda") is not None


def test_the_wait_for_the_lock_can_be_interrupted_but_the_way_back_cannot(
    machine: Machine, no_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial holds the lock while it changes the disk: for long, if the device is slow."""
    ending = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    blocked: dict[str, bool] = {}
    undone = wayback._undone
    disk = machine.disk(fifo_batch=16)

    def held() -> bool:
        return ending <= signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def sleep(_: float) -> None:
        blocked["wait"] = held()
        fcntl.flock(another, fcntl.LOCK_UN)

    def undo(system: System, disk: Disk, state: dict[str, Any]) -> list[str]:
        blocked["way back"] = held()
        return undone(system, disk, state)

    with wayback.kept(machine.system, disk, "bfq", 60):
        another = os.open(machine.root / "run/triagectl/sda.lock", os.O_RDONLY)
        fcntl.flock(another, fcntl.LOCK_EX)
        monkeypatch.setattr(time, "sleep", sleep)
        monkeypatch.setattr(wayback, "_undone", undo)
        wayback.settle(machine.system, disk)
    os.close(another)
    assert blocked == {"wait": False, "way back": True}
    assert not held()


def test_a_process_that_has_the_lock_cannot_be_stopped_by_ctrl_z(
    machine: Machine, no_keeper: None
) -> None:
    """A stopped process would keep the lock, for which the keeper and `--undo` wait."""
    stopping = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}

    def held() -> set[signal.Signals]:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        return stopping & {signal.Signals(one) for one in blocked}

    disk = machine.disk()
    with wayback.kept(machine.system, disk, "mq-deadline", 60):
        assert held() == set()
        with wayback.changing(machine.system, disk):
            assert held() == stopping
        assert held() == set()


def test_a_process_that_was_stopped_with_the_lock_is_continued(machine: Machine) -> None:
    disk = machine.disk(fifo_batch=16)
    child = os.fork()
    if not child:
        wayback._claim(machine.system, disk, "mq-deadline", 60)
        with wayback.changing(machine.system, disk):
            machine.file("sys/block/sda/queue/iosched/fifo_batch", "99")
            os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    try:
        os.waitpid(child, os.WUNTRACED)
        signal.alarm(20)
        assert wayback.settle(machine.system, disk) == []
        signal.alarm(0)
    finally:
        signal.signal(signal.SIGALRM, before)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert disk.tunables == {"fifo_batch": "16"}
    assert wayback.pending(machine.system, "sda") is None


@pytest.mark.parametrize("mask", [0, 0o077])
def test_only_root_may_write_the_state_and_anybody_may_read_it(
    mask: int, machine: Machine, no_keeper: None
) -> None:
    disk = machine.disk()
    before = os.umask(mask)
    try:
        with wayback.kept(machine.system, disk, "bfq", 60):
            for _ in range(2):
                assert wayback.state_file(machine.system, "sda").stat().st_mode & 0o777 == 0o644
                with wayback.changing(machine.system, disk):
                    pass
    finally:
        os.umask(before)


def test_the_state_is_not_written_through_a_link(machine: Machine, no_keeper: None) -> None:
    disk = machine.disk()
    other = machine.file("other", "as before")
    with wayback.kept(machine.system, disk, "bfq", 60):
        wayback.state_file(machine.system, "sda").with_suffix(f".{os.getpid()}").symlink_to(other)
        with pytest.raises(FileExistsError), wayback.changing(machine.system, disk):
            pass
    assert other.read_text() == "as before"


def test_a_trial_removes_what_a_killed_one_had_half_written(
    machine: Machine, no_keeper: None
) -> None:
    folder = wayback.state_file(machine.system, "sda").parent
    for name in ("try-sda.77", "try-sda.json.77", "try-sdb.77"):
        machine.file(f"run/triagectl/{name}", "{")
    with wayback.kept(machine.system, machine.disk(), "bfq", 60):
        pass
    left = sorted(path.name for path in folder.iterdir())
    assert left == ["sda.lock", "try-sda.json.77", "try-sdb.77"]


def test_a_setting_of_another_folder_is_not_written(machine: Machine) -> None:
    disk = machine.disk(fifo_batch=16)
    other = machine.file("sys/block/sda/queue/other", "1")
    before = wayback.Settings("mq-deadline", {"../other": "2"}, {"../queue/other": "3"})
    said = wayback.put_back(disk, before, "mq-deadline")
    assert said == [
        f"'{name}' is not the name of a setting" for name in ("../other", "../queue/other")
    ]
    assert other.read_text() == "1"


def test_the_time_when_a_trial_ends_moves_with_a_slow_change(
    machine: Machine, no_keeper: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(wayback, "_now", lambda: now)
    monkeypatch.setattr("time.time", lambda: now)
    disk = machine.disk()
    with wayback.kept(machine.system, disk, "bfq", 60):
        with wayback.changing(machine.system, disk):
            now += 3600
        state = wayback.pending(machine.system, "sda")
        assert state is not None
        assert state["until"] == 1_003_660.0
        assert state["ends"] == time.strftime("%H:%M:%S", time.localtime(state["until"]))


def test_no_other_user_can_hold_the_lock(machine: Machine, no_keeper: None) -> None:
    """A user who can open the lock's file could hold the lock: the disk would not be put back."""
    opened = []
    locked = fcntl.flock

    def lock(fd: Any, how: int) -> None:
        opened.append(os.fstat(fd).st_mode & 0o777)
        locked(fd, how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", lock)
        with wayback.kept(machine.system, machine.disk(), "bfq", 60):
            pass
    assert opened == [0o600, 0o600]
