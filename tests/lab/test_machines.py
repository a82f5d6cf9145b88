# SPDX-License-Identifier: GPL-2.0-only
"""A machine whose kernel dies in booting."""

import asyncio
from pathlib import Path
from typing import cast

import pytest
from triagelab import guest, machines


class Boots:
    """What becomes of a machine's boots, in turn."""

    def __init__(self, *ends: machines.GuestError | None) -> None:
        self.ends = list(ends)

    async def __call__(self, job: machines.Job, folder: Path) -> machines.Outcome:
        end = self.ends.pop(0)
        if end:
            raise end
        return machines.Outcome(0, folder, 1.0)


def machine(name: str) -> machines.Qemu:
    return machines.Qemu(name, cast(guest.Base, None), 4, (), (), {}, 1, "")


def boot(name: str, boots: Boots, monkeypatch: pytest.MonkeyPatch) -> machines.Outcome:
    async def one(_: machines.Qemu, job: machines.Job, folder: Path) -> machines.Outcome:
        return await boots(job, folder)

    monkeypatch.setattr(machines.Qemu, "_boot", one)
    return asyncio.run(machine(name).run(machines.Job({}), Path("out")))


def test_a_kernel_that_dies_in_booting_in_real_time_is_booted_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    boots = Boots(machines.BootError("int3"), None)
    assert boot("vm", boots, monkeypatch).status == 0
    boots = Boots(machines.BootError("int3"), machines.BootError("again"), None)
    with pytest.raises(machines.BootError, match="again"):
        boot("vm", boots, monkeypatch)
    assert len(boots.ends) == 1


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("sim", machines.BootError("it would die again")),
        ("vm", machines.FullError("no space")),
        ("vm", machines.GuestError("the job had begun")),
    ],
)
def test_nothing_else_is_tried_twice(
    name: str, error: machines.GuestError, monkeypatch: pytest.MonkeyPatch
) -> None:
    boots = Boots(error, None)
    with pytest.raises(type(error), match=str(error)):
        boot(name, boots, monkeypatch)
    assert len(boots.ends) == 1
