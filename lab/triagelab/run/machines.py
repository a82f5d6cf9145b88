# SPDX-License-Identifier: GPL-2.0-only
"""Run jobs in QEMU on the machines `sim` and `vm`, and return the jobs' files.

sim  QEMU with instruction counting. An instruction takes one nanosecond of virtual time, and QEMU
     skips idle time. The computer does not affect the figures, so a repeated run has the same
     figures to the last digit.
vm   QEMU in real time. QEMU uses KVM if a test shows that a kernel boots under KVM.
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
#: Limits of a test boot under KVM, in seconds: of real time, and of CPU time. The second limit ends
#: QEMU if the kernel has died and keeps a core busy. A good boot takes one or two seconds of CPU
#: time, and more on a busy computer.
_KVM_PROBE_S = 120.0
_KVM_PROBE_CPU_S = 10
_CONSOLE_POLL_S = 0.05
_END_POLL_S = 0.2
_FULL_BYTES = 1 << 20
#: With this argument the kernel does not test its ciphers: the tests take 0.8 virtual seconds.
_UNTESTED = "cryptomgr.notests"
#: An option that hides the instruction `cmpxchg16b` from the guest. QEMU 7.2 computes this
#: instruction's flags from values of an earlier instruction. An interrupt saves these wrong flags.
#: If the CPU cannot restore them, the guest ends in a double fault. This was seen only in guests
#: with several CPUs. So `sim` with one CPU keeps the instruction: hiding it changes all figures.
NO_CMPXCHG16B = ",-cx16"
#: The option of QEMU's accelerator that gives each virtual CPU a thread of its own.
_CPUS_IN_THREADS = "tcg,thread=multi"
_LOCKSTEP = Path(__file__).parent / "lockstep.c"
#: The archive of a job, in the run's folder.
_JOB = "job.cpio"


@dataclass(frozen=True)
class Qemu:
    """A machine that boots a kernel in QEMU.

    base         the kernel and its initramfs
    qemu         QEMU's options for accelerator, clock and CPUs
    arguments    the kernel arguments for this machine
    environment  all of QEMU's environment variables; a value that is a Path names a file
    at_once      the number of runs that may go on side by side
    boots_once   True: each job goes on from one saved state of the booted machine
    cpu_s        seconds of CPU time after which the host's kernel kills QEMU; None: no limit
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
        """Return whether a job counts waits for locks. Only CPUs that run at the same time wait."""
        return self.in_real_time and self.cpus > 1

    @property
    def in_real_time(self) -> bool:
        """Return whether the figures depend on the speed of this computer."""
        return "-icount" not in self.qemu

    def booting_once(self) -> "Qemu":
        """Return this machine, but with one boot for all jobs. With KVM, return it unchanged."""
        if self.boots_once or "kvm" in self.qemu:
            return self
        return replace(
            self,
            qemu=(*self.qemu, *saved.OPTIONS),
            arguments=(*self.arguments, "hold=1"),
            boots_once=True,
        )

    def poisoning(self) -> "Qemu":
        """Return this machine, but with a kernel that overwrites memory when it frees the memory.

        Code that uses freed memory then finds invalid pointers, and flags that are set. The debug
        kernel does more: it reports the code that uses freed memory. But it is several times as
        slow as a poisoning kernel.
        """
        return replace(self, arguments=(*self.arguments, "slub_debug=P", "page_poison=1"))

    @cached_property
    def determines(self) -> Mapping[str, Any]:
        """Return everything about the machine that determines a job's figures.

        This includes QEMU's command, with a hash of each file in place of its path, and hashes of
        the files that QEMU opens although no option names them. The size of a job's memory is not
        included.
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
        """Run `job` in the machine, and unpack the job's output in `folder`/out.

        Boot the machine. With `boots_once`, go on from its saved state instead, and save that state
        on first use. `folder`/console.log is the guest's console. QEMU has ended when this call
        returns or raises. Raise BootError if the job was never started, GuestError if the job was
        started but sent no results.
        """
        try:
            return await self._boot(job, folder)
        except FullError:
            raise
        except BootError:
            # In real time without KVM, a kernel may die while it patches code that other CPUs
            # run. An "Oops: int3" was seen in one boot of hundreds. So boot once more.
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
        """Boot until the guest waits for a job, and save the machine in the file `state`.

        Any job with as much memory as `job` can go on from this state. `folder`/console.log is
        the guest's console. Raise BootError if the guest never waits for a job.
        """
        try:
            command = tools.with_us("KILL", _command(self, job.memory_mb, folder, None))
            complaint = await saved.save(command, state, job.boot_limit_s)
        except TimeoutError:
            complaint = f"it was stopped after {job.boot_limit_s:.0f} s"
        if complaint is not None:
            raise _died(folder / "console.log", complaint)


def computer() -> list[str | int]:
    """Return the kernel and processor of this computer: figures in real time depend on them."""
    system = os.uname()
    return [system.release, system.version, processor(), os.cpu_count() or 1]


def processor() -> str:
    """Return the name of this computer's processor."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found[1] if found else os.uname().machine


def cores() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def make(name: str, kernel: Kernel, cpus: int | None = None, *, boots_once: bool = False) -> Qemu:
    """Return the machine called `name`; for `vm`, find out whether KVM really works.

    `sim` boots once for all jobs. With `boots_once`, `vm` without KVM does so too. Use `boots_once`
    for checks that pass or fail, not for measurements in real time: their confidence intervals must
    include the differences between boots.
    """
    guests = {of: kind.make for of, kind in KINDS.items() if kind.make}
    if name not in guests:
        raise unknown("machine", name, guests)
    machine = guests[name](guest.base(kernel), cpus)
    return machine.booting_once() if boots_once else machine


