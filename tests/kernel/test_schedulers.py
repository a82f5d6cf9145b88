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


#: Checks of faults and changes under load: `./triage verify` runs them everywhere, these tests
#: a selection that takes minutes.
FAULTS = "15"
#: On 6.12 each once: those that are about several CPUs or take long on `sim` there.
IN_REAL_TIME = ("16", "17", "19", "21", "22")
#: On other series, where our schedulers use other interfaces: the way back from a device.
OTHER_SERIES = ("18", "20", "25")
#: On the debug kernel, in real time.
UNDER_DEBUG = ("08", "20")
#: The kernel's own that show what is general; `./triage verify` takes every one.
OTHERS = ("none", "mq-deadline")


def series_of(check: verify.Check, place: verify.Place) -> Iterator[str]:
    """The kernels on which our schedulers go through a check in a place."""
    number = check.name[:2]
    in_real_time = place.machine == "vm"
    if number < FAULTS:
        yield from [kernels.DEFAULT_SERIES] if in_real_time else kernels.SERIES
    elif in_real_time == (number in IN_REAL_TIME):
        yield kernels.DEFAULT_SERIES
    if number in OTHER_SERIES and not in_real_time:
        yield from (series for series in kernels.SERIES if series != kernels.DEFAULT_SERIES)
    if number in UNDER_DEBUG and in_real_time:
        yield kernels.DEFAULT_SERIES + kernels.DEBUG


def cases() -> Iterator[Case]:
    """Our schedulers on all kernels; the kernel's own on the default one show what is general."""
    for check in verify.checks():
        for place in check.places:
            for series in series_of(check, place):
                exact = series == kernels.DEFAULT_SERIES and place.machine == "sim"
                others = OTHERS if exact and check.name < FAULTS else ()
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
