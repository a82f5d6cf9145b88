# SPDX-License-Identifier: GPL-2.0-only
"""Runs the properties in this folder (NN-name.sh) in guests: each with each scheduler.

All that are selected run first, side by side, a boot each; then each test reads its own result.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from triagelab import guest, kernels, machines, modules, programs
from triagelab.errors import LabError

from tests.in_guest import Place, places, scripts

HERE = Path(__file__).parent
SKIPPED = 77


@dataclass(frozen=True)
class Case:
    """One property, for one scheduler, somewhere."""

    script: Path
    scheduler: str
    place: Place

    def __str__(self) -> str:
        return f"{self.scheduler}-{self.script.stem}-{self.place}"


def cases() -> Iterator[Case]:
    """Our schedulers on both kernels; the kernel's own on the default one show what is general."""
    for script in scripts(HERE):
        for place in places(script):
            default = place.series == kernels.DEFAULT_SERIES
            others = modules.KERNELS_OWN if default else ()
            for scheduler in (*modules.own_schedulers(), *others):
                yield Case(script, scheduler, place)


async def run(case: Case, base: guest.Base, machine: machines.Machine, folder: Path) -> str | int:
    """The script's exit status, or what happened to the guest."""
    files: dict[str, Path | str] = {
        "run": f"#!/bin/sh\nSCHEDULER={case.scheduler} sh /job/{case.script.name} > out/log 2>&1\n",
        case.script.name: case.script,
        "lib.sh": HERE / "lib.sh",
        "tools/submit": programs.static(HERE / "tools/submit.c"),
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
    bases = {
        series: guest.base(kernels.find(series))
        for series in {case.place.series for case in selected}
    }
    at_once = {"sim": machines.cores(), "vm": 1}
    ready = {
        case: machines.make(case.place.machine, bases[case.place.series].kernel, case.place.cpus)
        for case in selected
    }

    async def everything() -> dict[Case, tuple[str | int, str]]:
        found = {}
        for name, limit in at_once.items():
            place = asyncio.Semaphore(limit)

            async def one(case: Case, place: asyncio.Semaphore = place) -> None:
                async with place:
                    folder = tmp_path_factory.mktemp("guest")
                    status = await run(case, bases[case.place.series], ready[case], folder)
                    log = folder / "out/log"
                    found[case] = (status, log.read_text() if log.exists() else "")

            await asyncio.gather(*(one(case) for case in selected if case.place.machine == name))
        return found

    return asyncio.run(everything())


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_property(case: Case, results: dict[Case, tuple[str | int, str]]) -> None:
    status, log = results[case]
    if status == SKIPPED:
        pytest.skip(log.strip().splitlines()[-1].removeprefix("SKIP: "))
    assert status == 0, f"{log}\n{status if isinstance(status, str) else ''}"
