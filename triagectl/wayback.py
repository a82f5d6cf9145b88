# SPDX-License-Identifier: GPL-2.0-only
"""Undo a change of a disk's settings, however the process that made the change ends.

Before it changes anything, `try` writes the disk's settings to a file in /run. A keeper, a process
outside of the user's session, restores the disk when the time is over or when the process that made
the change is gone. After a reboot there is nothing to undo, because these settings do not last.
"""

import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from triagectl import screen, weights
from triagectl.errors import CtlError, RequestError
from triagectl.sysfs import Disk
from triagectl.system import System, read, rewrite

_FOLDER = "run/triagectl"
#: Settings of the queue that change when another scheduler is chosen.
QUEUE = ("nr_requests", "wbt_lat_usec")
#: The longest time, in s, that the keeper may take to start, even if no CPU is free.
_START_S = 30.0
#: The keeper waits for this time after a trial's planned end, in s: until then the trial's own
#: process may restore the disk.
GRACE_S = 15.0
#: A process that finds the lock taken tries again after this time, in s.
_TRY_AGAIN_S = 0.05


@dataclass(frozen=True)
class Settings:
    """A disk's scheduler, with its tunables and the settings of its queue."""

    scheduler: str
    tunables: dict[str, str]
    queue: dict[str, str]


def current(disk: Disk) -> Settings:
    """Return a disk's settings."""
    values = {name: disk.attribute(f"queue/{name}") for name in QUEUE}
    queue = {name: value for name, value in values.items() if value is not None}
    return Settings(disk.scheduler, disk.tunables, queue)


def write(path: Path, value: str) -> None:
    """Write a file of sysfs. Raises RequestError where the kernel refuses the value."""
    try:
        rewrite(path, value)
    except FileNotFoundError:
        raise RequestError(f"there is no {path}") from None
    except PermissionError:
        raise RequestError(f"only root may write {path}: give the command as root") from None
    except OSError as error:
        raise RequestError(f"the kernel refuses '{value}' for {path}: {error.strerror}") from None


def choose(disk: Disk, scheduler: str) -> None:
    """Choose a scheduler. Raises RequestError where the kernel does not have it."""
    try:
        write(disk.folder / "queue/scheduler", scheduler)
    except RequestError as error:
        raise RequestError(
            f"{error}. It offers {', '.join(disk.schedulers)}; a module is loaded by itself if "
            f"`modinfo {scheduler}-iosched` finds it"
        ) from None
    if disk.scheduler != scheduler:
        raise RequestError(f"{disk.name} has {disk.scheduler}, though {scheduler} was written")


def put_back(disk: Disk, before: Settings, tried: str) -> list[str]:
    """Put a disk's settings back. Return a sentence for each that could not be put back.

    A scheduler that is neither the former one nor the one on trial is another user's choice, and
    stays.
    """
    if disk.scheduler not in (before.scheduler, tried):
        return [
            f"{disk.name} has {disk.scheduler} now, which another user chose: it was left so "
            f"(before it was {before.scheduler})"
        ]
    wrong: list[str] = []
    if disk.scheduler != before.scheduler:
        try:
            choose(disk, before.scheduler)
        except RequestError as error:
            return [str(error)]
    # Write the settings twice, because one may limit the values of another.
    for _ in range(2):
        wrong = []
        for folder, values in (("queue/iosched", before.tunables), ("queue", before.queue)):
            for name, value in values.items():
                if "/" in name:
                    wrong.append(f"'{name}' is not the name of a setting")
                    continue
                if disk.attribute(f"{folder}/{name}") == value:
                    continue
                try:
                    write(disk.folder / folder / name, value)
                except RequestError as error:
                    wrong.append(str(error))
    return wrong


def state_file(system: System, disk: str) -> Path:
    """Return the path of the file that holds a disk's settings from before a trial."""
    return system.path(_FOLDER) / f"try-{disk}.json"


def ready_file(system: System, disk: str) -> Path:
    """Return the path of the file that a keeper makes when it is ready."""
    return state_file(system, disk).with_suffix(".keeper")


