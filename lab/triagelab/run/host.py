# SPDX-License-Identifier: GPL-2.0-only
"""Run jobs on the machine `host`: this computer and one of its disks, in real time.

The lab keeps the disk open with O_EXCL for all runs of an experiment, so that no other program can
do so, for example to mount it. All programs of a run have ended before the next run begins. After
the last run, the lab restores the disk's settings.
"""

import asyncio
import contextlib
import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

from triagelab.ask.devices import Device
from triagelab.base import sources, tools
from triagelab.base.errors import LabError, RequestError
from triagelab.plan.machine import FIO_STARTS, Job, Outcome
from triagelab.provision import guest, kernels, modules, programs
from triagelab.run import disks, putback
from triagelab.run.disks import Disk
from triagelab.run.machines import computer, processor

_PROC = Path("/proc")
_KERNEL_RECORD_BYTES = 8192  # no record of /dev/kmsg is longer
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Host:
    """The machine `host`, an implementation of plan.machine.Machine.

    before     the disk's settings before the experiment
    may_write  True if fio may write to the disk
    """

    disk: Disk
    before: putback.Before
    may_write: bool
    name: str = "host"
    at_once: int = 1
    counts_locks: bool = False

    @property
    def cpus(self) -> int:
        """Return the number of CPUs that are online."""
        return os.cpu_count() or 1

    @property
    def description(self) -> str:
        """Return the processor's name."""
        return processor()

    @cached_property
    def _programs(self) -> Mapping[str, Path | str]:
        """Return the programs of a run, by name: the sampler, and a script that calls fio."""
        fio = [tools.path(tools.FIO), *([] if self.may_write else ["--readonly"])]
        return {
            "sampler": programs.static(guest.FILES / "sampler.c"),
            "fio": f'#!/bin/sh\nexec {shlex.join(fio)} "$@"\n',
        }

    @property
    def determines(self) -> Mapping[str, Any]:
        """Return everything that determines a job's figures, as far as the computer reports it."""
        fio = Path(tools.path(tools.FIO)).resolve()
        sampler = programs.static(guest.FILES / "sampler.c")
        return {
            "host": [os.uname().nodename, *computer()],
            "disk": {"name": self.disk.name, **self.disk.identity},
            "fio": tools.fio_version(),
            "files": tools.contents([fio, *tools.libraries(fio), sampler]),
        }

    async def run(self, job: Job, folder: Path) -> Outcome:
        """Run the job in the folder `folder`/job, and then remove this folder.

        On return, the job's results are in `folder`/out, its output is in `folder`/console.log, and
        all programs of the run have ended. The job's time limits do not apply, but the sampler ends
        a run if requests are in flight and none completes for a minute.
        """
        work, out = folder / "job", folder / "out"
        for path in (work, out):
            shutil.rmtree(path, ignore_errors=True)
        (work / "out").mkdir(parents=True)
        for name, content in job.files.items():
            guest.install(content, work / name)
        for name, content in self._programs.items():
            guest.install(content, work / "bin" / name)
        # Begin with `none`, so that the scheduler which the job chooses is set up anew. It then
        # starts with its defaults, not with the previous run's settings.
        putback.put_back(self.before)
        (self.disk.queue / "scheduler").write_text("none")
        try:
            with _kernel_log(work / "out/dmesg.log"):
                status, started = await _run(work, folder / "console.log")
            (work / "out").rename(out)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return Outcome(status, out, started)


@contextlib.contextmanager
def _kernel_log(path: Path) -> Iterator[None]:
    """Write the messages that the kernel logs during the block to `path`, at the block's end."""
    source = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.lseek(source, 0, os.SEEK_END)
        yield
        with path.open("wb") as log:
            log.writelines(_kernel_records(source))
    finally:
        os.close(source)


