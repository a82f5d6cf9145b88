# SPDX-License-Identifier: GPL-2.0-only
"""Machines that run a job and give its files back.

sim  QEMU with instruction counting: one instruction is one nanosecond of virtual time,
     idle time is skipped, and nothing of the computer gets in, so a run can be
     repeated to the last digit.
vm   QEMU in real time, with KVM where a kernel really boots under it.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from triagelab.base import cache, tools
from triagelab.base.errors import unknown
from triagelab.plan.machine import (
    FIO_STARTS,
    BootError,
    FullError,
    GuestError,
    Job,
    Outcome,
    console_text,
    last_lines,
)
from triagelab.provision import guest, programs
from triagelab.provision.kernels import Kernel
from triagelab.run import saved

READY = "triage: ready"
DONE = "triage: done"
#: A kernel that dies under KVM may keep a core busy. One that boots takes a second or two of the
#: processor's time, however long a busy computer makes it wait for that.
_KVM_PROBE_S = 120.0
_KVM_PROBE_CPU_S = 10
_CONSOLE_POLL_S = 0.05
_END_POLL_S = 0.2
_FULL_BYTES = 1 << 20
#: The kernel tests its own ciphers, 0.8 virtual seconds of a boot.
_UNTESTED = "cryptomgr.notests"
#: QEMU 7.2 computes the flags after `cmpxchg16b` from values of an earlier instruction. An
#: interrupt saves them, and the CPU may be unable to return to them: the guest ends in a
#: double fault. With one CPU this was not seen, and other instructions would move figures.
_NO_CMPXCHG16B = ",-cx16"
#: QEMU's accelerator in which the virtual CPUs run side by side.
_CPUS_IN_THREADS = "tcg,thread=multi"
_LOCKSTEP = Path(__file__).parent / "lockstep.c"
#: The archive of a job, in the run's folder.
_JOB = "job.cpio"


@dataclass(frozen=True)
class Qemu:
    """A machine that boots a kernel.

    base         what it boots into
    qemu         QEMU's options for accelerator, clock and CPUs
    arguments    kernel arguments that go with them
    environment  QEMU's environment variables, and it has no others; a path is of a file it uses
    boots_once   jobs go on from the saved state of a machine that has booted
    cpu_s        seconds of the processor's time after which it is ended
    """

    name: str
    base: guest.Base
    cpus: int
    qemu: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str | Path]
    at_once: int
    description: str
    boots_once: bool = False
    cpu_s: int | None = None

    @property
    def counts_locks(self) -> bool:
        """Return whether CPUs run at the same time, and so wait for each other."""
        return self.in_real_time and self.cpus > 1

    @property
    def in_real_time(self) -> bool:
        """Return whether the figures depend on the computer's own speed."""
        return "-icount" not in self.qemu

    def booting_once(self) -> "Qemu":
        """Return this machine with one boot for all its jobs; under KVM as it is."""
        if self.boots_once or "kvm" in self.qemu:
            return self
        return replace(
            self,
            qemu=(*self.qemu, *saved.OPTIONS),
            arguments=(*self.arguments, "hold=1"),
            boots_once=True,
        )

    def poisoning(self) -> "Qemu":
        """Return this machine with a kernel that overwrites memory as it is freed.

        Code that goes on using it finds pointers that lead nowhere, and flags that are set. The
        debug kernel finds the place too, and is several times as slow.
        """
        return replace(self, arguments=(*self.arguments, "slub_debug=P", "page_poison=1"))

    @cached_property
    def determines(self) -> Mapping[str, Any]:
        """Everything about the machine that determines a job's figures, except the job's memory.

        QEMU's command as it is run, with the content of each file in place of its path, and
        the files that QEMU opens without being told.
        """
        contents = {
            self.base.kernel.elf_or_image: f"kernel {self.base.kernel.sha256}",
            self.base.archive: f"archive {self.base.sha256}",
        }

        def content(path: Path) -> str:
            return contents.get(path) or tools.sha256(path)

        run = Path("RUN")
        command = _command(self, Job.memory_mb, run, run / _JOB, content)
        return {
            "qemu": tools.qemu_version(),
            "command": command,
            "files": tools.qemu_files(),
            "state": saved.DETERMINES if self.boots_once else [],
            "computer": computer() if self.in_real_time else [],
        }

    async def run(self, job: Job, folder: Path) -> Outcome:
        """Boot with `job`; its output comes back in `folder`/out.

        `folder`/console.log is the guest's console. QEMU has ended when this call returns or
        raises. Raises BootError if the job was never started, GuestError if it did not end.
        """
        try:
            return await self._boot(job, folder)
        except FullError:
            raise
        except BootError:
            # In real time without KVM a kernel may die while it patches its own code, which
            # QEMU's other CPUs are running: "Oops: int3" was seen, in one boot of hundreds.
            if _CPUS_IN_THREADS not in self.qemu:
                raise
            return await self._boot(job, folder)

    async def _boot(self, job: Job, folder: Path) -> Outcome:
        console, results, out = folder / "console.log", folder / "results.tar", folder / "out"
        archive = folder / _JOB
        folder.mkdir(parents=True, exist_ok=True)
        for stale in (console, results):
            stale.unlink(missing_ok=True)
        shutil.rmtree(out, ignore_errors=True)
        try:
            guest.pack_job(self.base, job.files, job.modules, archive)
            state = await self._saved(job, folder) if self.boots_once else None
            command = tools.with_us("KILL", _command(self, job.memory_mb, folder, archive))
            if self.cpu_s is not None:
                command = [tools.path(tools.PRLIMIT), f"--cpu={self.cpu_s}", *command]
            started, complaint = await _run(command, state, console, job)
            status = _unpack(results, out)
        finally:
            archive.unlink(missing_ok=True)
            results.unlink(missing_ok=True)
        if status is None:
            raise _died(console, complaint)
        return Outcome(status, out, started)

    async def _saved(self, job: Job, folder: Path) -> Path:
        determines = json.dumps([self.determines, job.memory_mb], sort_keys=True)
        key = hashlib.sha256(determines.encode()).hexdigest()[:16]

        async def make(entry: Path) -> None:
            await self.save(job, folder, entry / "state")

        return await cache.made_meanwhile(f"booted/{key}", make) / "state"

    async def save(self, job: Job, folder: Path, state: Path) -> None:
        """Boot, and write to `state` how the machine waits for `job`, or any with its memory.

        `folder`/console.log is the guest's console. Raises BootError if it does not come to that.
        """
        try:
            command = tools.with_us("KILL", _command(self, job.memory_mb, folder, None))
            complaint = await saved.save(command, state, job.boot_limit_s)
        except TimeoutError:
            complaint = f"it was stopped after {job.boot_limit_s:.0f} s"
        if complaint is not None:
            raise _died(folder / "console.log", complaint)


