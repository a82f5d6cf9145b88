# SPDX-License-Identifier: GPL-2.0-only
"""Runs the properties in this folder (NN-name.sh) in guests: each with each scheduler.

All that are selected run first, a guest for each scheduler and place, guests side by side; then
each test reads its own result.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterator
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


@dataclass(frozen=True)
class Result:
    """A script's exit status and output; no status if the guest ended before it did."""

    status: int | None
    log: str


def boot(scheduler: str, place: Place, cases: list[Case], folder: Path) -> Awaitable[list[Result]]:
    """Run the scripts of `cases` one after another in one guest, to the first that fails.

    A test that passed or skipped leaves the guest as it was (README.md).
    """
    kernel = kernels.find(place.series)
    names = [case.script.name for case in cases]
    files: dict[str, Path | str] = {
        "run": f"""#!/bin/sh
            export SCHEDULER={scheduler}
            for script in {" ".join(names)}; do
                echo "running $script"
                sh /job/$script > out/$script.log 2>&1
                status=$?
                echo $status > out/$script.status
                [ $status = 0 ] || [ $status = {SKIPPED} ] || exit 1
            done
            """,
        "lib.sh": HERE / "lib.sh",
        "tools/submit": programs.static(HERE / "tools/submit.c"),
    }
    files |= {case.script.name: case.script for case in cases}
    ours = tuple(sorted(modules.build(kernel).glob("*.ko")))
    job = machines.Job(files, ours, time_limit_s=600.0)
    machine, base = machines.make(place.machine, kernel, place.cpus), guest.base(kernel)

    async def results() -> list[Result]:
        try:
            await machines.boot(machine, base, job, folder)
        except LabError as error:
            return [Result(None, str(error))] * len(names)
        return [_result(folder / "out" / name) for name in names]

    return results()


def _result(stem: Path) -> Result:
    status = stem.with_suffix(".sh.status")
    if not status.exists():
        return Result(None, "a test before it in the same guest failed")
    return Result(int(status.read_text()), stem.with_suffix(".sh.log").read_text())


@pytest.fixture(scope="session")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[Case, Result]:
    """What became of every selected case."""
    guests: dict[tuple[str, Place], list[Case]] = defaultdict(list)
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.obj is test_property:
            case = cast(Case, item.callspec.params["case"])
            guests[case.scheduler, case.place].append(case)
    ready = {
        (scheduler, place): boot(scheduler, place, cases, tmp_path_factory.mktemp("guest"))
        for (scheduler, place), cases in guests.items()
    }

    async def everything() -> dict[Case, Result]:
        found: dict[Case, Result] = {}

        async def one(key: tuple[str, Place], free: asyncio.Semaphore) -> None:
            async with free:
                found.update(zip(guests[key], await ready[key], strict=True))

        # In real time one at a time, and nothing beside it.
        for machine, at_once in {"sim": machines.cores(), "vm": 1}.items():
            free = asyncio.Semaphore(at_once)
            await asyncio.gather(*(one(key, free) for key in guests if key[1].machine == machine))
        return found

    return asyncio.run(everything())


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_property(case: Case, results: dict[Case, Result]) -> None:
    result = results[case]
    if result.status == SKIPPED:
        pytest.skip(result.log.strip().splitlines()[-1].removeprefix("SKIP: "))
    assert result.status == 0, result.log
