# SPDX-License-Identifier: GPL-2.0-only
"""Runs the properties in this folder (NN-name.sh) in guests: each with each scheduler.

All that are selected run first, side by side, a boot each; then each test reads its own result.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from triagelab import guest, kernels, machines, modules
from triagelab.errors import LabError

HERE = Path(__file__).parent
SCRIPTS = sorted(HERE.glob("[0-9][0-9]-*.sh"))
SKIPPED = 77


@dataclass(frozen=True)
class Case:
    """One property, for one scheduler, on one machine and kernel."""

    script: Path
    scheduler: str
    machine: str
    cpus: int
    series: str

    def __str__(self) -> str:
        return f"{self.scheduler}-{self.script.stem}-{self.machine}{self.cpus}-{self.series}"


def cases() -> Iterator[Case]:
    """Our schedulers on both kernels; the kernel's own on the default one show what is general."""
    ours = modules.own_schedulers()
    for script in SCRIPTS:
        for name, cpus in re.findall(r"^# Machine: (sim|vm) ?(\d*)", script.read_text(), re.M):
            for scheduler in (*ours, *modules.KERNELS_OWN):
                yield Case(script, scheduler, name, int(cpus or 1), kernels.DEFAULT_SERIES)
            if name == "sim":
                for scheduler in ours:
                    yield Case(script, scheduler, name, int(cpus or 1), "6.1")


async def run(case: Case, base: guest.Base, machine: machines.Machine, folder: Path) -> str | int:
    """The script's exit status, or what happened to the guest."""
    files: dict[str, Path | str] = {
        "run": f"#!/bin/sh\nSCHEDULER={case.scheduler} sh /job/{case.script.name} > out/log 2>&1\n",
        case.script.name: case.script,
        "lib.sh": HERE / "lib.sh",
        "tools/submit": guest.compile_static(HERE / "tools/submit.c"),
    }
    ours = tuple(sorted(modules.build(base.kernel).glob("*.ko")))
    job = machines.Job(files, ours, time_limit_s=300.0)
    try:
        return (await machines.boot(machine, base, job, folder)).status
    except LabError as error:
        return str(error)


@pytest.fixture(scope="session")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[Case, tuple[str | int, str]]:
    """Status and output of every selected case."""
    selected = [
        cast(Case, item.callspec.params["case"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_property"
    ]
    bases = {series: guest.base(kernels.find(series)) for series in {c.series for c in selected}}
    places = {"sim": machines.cores(), "vm": 1}
    ready = {
        case: machines.make(case.machine, bases[case.series].kernel, case.cpus) for case in selected
    }

    async def everything() -> dict[Case, tuple[str | int, str]]:
        found = {}
        for name, at_once in places.items():
            place = asyncio.Semaphore(at_once)

            async def one(case: Case, place: asyncio.Semaphore = place) -> None:
                async with place:
                    folder = tmp_path_factory.mktemp("guest")
                    status = await run(case, bases[case.series], ready[case], folder)
                    log = folder / "out/log"
                    found[case] = (status, log.read_text() if log.exists() else "")

            await asyncio.gather(*(one(case) for case in selected if case.machine == name))
        return found

    return asyncio.run(everything())


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_property(case: Case, results: dict[Case, tuple[str | int, str]]) -> None:
    status, log = results[case]
    if status == SKIPPED:
        pytest.skip(log.strip().splitlines()[-1].removeprefix("SKIP: "))
    assert status == 0, f"{log}\n{status if isinstance(status, str) else ''}"