def _kernel_records(source: int) -> Iterator[bytes]:
    """Yield the records that are left to read from `source`, an open /dev/kmsg."""
    while True:
        try:
            yield os.read(source, _KERNEL_RECORD_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:  # records were overwritten; the next read gets the oldest one left
            yield b"records were lost here: later ones took their place in the kernel's buffer\n"


async def _run(work: Path, console: Path) -> tuple[int, float | None]:
    """Run the script `work`/run; return its status, and the seconds until fio started or None."""
    command = [
        # Killing a process group or a session would miss fio's processes, which leave both. They
        # cannot leave a PID namespace: when its first process dies, the kernel kills all others.
        tools.path(tools.UNSHARE), "--pid", "--fork", "--kill-child", "--",
        "sh", "./run",
    ]  # fmt: skip
    path = f"{work.absolute() / 'bin'}:{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    begin = time.monotonic()
    started = None
    # All programs of the run inherit `theirs`. A read of `ours` ends when the last program exits.
    ours, theirs = os.pipe()
    with console.open("wb") as log, os.fdopen(ours, "rb") as everybody:
        process = await asyncio.create_subprocess_exec(
            *tools.with_us("KILL", command),
            cwd=work,
            env={"PATH": path},  # pass on none of the user's other variables
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=[theirs],
            start_new_session=True,  # Ctrl-C reaches only the lab, which then ends fio
        )
        os.close(theirs)
        assert process.stdout is not None
        try:
            said = b""
            # Read blocks instead of lines, because a line may be longer than any buffer.
            while chunk := await process.stdout.read(_CHUNK_BYTES):
                log.write(chunk)
                said = said[-len(FIO_STARTS) :] + chunk
                if started is None and FIO_STARTS.encode() in said:
                    started = time.monotonic() - begin
            return await process.wait(), started
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(asyncio.gather(process.wait(), asyncio.to_thread(everybody.read)))


@dataclass
class Held:
    """A disk that the lab holds until the experiment is over.

    loaded    scheduler -> the file of the module that the lab loaded; not the kernel's own modules
    left_out  scheduler -> the reason why the scheduler is not available here
    """

    machine: Host
    loaded: dict[str, Path] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def disk(self) -> Disk:
        """Return the disk."""
        return self.machine.disk

    def provide(self, schedulers: Iterable[str], files: Mapping[str, Path]) -> None:
        """Load the modules of the `schedulers` that the disk does not offer yet.

        Put a scheduler that cannot be loaded into `left_out`. Raise RequestError if the disk
        already offers a scheduler that `files` has: another module of this name is loaded.

        files  scheduler -> the user's own module; a scheduler that is missing here has a module of
               this repository or of the kernel
        """
        for name in schedulers:
            if name in self.loaded or name in self.left_out:
                continue
            if name in self.disk.schedulers:
                if name in files:
                    raise RequestError(
                        f"a scheduler called {name} is loaded already; to have that of "
                        f"{files[name]} give: rmmod {name}-iosched"
                    )
                continue
            try:
                file = self._load(name, files.get(name))
            except LabError as error:
                self.left_out[name] = str(error).splitlines()[0]
                continue
            if file is not None:
                self.loaded[name] = file

    def _load(self, name: str, file: Path | None) -> Path | None:
        """Load a scheduler: the user's module `file`, else this repository's, else the kernel's.

        Return the file of the module; None if the module is the kernel's.
        """
        release = os.uname().release
        if not (_PROC / "modules").exists():
            raise LabError(f"the kernel {release} is built without it and loads no modules")
        if file is None and name in sources.own_schedulers():
            file = modules.build(kernels.find("running")) / f"{name}-iosched.ko"
        file = file and modules.kept(file)
        for module in (name, f"{name}_iosched"):
            putback.note_module(self.machine.before, module.replace("-", "_"))
        command = (
            [tools.path(tools.INSMOD), str(file)]
            if file
            else [tools.path(tools.MODPROBE), f"{name}-iosched"]
        )
        done = subprocess.run(command, capture_output=True, text=True)
        if name not in self.disk.schedulers:
            raise LabError(f"the kernel {release} does not load it: {done.stderr.strip()}")
        return file

    @property
    def notes(self) -> list[str]:
        """Return notes for the reader of the report."""
        found = [f"{name} was left out: {reason}" for name, reason in self.left_out.items()]
        found += [
            f"{name} was loaded before, and need not be this repository's"
            for name in sources.own_schedulers()
            if name in self.disk.schedulers and name not in self.loaded
        ]
        if "enable=1" in _io_cost(self.disk):
            found.append(f"io.cost was on for {self.disk.path}, and is in all figures")
        return found

    @property
    def device(self) -> Device:
        """Return the disk as the plan's device, with its properties and its original settings."""
        before = self.machine.before
        names = ("nr_requests", "wbt_lat_usec", "rq_affinity", "nomerges")
        settings = {
            **self.disk.facts,
            "scheduler_before": before.scheduler,
            **{f"{name}_before": before.settings.get(name, "none") for name in names},
            "io_cost": _io_cost(self.disk) or "off",
        }
        return Device(
            name=str(self.disk.path),
            description=self.disk.description,
            blocks=(self.disk.name,),
            module=None,
            group=None,
            settings=settings,
        )


def _io_cost(disk: Disk) -> str:
    """Return the disk's line in the root cgroup's io.cost.qos; empty if there is none."""
    number = disk.about("dev")
    for line in (_PROC / "mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        file = Path(where) / "io.cost.qos"
        if kind == "cgroup2" and file.exists():
            found = re.search(rf"^{number} (.*)$", file.read_text(), re.M)
            return found[1] if found else ""
    return ""


@contextlib.contextmanager
def held(disk: Disk, may_write: bool) -> Iterator[Held]:
    """Hold `disk` exclusively for the block; then restore its settings, even after an error.

    Raise RequestError, and change nothing, if the disk is in use, or if it is read-only although
    `may_write` is True. Raise LabError if something could not be restored.
    """
    with _interrupted_by_signals(), _exclusively(disk):
        if may_write and disk.about("ro") == "1":
            raise RequestError(f"{disk.path} cannot be written to; leave out --allow-write")
        with putback.noted(disk) as before:
            try:
                yield Held(Host(disk, before, may_write))
            finally:
                with _undisturbed():
                    if left := putback.finish(before):
                        raise LabError(
                            "not everything is as it was before; the next --machine host "
                            f"tries again, by {before.record}:\n" + "\n".join(left)
                        )


def require_root() -> None:
    """Raise RequestError unless the user is root: only root may open and configure a disk."""
    if os.geteuid() != 0:
        raise RequestError(
            "--machine host opens a disk and chooses its scheduler, which root may: "
            "give the same command with sudo"
        )


@contextlib.contextmanager
def _exclusively(disk: Disk) -> Iterator[None]:
    """Keep the disk open with O_EXCL during the block, so that no file system on it can be mounted.

    Raise RequestError if the disk is in use.
    """
    try:
        descriptor = os.open(disk.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise RequestError(f"{disk.path}: {error.strerror}") from None
        who = "; ".join(disks.users(disk)) or "another program has it open exclusively"
        raise RequestError(f"{disk.path} is in use: {who}. {_FREE_IT}") from None
    try:
        if users := disks.users(disk):
            raise RequestError(f"{disk.path} is in use: {'; '.join(users)}. {_FREE_IT}")
        yield
    finally:
        os.close(descriptor)


_FREE_IT = "End that, or give another --device"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _interrupted_by_signals() -> contextlib.AbstractContextManager[None]:
    """During the block, make signals raise KeyboardInterrupt, so that `finally` blocks run."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    return _handled_by(interrupt)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Defer signals that would end the lab; at the end of the block, raise the first of them.

    If the block raises an error, drop the deferred signals. A signal mask would not be enough,
    because a mask applies to one thread. A thread that a library started could take the signal, and
    Python would then call the handler in the main thread.
    """
    came: list[int] = []
    with _handled_by(lambda number, frame: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Install `handler` for the signals that would end the lab, for as long as the block runs."""
    ours = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in ours}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