def computer() -> list[str | int]:
    """This computer and its kernel, which determine the figures of a machine in real time."""
    system = os.uname()
    return [system.release, system.version, processor(), os.cpu_count() or 1]


def processor() -> str:
    """The name of this computer's processor."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else os.uname().machine


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0))


def make(name: str, kernel: Kernel, cpus: int | None = None, *, boots_once: bool = False) -> Qemu:
    """Make the machine called `name`; `vm` finds out whether KVM really works.

    `sim` boots once for all jobs. With `boots_once` another one does too, if it can: for verdicts,
    not for figures in real time, whose intervals are to include what differs from boot to boot.
    """
    guests = {of: kind.make for of, kind in KINDS.items() if kind.make}
    if name not in guests:
        raise unknown("machine", name, guests)
    machine = guests[name](guest.base(kernel), cpus)
    return machine.booting_once() if boots_once else machine


def _sim(base: guest.Base, wanted: int | None) -> Qemu:
    cpus = wanted or 1
    # Each of these is needed: without one of them figures move by 5 to 20 %.
    qemu = (
        # lockstep.c knows QEMU's threads by their names.
        "-name", "triage,debug-threads=on",
        "-accel", "tcg,thread=single",
        "-icount", "shift=0,align=off,sleep=off",
        "-rtc", "base=2026-01-01,clock=vm",
        "-cpu", "max,-rdrand,-rdseed,-erms,-fsrm" + ("" if cpus == 1 else _NO_CMPXCHG16B),
        "-seed", "1",
        "-smp", _smp(cpus),
        *saved.OPTIONS,
    )  # fmt: skip
    arguments = [
        "hold=1",
        "nokaslr",
        "norandmaps",
        "random.trust_cpu=off",
        "mitigations=off",
        _UNTESTED,
    ]
    if cpus == 1:
        # Calibrating the local timer spins for 100 virtual ms, 3 s of ours; one CPU has the HPET.
        arguments.append("nolapic_timer")
    description = "QEMU, instruction counting"
    return Qemu(
        "sim",
        base,
        cpus,
        qemu,
        tuple(arguments),
        lockstep(),
        cores(),
        description,
        boots_once=True,
    )


def lockstep() -> dict[str, Path]:
    """The environment variable that makes QEMU's main loop wait for its virtual CPU."""
    return {"LD_PRELOAD": programs.shared(_LOCKSTEP)}