def _sim(base: guest.Base, wanted: int | None) -> Qemu:
    cpus = wanted or 1
    # docs/lab.md says which of these options make the figures reproducible, and why. With ERMS or
    # FSRM, the kernel would copy with `rep movsb`, which QEMU executes byte by byte.
    qemu = (
        # lockstep.c finds the thread of the virtual CPUs by the name that QEMU gives it.
        "-name", "triage,debug-threads=on",
        "-accel", "tcg,thread=single",
        "-icount", "shift=0,align=off,sleep=off",
        "-rtc", "base=2026-01-01,clock=vm",
        "-cpu", "max,-rdrand,-rdseed,-erms,-fsrm" + ("" if cpus == 1 else NO_CMPXCHG16B),
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
        # To calibrate the local APIC timer, the kernel spins for 100 virtual ms, which takes QEMU
        # 3 s. A single CPU can use the HPET instead.
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
    """Return the environment variable that makes QEMU's main loop wait for its virtual CPUs."""
    return {"LD_PRELOAD": programs.shared(_LOCKSTEP)}


def _vm(base: guest.Base, wanted: int | None) -> Qemu:
    cpus = wanted or 2
    works, reason = _kvm(base)
    if works:
        qemu: tuple[str, ...] = ("-accel", "kvm", "-cpu", "host")
    else:
        qemu = ("-accel", _CPUS_IN_THREADS, "-cpu", f"max{NO_CMPXCHG16B}")
    description = f"QEMU in real time, {'KVM' if works else 'TCG'} ({reason})"
    qemu = (*qemu, "-smp", _smp(cpus))
    # At boot, the kernel counts timer ticks to test its timer. On a busy computer the ticks come
    # late, and the kernel would refuse to boot. no_timer_check omits this test.
    arguments = ("mitigations=off", _UNTESTED, "no_timer_check")
    return Qemu("vm", base, cpus, qemu, arguments, {}, 1, description)


def _smp(cpus: int) -> str:
    """Return the value of -smp that puts each of `cpus` CPUs into a package of its own.

    The debug kernel has no ACPI and reads the MP table, which lists one CPU of each package.
    """
    return f"{cpus},sockets={cpus}"


def _kvm(base: guest.Base) -> tuple[bool, str]:
    """Return whether the kernel of `base` boots under KVM on this computer, and why; cache this.

    On some computers the lab can open /dev/kvm and create a machine, but a kernel dies in it.
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
    """Return the command that starts QEMU, which writes console and results to `folder`.

    archive  the job's archive; None: QEMU gets no job
    named    returns the text that stands for a file in the command. It is called only for files
             that all runs share: QEMU, the kernel, the initramfs and preloaded libraries
    """
    kernel = machine.base.kernel
    environment = {
        name: named(value) if isinstance(value, Path) else value
        for name, value in machine.environment.items()
    }
    # With panic=-1, a kernel that panics reboots at once. With -no-reboot, QEMU then ends.
    arguments = ["console=ttyS0", "quiet", "panic=-1", *machine.arguments]
    command = [
        # QEMU gets none of this computer's environment variables.
        "env", "-i", *(f"{name}={value}" for name, value in environment.items()),
        named(Path(tools.path(tools.QEMU))), *machine.qemu,
        "-m", str(memory_mb),
        "-nodefaults", "-no-user-config", "-nic", "none", "-display", "none", "-no-reboot",
        "-chardev", f"file,id=console,path={_escaped(folder / 'console.log')}",
        "-serial", "chardev:console",
        "-chardev", f"file,id=results,path={_escaped(folder / 'results.tar')}",
        # Without ioeventfd, the virtual CPU that writes to this device carries out the write. With
        # it, another thread of QEMU would do so, at a random time.
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
    """Run QEMU until the job is done, QEMU ends, or a time limit passes.

    The limit is job.time_limit_s. Until the guest is ready for the job, job.boot_limit_s applies
    too. QEMU continues from `state`, if there is one. Return the seconds until fio started, or None
    if it did not; and QEMU's error messages, or a text about the limit that passed.
    """
    begin = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *command,
        *(saved.INCOMING if state else ()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C must reach the lab, but not QEMU
    )
    communicate = asyncio.ensure_future(_talk(process, state))
    started = None
    try:
        while not communicate.done():
            elapsed = time.monotonic() - begin
            said = console_text(console)
            if DONE in said:
                break  # the results are here, so do not wait for the guest's shutdown
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
    """Let QEMU continue from `state`, if given, and wait until it ends; return its error output."""
    if state:
        with contextlib.suppress(EOFError):
            await saved.go_on(process, state)
    _, errors = await process.communicate()
    return errors


def _unpack(results: Path, out: Path) -> int | None:
    """Unpack the guest's results and return the job's exit status; None if they are incomplete."""
    if not results.exists() or not results.stat().st_size:
        return None
    out.mkdir()
    command = ["tar", "-x", "--no-same-owner", "-f", str(results), "-C", str(out)]
    if subprocess.run(command, capture_output=True).returncode:
        return None
    status = out / "exit-status"
    text = status.read_text().strip() if status.exists() else ""
    return int(text) if text else None  # empty if the guest had no memory left to write it


def _died(console: Path, complaint: str) -> GuestError:
    if shutil.disk_usage(console.parent).free < _FULL_BYTES:
        return FullError(f"no space left for {console.parent}; make room and use --resume")
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
    """The properties of a machine that the lab needs to plan and execute runs and to read results.

    in_virtual_time  True: an instruction takes a nanosecond. So figures do not depend on the
                     computer's speed, and runs may go on side by side and on other computers
    make             a function that returns the machine for an initramfs and a number of CPUs;
                     None for `host`, which is this computer
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
