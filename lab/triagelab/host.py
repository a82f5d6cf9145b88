# SPDX-License-Identifier: GPL-2.0-only
"""This computer and a disk of its own as a machine: real hardware, in real time.

A disk is held for all runs of an experiment: nobody else may use it then, what is
changed of it is put back afterwards, and no program of a run outlives it.
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

from triagelab import disks, guest, kernels, modules, programs, putback, tools
from triagelab.devices import Device
from triagelab.disks import Disk
from triagelab.errors import LabError, RequestError
from triagelab.machines import FIO_STARTS, Job, Outcome, computer, processor

_PROC = Path("/proc")
_KERNEL_RECORD_BYTES = 8192  # none is longer
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Host:
    """The machine; see machines.Machine.

    before     how the disk was
    may_write  whether fio may
    """

    disk: Disk
    before: putback.Before
    may_write: bool
    name: str = "host"
    at_once: int = 1
    counts_locks: bool = False

    @property
    def cpus(self) -> int:
        """How many CPUs are at work."""
        return os.cpu_count() or 1

    @property
    def description(self) -> str:
        """The processor's name."""
        return processor()

    @cached_property
    def _programs(self) -> Mapping[str, Path | str]:
        """What a run calls by name, beside what the computer has."""
        fio = [tools.path(tools.FIO), *([] if self.may_write else ["--readonly"])]
        return {
            "sampler": programs.static(guest.FILES / "sampler.c"),
            "fio": f'#!/bin/sh\nexec {shlex.join(fio)} "$@"\n',
        }

    @property
    def determines(self) -> Mapping[str, Any]:
        """All of it that determines what a job measures, as far as it can be told."""
        fio = Path(tools.path(tools.FIO)).resolve()
        sampler = programs.static(guest.FILES / "sampler.c")
        return {
            "host": [os.uname().nodename, *computer()],
            "disk": {"name": self.disk.name, **self.disk.identity},
            "fio": tools.fio_version(),
            "files": tools.contents([fio, *tools.libraries(fio), sampler]),
        }

    async def run(self, job: Job, folder: Path) -> Outcome:
        """Run the job in a folder of its own; what it leaves is `folder`/out afterwards.

        `folder`/console.log has what it said. All its programs have ended then. There is no
        limit to its time: the sampler ends what makes no progress.
        """
        work, out = folder / "job", folder / "out"
        for path in (work, out):
            shutil.rmtree(path, ignore_errors=True)
        (work / "out").mkdir(parents=True)
        for name, content in job.files.items():
            guest.install(content, work / name)
        for name, content in self._programs.items():
            guest.install(content, work / "bin" / name)
        # A scheduler that is chosen anew has its own settings, not those of the run before.
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
    """Write what the kernel says meanwhile to `path`."""
    source = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.lseek(source, 0, os.SEEK_END)
        yield
        with path.open("wb") as log:
            log.writelines(_kernel_records(source))
    finally:
        os.close(source)


def _kernel_records(source: int) -> Iterator[bytes]:
    """The records of /dev/kmsg that are there."""
    while True:
        try:
            yield os.read(source, _KERNEL_RECORD_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:  # the next read has the oldest that is left
            yield b"records were lost here: later ones took their place in the kernel's buffer\n"


async def _run(work: Path, console: Path) -> tuple[int, float | None]:
    """Run `work`/run to its end; returns its status and the seconds to fio's start."""
    command = [
        # fio's processes leave every group and session, but not a PID namespace, which the
        # kernel empties when its first process dies.
        tools.path(tools.UNSHARE), "--pid", "--fork", "--kill-child", "--",
        "sh", "./run",
    ]  # fmt: skip
    path = f"{work.absolute() / 'bin'}:{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    begin = time.monotonic()
    started = None
    # Every program of the run inherits `theirs`; `ours` ends when the last of them has.
    ours, theirs = os.pipe()
    with console.open("wb") as log, os.fdopen(ours, "rb") as everybody:
        process = await asyncio.create_subprocess_exec(
            *tools.with_us("KILL", command),
            cwd=work,
            env={"PATH": path},  # of the user's environment nothing else gets in
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            pass_fds=[theirs],
            start_new_session=True,  # Ctrl-C is ours to handle
        )
        os.close(theirs)
        assert process.stdout is not None
        try:
            said = b""
            # Not by lines: one may be longer than any buffer.
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
    """A disk that is ours until the experiment is over.

    loaded    scheduler -> the module that was loaded for it
    left_out  scheduler -> why it cannot be had here
    """

    machine: Host
    loaded: dict[str, Path] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def disk(self) -> Disk:
        """The disk."""
        return self.machine.disk

    def provide(self, schedulers: Iterable[str], files: Mapping[str, Path]) -> None:
        """Load what the schedulers need that the disk cannot have yet.

        `files` are modules of the user's.
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
        """Load a scheduler from the user's module, ours, or the kernel's; returns the file."""
        release = os.uname().release
        if not (_PROC / "modules").exists():
            raise LabError(f"the kernel {release} is built without it and loads no modules")
        if file is None and name in modules.own_schedulers():
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
        """What a reader of the report should know."""
        found = [f"{name} was left out: {reason}" for name, reason in self.left_out.items()]
        found += [
            f"{name} was loaded before, and need not be this repository's"
            for name in modules.own_schedulers()
            if name in self.disk.schedulers and name not in self.loaded
        ]
        if "enable=1" in _io_cost(self.disk):
            found.append(f"io.cost was on for {self.disk.path}, and is in all figures")
        return found

    @property
    def device(self) -> Device:
        """The disk as a device to schedule for, with what it is and how it was."""
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
    """What the io.cost controller is set to for the disk; nothing where there is none."""
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
    """Hold `disk`: nobody else uses it, and it is put back as it was, whatever happens.

    Raises RequestError if somebody uses it; nothing is changed then.
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
    """An error unless disks may be opened and schedulers chosen."""
    if os.geteuid() != 0:
        raise RequestError(
            "--machine host opens a disk and chooses its scheduler, which root may: "
            "give the same command with sudo"
        )


@contextlib.contextmanager
def _exclusively(disk: Disk) -> Iterator[None]:
    """Have the disk open with O_EXCL: so it is nobody else's, and cannot become."""
    try:
        descriptor = os.open(disk.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise RequestError(f"{disk.path}: {error.strerror}") from None
        who = "; ".join(disks.users(disk)) or "somebody has it for himself alone"
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
    """Signals that would end us raise KeyboardInterrupt: what is put back in `finally` is."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    return _handled_by(interrupt)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals wait; an error that ends us is told in their place.

    To block them would not do: that is for a thread, and libraries have others, any of
    which may take a signal that our handler is then called for.
    """
    came: list[int] = []
    with _handled_by(lambda number, frame: came.append(number)):
        yield
    if came:
        signal.raise_signal(came[0])


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """`handler` is called for signals that would end us."""
    ours = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in ours}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