def _vm(base: guest.Base, wanted: int | None) -> Qemu:
    cpus = wanted or 2
    works, reason = _kvm(base)
    if works:
        qemu: tuple[str, ...] = ("-accel", "kvm", "-cpu", "host")
    else:
        qemu = ("-accel", _CPUS_IN_THREADS, "-cpu", f"max{_NO_CMPXCHG16B}")
    description = f"QEMU in real time, {'KVM' if works else 'TCG'} ({reason})"
    qemu = (*qemu, "-smp", _smp(cpus))
    # On a busy computer ticks come late, and a kernel that counts them refuses to boot.
    arguments = ("mitigations=off", _UNTESTED, "no_timer_check")
    return Qemu("vm", base, cpus, qemu, arguments, {}, 1, description)


def _smp(cpus: int) -> str:
    """QEMU's option for CPUs, each in its own package: the MP table lists no others, and the debug
    kernel, without ACPI, relies on it.
    """
    return f"{cpus},sockets={cpus}"


def _kvm(base: guest.Base) -> tuple[bool, str]:
    """Return whether the base's kernel boots under KVM here, and why not; remember the verdict.

    There are computers where /dev/kvm opens and creates a machine, and a kernel dies in it.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False, "/dev/kvm is missing or may not be opened"

    options = ("-accel", "kvm", "-cpu", "host", "-smp", "1")
    kvm = Qemu("kvm", base, 1, options, (), {}, 1, "KVM probe", cpu_s=_KVM_PROBE_CPU_S)
    key = hashlib.sha256(json.dumps(kvm.determines, sort_keys=True).encode()).hexdigest()[:16]

    def make(folder: Path) -> None:
        works, reason = asyncio.run(_probe_kvm(kvm))
        (folder / "verdict.json").write_text(json.dumps({"works": works, "reason": reason}))

    verdict = cache.made(f"kvm/{key}", make)
    found = json.loads((verdict / "verdict.json").read_text())
    return bool(found["works"]), str(found["reason"])


async def _probe_kvm(kvm: Qemu) -> tuple[bool, str]:
    job = Job({"run": "#!/bin/sh\nexit 0\n"}, time_limit_s=_KVM_PROBE_S)
    with tempfile.TemporaryDirectory(prefix="triage-kvm-") as folder:
        try:
            await kvm.run(job, Path(folder))
        except FullError:
            raise  # a full disk says nothing about KVM
        except GuestError as error:
            return False, "a kernel does not boot under it: " + str(error).splitlines()[0]
    return True, "a kernel boots under it"


def _command(
    machine: Qemu,
    memory_mb: int,
    folder: Path,
    archive: Path | None,
    named: Callable[[Path], str] = str,
) -> list[str]:
    """QEMU's command for a job in `archive`, or for none; its output goes to `folder`.

    named  the name for a file that every run of the machine uses
    """
    kernel = machine.base.kernel
    environment = {
        name: named(value) if isinstance(value, Path) else value
        for name, value in machine.environment.items()
    }
    # panic=-1 restarts at once, which -no-reboot turns into the end of QEMU.
    arguments = ["console=ttyS0", "quiet", "panic=-1", *machine.arguments]
    command = [
        # This computer's environment has no influence.
        "env", "-i", *(f"{name}={value}" for name, value in environment.items()),
        named(Path(tools.path(tools.QEMU))), *machine.qemu,
        "-m", str(memory_mb),
        "-nodefaults", "-no-user-config", "-nic", "none", "-display", "none", "-no-reboot",
        "-chardev", f"file,id=console,path={_escaped(folder / 'console.log')}",
        "-serial", "chardev:console",
        "-chardev", f"file,id=results,path={_escaped(folder / 'results.tar')}",
        # Requests are served by the CPU that makes them, not whenever a thread of QEMU's can.
        "-device", "virtio-serial-pci,ioeventfd=off",
        "-device", "virtserialport,chardev=results,name=results",
        "-kernel", named(kernel.elf_or_image), "-initrd", named(machine.base.archive),
        "-append", " ".join(arguments),
    ]  # fmt: skip
    if archive:
        command += ["-fw_cfg", f"name=opt/triage/job,file={_escaped(archive)}"]
    return command


def _escaped(path: Path) -> str:
    """Return a path for use in a QEMU option: each comma is doubled."""
    return str(path).replace(",", ",,")


async def _run(
    command: list[str], state: Path | None, console: Path, job: Job
) -> tuple[float | None, str]:
    """Run QEMU to its end or the job's time limit; a kernel has a shorter one to boot in.

    Continue from `state`, if there is one. Returns the seconds to fio's start (None if it
    never did) and what QEMU complained of.
    """
    begin = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *command,
        *(saved.INCOMING if state else ()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is ours to handle
    )
    communicate = asyncio.ensure_future(_talk(process, state))
    started = None
    try:
        while not communicate.done():
            elapsed = time.monotonic() - begin
            said = console_text(console)
            if DONE in said:
                break  # all it had to send is here; it need not shut down
            if started is None and FIO_STARTS in said:
                started = elapsed
            ready = READY in said
            limit = job.time_limit_s if ready else min(job.time_limit_s, job.boot_limit_s)
            if elapsed > limit:
                process.kill()
                await communicate
                return started, f"it was stopped after {limit:.0f} s"
            await asyncio.wait(
                [communicate], timeout=_CONSOLE_POLL_S if started is None else _END_POLL_S
            )
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(communicate)
    errors = communicate.result()
    return started, errors.decode(errors="replace").strip()


async def _talk(process: Process, state: Path | None) -> bytes:
    """Have QEMU continue from `state`, and wait for its end; return its error output."""
    if state:
        with contextlib.suppress(EOFError):
            await saved.go_on(process, state)
    _, errors = await process.communicate()
    return errors


def _unpack(results: Path, out: Path) -> int | None:
    """Unpack what the guest sent; None if the archive is incomplete."""
    if not results.exists() or not results.stat().st_size:
        return None
    out.mkdir()
    command = ["tar", "-x", "--no-same-owner", "-f", str(results), "-C", str(out)]
    if subprocess.run(command, capture_output=True).returncode:
        return None
    status = out / "exit-status"
    text = status.read_text().strip() if status.exists() else ""
    return int(text) if text else None  # empty where the guest had no memory left for it


def _died(console: Path, complaint: str) -> GuestError:
    if shutil.disk_usage(console.parent).free < _FULL_BYTES:
        return FullError(f"No space left for {console.parent}; make room and use --resume")
    text = console_text(console)
    kind: type[GuestError] = GuestError if READY in text else BootError
    if kind is BootError:
        what = "the kernel did not boot"
    elif "Kernel panic" in text:
        what = "the guest's kernel panicked"
    else:
        what = "the guest ended before it had sent its results"
    lines = last_lines(console) or "(the console is empty)"
    return kind(
        f"{what}{': ' + complaint if complaint else ''}\n"
        f"Its last lines were:\n{lines}\nThe console's log is {console}"
    )


@dataclass(frozen=True)
class Kind:
    """The properties of a machine that decide how the lab plans, runs and reads its runs.

    in_virtual_time  the computer's speed is in no figure, so runs may go side by side, on other
                     computers too, and a nanosecond is an instruction
    make             makes the guest with so many CPUs; None: it is this computer, on its own disk
    """

    in_virtual_time: bool
    make: Callable[[guest.Base, int | None], Qemu] | None

    @property
    def is_here(self) -> bool:
        """Return whether the machine is this computer, with its kernel, CPUs, disk and data."""
        return self.make is None


#: The machines, by the names that --machine takes.
KINDS = {
    "host": Kind(in_virtual_time=False, make=None),
    "sim": Kind(in_virtual_time=True, make=_sim),
    "vm": Kind(in_virtual_time=False, make=_vm),
}


def kind(name: str) -> Kind:
    """Return the properties of the machine called `name`."""
    if name not in KINDS:
        raise unknown("machine", name, KINDS)
    return KINDS[name]