def pending(system: System, disk: str) -> dict[str, Any] | None:
    """Return the state of the trial on a disk; None if there is no trial."""
    text = read(state_file(system, disk))
    try:
        found = json.loads(text) if text else None
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def alive(pid: int, started: str) -> bool:
    """Return whether the process `pid` lives, and is the one that started at that time."""
    return _started(pid) == started


def _started(pid: int) -> str:
    words = _stat(pid)
    return words[19] if len(words) > 19 and words[0] != "Z" else ""


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from `state` on; none if there is no process."""
    return (read(Path(f"/proc/{pid}/stat")) or "").rpartition(")")[2].split()


@contextlib.contextmanager
def kept(system: System, disk: Disk, tried: str, seconds: float) -> Iterator[list[str]]:
    """Put a disk's scheduler, settings and control groups' weights back at the end of the block.

    The yielded list then has a sentence for each setting that could not be put back. If an
    exception ends the block, print the sentences: nobody would read the list. Raises RequestError
    if there is a trial on this disk already.
    """
    _claim(system, disk, tried, seconds)
    left: list[str] = []
    try:
        start_keeper(system, disk.name)
        yield left
    except BaseException:
        _show(settle(system, disk, os.getpid()))
        raise
    left += settle(system, disk, os.getpid())


def _show(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        print(f"triagectl: {screen.plain(sentence)}", file=sys.stderr)


def _claim(system: System, disk: Disk, tried: str, seconds: float) -> None:
    """Write the state file. Raises RequestError if there is a trial on this disk already."""
    path = state_file(system, disk.name)
    try:
        path.parent.mkdir(mode=0o755, exist_ok=True)
        # Under the lock no other trial begins or ends, so _state() reads no tried settings.
        with _locked(system, disk):
            _refuse_another(system, disk)
            state = _state(system, disk, tried, seconds)
            ready_file(system, disk.name).unlink(missing_ok=True)
            for scratch in path.parent.iterdir():
                # A process that was killed in _store() left this file.
                if re.fullmatch(rf"{re.escape(path.stem)}\.\d+", scratch.name):
                    scratch.unlink()
            _store(path, state)
    except OSError as error:
        raise RequestError(
            f"cannot write {path}, which must exist before anything is changed: {error.strerror}"
        ) from None


def _store(path: Path, state: dict[str, Any]) -> None:
    """Write a state file. At each moment the whole former file or the whole new one is there."""
    scratch = path.with_suffix(f".{os.getpid()}")
    try:
        # With O_EXCL no link is followed. All users may read the file: their `status` does so.
        fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w") as file:
            os.fchmod(fd, 0o644)
            file.write(json.dumps(state))
        scratch.rename(path)
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)


#: The signals that stop a process, and those that end one.
_STOPPING = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@contextlib.contextmanager
def _locked(system: System, disk: Disk) -> Iterator[None]:
    """Hold the lock of a disk's state file during the block.

    The lock has a file of its own, because the state file comes and goes. Only root may open the
    lock's file, because a user who opens it could hold the lock for good.

    Signals that stop or end the process are delivered after the block. Otherwise a process that
    Ctrl-Z stops would keep the lock. And a handler that raises just before os.close() would leave
    the file open: to put the settings back, the process would then wait for its own lock.

    While this process waits for the lock, it lets ending signals through, and continues a trial's
    process that is stopped, because that process may hold the lock.
    """
    path = system.path(_FOLDER) / f"{disk.name}.lock"
    with _blocked(_STOPPING | _ENDING):
        fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _lock(fd):
                with _unblocked(_ENDING):
                    _continue(pending(system, disk.name))
                    time.sleep(_TRY_AGAIN_S)
            yield
        finally:
            os.close(fd)


def _lock(fd: int) -> bool:
    """Take the lock of an open file if it is free. Return whether it was."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _continue(state: dict[str, Any] | None) -> None:
    """Continue a trial's process if it is stopped, as by SIGSTOP, which cannot be blocked."""
    if state is None or not alive(state["pid"], state["started"]):
        return
    if _stat(state["pid"])[:1] == ["T"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(state["pid"], signal.SIGCONT)


def _state(system: System, disk: Disk, tried: str, seconds: float) -> dict[str, Any]:
    before = current(disk)
    return {
        "disk": disk.name,
        "diskseq": disk.number("diskseq"),
        "before": asdict(before),
        # The weights are lost only if the disk leaves the scheduler.
        "weights": weights.of(system, disk) if tried != before.scheduler else {},
        "tried": tried,
        "pid": os.getpid(),
        "started": _started(os.getpid()),
        "until": _now() + seconds,
        "ends": _clock(seconds),
    }


def _clock(seconds: float) -> str:
    """Return the time of day, as text, that comes in `seconds` from now."""
    return time.strftime("%H:%M:%S", time.localtime(time.time() + seconds))


def _now() -> float:
    """Return the time since the machine started, in s, which is the same for all processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _refuse_another(system: System, disk: Disk) -> None:
    """Raise RequestError if another trial runs or was not put back. Else remove any state file."""
    other = pending(system, disk.name)
    if other is None:
        return
    if alive(other["pid"], other["started"]):
        raise RequestError(
            f"process {other['pid']} tries {other['tried']} on {disk.name} until "
            f"{other['ends']}: wait, or end it"
        )
    # The process may have been killed before it changed anything.
    unchanged = current(disk) == Settings(**other["before"]) and not weights.lost(
        system, disk, other.get("weights", {})
    )
    if disk.is_still(other.get("diskseq")) and not unchanged:
        raise RequestError(
            f"an earlier try on {disk.name} was not put back: "
            f"give `triagectl try {disk.name} --undo`"
        )
    state_file(system, disk.name).unlink(missing_ok=True)


@contextlib.contextmanager
def changing(system: System, disk: Disk) -> Iterator[dict[str, Any]]:
    """Hold the lock while this process's trial changes the disk. Yield the trial's state.

    Before a change the kernel waits for the requests in the device. This takes seconds on a slow
    device, so the time of the change does not count towards the trial. Raises CtlError if the trial
    has ended or the disk is another one now: then nothing would undo the change.
    """
    with _locked(system, disk):
        state = _own(system, disk)
        begin = _now()
        yield state
        now = _now()
        state["until"] += now - begin
        state["ends"] = _clock(state["until"] - now)
        _store(state_file(system, disk.name), state)


def confirm(system: System, disk: Disk) -> None:
    """Raise CtlError if this process's trial has ended, or the disk is another one now."""
    # `--undo` holds the lock while it restores the disk, so no `--undo` is half done here.
    with _locked(system, disk):
        _own(system, disk)


def _own(system: System, disk: Disk) -> dict[str, Any]:
    """Return the state of this process's trial.

    Raises CtlError if the trial has ended, or the disk is another one now.
    """
    state = pending(system, disk.name)
    if state is None or state["pid"] != os.getpid():
        raise CtlError(
            f"the trial on {disk.name} was ended by `--undo`, or by its keeper because it "
            "took too long"
        )
    if not disk.is_still(state.get("diskseq")):
        raise CtlError(f"{disk.name} is another disk now: nothing was changed on it")
    return state


def restore(system: System, disk: Disk, state: dict[str, Any]) -> None:
    """Put the old settings back while the trial goes on. Raises CtlError if that fails."""
    wrong = _undone(system, disk, state)
    if wrong:
        raise CtlError("not all is as before: " + "; ".join(wrong))


def settle(system: System, disk: Disk, pid: int | None = None) -> list[str]:
    """Restore a disk from its state file if no other process has done so. Return failures.

    With `pid`, restore it only if the trial is that process's. After an `--undo`, another process
    may have begun a trial, and replaced the state file.
    """
    if not state_file(system, disk.name).exists():
        return []
    with _locked(system, disk):
        state = pending(system, disk.name)
        if state is None or pid not in (None, state["pid"]):
            return []
        wrong = _undone(system, disk, state)
        # Remove the state even after failures: a second attempt would fail too, and the file would
        # keep the next trial from starting.
        state_file(system, disk.name).unlink()
        ready_file(system, disk.name).unlink(missing_ok=True)
        return wrong


def _undone(system: System, disk: Disk, state: dict[str, Any]) -> list[str]:
    if not disk.folder.exists():
        return [f"{disk.name} is gone: there is nothing to put back"]
    if not disk.is_still(state.get("diskseq")):
        return [f"{disk.name} is another disk now: nothing was put back"]
    before = Settings(**state["before"])
    wrong = put_back(disk, before, state["tried"])
    had = state.get("weights", {})
    if disk.scheduler == before.scheduler:
        wrong += weights.put_back(system, disk, had)
    elif lost := weights.lost(system, disk, had):
        wrong.append(
            f"{len(lost)} control groups have lost their weights on {disk.name}, which only "
            f"{before.scheduler} has"
        )
    return wrong


@contextlib.contextmanager
def _blocked(signals: set[signal.Signals]) -> Iterator[None]:
    """Block signals while the `with` block runs. The kernel delivers them after it."""
    # pthread_sigmask() runs the handlers of signals that came before, and these may raise. So the
    # old mask must be known before the call that changes it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, set())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _unblocked(signals: set[signal.Signals]) -> Iterator[None]:
    """Let blocked signals through while the `with` block runs."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)


def start_keeper(system: System, disk: str) -> None:
    """Start the keeper, which restores the disk if this process is gone; wait until it is ready."""
    launcher = Path(__file__).resolve().parent / "triagectl"
    command = [sys.executable, "-I", str(launcher), "put-back", disk]
    if not _as_a_service(command, disk):
        # The keeper has its own session: a closed terminal and its signals do not reach it.
        subprocess.Popen(
            command,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    ready = ready_file(system, disk)
    latest = time.monotonic() + _START_S
    while not ready.exists():
        if time.monotonic() > latest:
            raise CtlError(
                f"the process that puts {disk} back did not start within {_START_S:.0f} s: "
                "nothing was changed"
            )
        time.sleep(0.02)


def _as_a_service(command: list[str], disk: str) -> bool:
    """Have systemd run the keeper, so that it outlives the login. Return whether that worked."""
    if not Path("/run/systemd/system").is_dir() or not shutil.which("systemd-run"):
        return False
    service = [
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit=triagectl-try-{disk.replace('!', '-')}-{os.getpid()}",
        # If the keeper is killed, systemd starts it again, and it reads the state file again.
        "--property=Restart=on-failure",
        "--property=RestartSec=0",
    ]
    done = subprocess.run([*service, *command], capture_output=True, stdin=subprocess.DEVNULL)
    return done.returncode == 0


def _wait(system: System, disk: Disk, state: dict[str, Any], process: select.poll) -> None:
    """Wait until the trial's process has ended, or the trial's time and GRACE_S are over."""
    until = state["until"]
    while not process.poll(max(0.0, until + GRACE_S - _now()) * 1000):
        # A change under way holds the lock, and prolongs the trial before it releases the lock.
        with _locked(system, disk):
            latest = pending(system, disk.name)
        if latest is None or latest["pid"] != state["pid"] or latest["until"] <= until:
            return
        until = latest["until"]


def keep(system: System, name: str) -> int:
    """Do a keeper's work: wait for the end of a try, then restore the disk."""
    # Ignore these signals: the disk must be restored even after the session or the terminal ends.
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    disk = Disk(name, system.path("sys/block") / name)
    state = pending(system, name)
    if state is None:
        return 0
    try:
        fd = os.pidfd_open(state["pid"])
    except ProcessLookupError:
        fd = -1
    ready_file(system, name).touch()
    if fd >= 0 and alive(state["pid"], state["started"]):
        waiting = select.poll()
        waiting.register(fd, select.POLLIN)
        _wait(system, disk, state, waiting)
    _show(settle(system, disk, state["pid"]))
    # Report success even after failures. Else systemd would start the keeper again, which would
    # fail again.
    return 0
