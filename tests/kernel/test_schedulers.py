# SPDX-License-Identifier: GPL-2.0-only
"""Runs the checks in this folder (NN-name.sh) in guests: each with each scheduler.

All that are selected run first, a guest for each scheduler and place, guests side by side; then
each test reads its own result.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest
from triagelab import kernels, modules, verify


@dataclass(frozen=True)
class Case:
    """One check, for one scheduler, somewhere."""

    check: verify.Check
    scheduler: str
    place: verify.Place
    series: str

    def __str__(self) -> str:
        return f"{self.scheduler}-{self.check.name}-{self.place}-{self.series}"


def cases() -> Iterator[Case]:
    """Our schedulers on both kernels; the kernel's own on the default one show what is general."""
    for check in verify.checks():
        for place in check.places:
            for series in kernels.SERIES if place.machine == "sim" else [kernels.DEFAULT_SERIES]:
                others = modules.KERNELS_OWN if series == kernels.DEFAULT_SERIES else ()
                for scheduler in (*modules.own_schedulers(), *others):
                    yield Case(check, scheduler, place, series)


@pytest.fixture(scope="session")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[Case, verify.Result]:
    """What became of every selected case."""
    selected: dict[tuple[str, verify.Place, str], list[Case]] = defaultdict(list)
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.obj is test_check:
            case = cast(Case, item.callspec.params["case"])
            selected[case.scheduler, case.place, case.series].append(case)
    guests = []
    for (scheduler, place, series), wanted in selected.items():
        kernel = kernels.find(series)
        files = tuple(sorted(modules.build(kernel).glob("*.ko")))
        checks = [case.check for case in wanted]
        folder = tmp_path_factory.mktemp("guest")
        guests.append(verify.Guest(kernel, scheduler, files, place, checks, folder))
    verify.run(guests)
    return {
        case: result
        for cases, guest in zip(selected.values(), guests, strict=True)
        for case, result in zip(cases, guest.results, strict=True)
    }


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_check(case: Case, results: dict[Case, verify.Result]) -> None:
    result = results[case]
    if result.state == "skip":
        pytest.skip(result.reason)
    assert result.state == "pass", result.log
