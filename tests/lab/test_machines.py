# SPDX-License-Identifier: GPL-2.0-only
"""Tests of machines: a kernel that dies while it boots, the probe for KVM, and a CPU limit."""

import asyncio
import dataclasses
import errno
import os
from pathlib import Path
from typing import cast

import pytest
from triagelab.plan.machine import BootError, FullError, GuestError, Job, Outcome
from triagelab.provision import guest, kernels
from triagelab.run import machines


class Boots:
    """A stand-in for a machine's boot. Each call raises the next of `ends`; None means success."""

    def __init__(self, *ends: GuestError | None) -> None:
        self.ends = list(ends)

    async def __call__(self, job: Job, folder: Path) -> Outcome:
        end = self.ends.pop(0)
        if end:
            raise end
        return Outcome(0, folder, 1.0)


#: QEMU's options. They tell the lab whether a machine runs in real time, and whether it uses KVM.
OPTIONS = {
    "sim": ("-accel", "tcg,thread=single", "-icount", "shift=0"),
    "vm": ("-accel", "tcg,thread=multi"),
    "vm with KVM": ("-accel", "kvm"),
}


def machine(name: str) -> machines.Qemu:
    return machines.Qemu(name, cast(guest.Base, None), 4, OPTIONS[name], (), {}, 1, "")


def befall(boots: Boots, monkeypatch: pytest.MonkeyPatch) -> None:
    async def one(_: machines.Qemu, job: Job, folder: Path) -> Outcome:
        return await boots(job, folder)

    monkeypatch.setattr(machines.Qemu, "_boot", one)


def boot(name: str, boots: Boots, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    befall(boots, monkeypatch)
    return asyncio.run(machine(name).run(Job({}), Path("out")))


def test_a_kernel_that_dies_in_booting_in_real_time_is_booted_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boots = Boots(BootError("int3"), None)
    assert boot("vm", boots, monkeypatch).status == 0
    boots = Boots(BootError("int3"), BootError("again"), None)
    with pytest.raises(BootError, match="again"):
        boot("vm", boots, monkeypatch)
    assert len(boots.ends) == 1


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("sim", BootError("it would die again")),
        ("vm with KVM", BootError("no other CPU runs code that is being patched")),
        ("vm", FullError("no space")),
        ("vm", GuestError("the job had begun")),
    ],
)
def test_nothing_else_is_tried_twice(
    name: str, error: GuestError, monkeypatch: pytest.MonkeyPatch
) -> None:
    boots = Boots(error, None)
    with pytest.raises(type(error), match=str(error)):
        boot(name, boots, monkeypatch)
    assert len(boots.ends) == 1


# ---- the probe for KVM ------------------------------------------------------------


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> guest.Base:
    """Return a guest to boot. The lab's cache is empty, and /dev/kvm seems to be accessible."""
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    image = tmp_path / "vmlinuz"
    image.write_bytes(b"no kernel")
    (tmp_path / "base.cpio").touch()
    return guest.Base(kernels.Kernel("6.12", image, tmp_path, None), tmp_path)


def probed(base: guest.Base, boots: Boots, monkeypatch: pytest.MonkeyPatch) -> bool:
    befall(boots, monkeypatch)
    return "kvm" in machines._vm(base, 2).qemu


@pytest.mark.parametrize("dies", [False, True])
def test_what_kvm_did_is_remembered(
    base: guest.Base, dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    boots = Boots(BootError("dead") if dies else None)
    assert probed(base, boots, monkeypatch) == (not dies)
    assert probed(base, boots, monkeypatch) == (not dies)


def test_a_full_disk_says_nothing_of_kvm(base: guest.Base, monkeypatch: pytest.MonkeyPatch) -> None:
    boots = Boots(FullError("no space"), None)
    with pytest.raises(FullError):
        probed(base, boots, monkeypatch)
    assert probed(base, boots, monkeypatch)


def test_a_verdict_that_could_not_be_written_is_sought_again(
    base: guest.Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, text: str) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "no space")

    boots = Boots(None, None)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
        patch.setattr(Path, "write_text", write)
        probed(base, boots, patch)
    assert probed(base, boots, monkeypatch)


@pytest.mark.parametrize(("kvm", "asked"), [(False, False), (False, True), (True, True)])
def test_vm_boots_once_where_that_is_asked_for_and_there_is_no_kvm(
    base: guest.Base, kvm: bool, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `boots_once`, runs on `vm` without KVM all start from the saved state of one boot."""
    befall(Boots(None if kvm else BootError("dead")), monkeypatch)
    monkeypatch.setattr(guest, "base", lambda _: base)
    machine = machines.make("vm", base.kernel, 2, boots_once=asked)
    held = ("hold=1" in machine.arguments, "pvpanic" in machine.qemu)
    assert (machine.boots_once, *held) == (asked and not kvm,) * 3


@pytest.mark.parametrize(("cpu_s", "limited"), [(None, []), (10, ["--cpu=10"])])
def test_a_machine_may_have_a_limit_of_the_processors_time(
    cpu_s: int | None, limited: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cpu_s` limits QEMU's CPU time; None sets no limit.

    The probe for KVM has such a limit. On a busy computer, a short limit in real time would end the
    probe too soon.
    """
    seen: list[str] = []

    async def run(command: list[str], *_: object) -> tuple[float | None, str]:
        seen.extend(command)
        return None, ""

    monkeypatch.setattr(machines, "_command", lambda *_: ["qemu"])
    monkeypatch.setattr(machines, "_run", run)
    monkeypatch.setattr(machines, "_unpack", lambda *_: 0)
    monkeypatch.setattr(guest, "pack_job", lambda *_: None)
    limiting = dataclasses.replace(machine("vm"), cpu_s=cpu_s)
    assert asyncio.run(limiting.run(Job({}), tmp_path)).status == 0
    assert [word for word in seen if word.startswith("--cpu")] == limited
    assert seen[-1] == "qemu"
