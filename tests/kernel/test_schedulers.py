# SPDX-License-Identifier: GPL-2.0-only
"""Run this folder's checks (NN-name.sh) in guests, with our schedulers and two of the kernel's.

tests/due.py may leave out checks of schedulers other than triage, and of other series of kernels.
All selected checks run first, in guests side by side. Then each test reads the result of its own
check.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from triagelab.base import sources
from triagelab.check import verify
from triagelab.provision import kernels, modules

from tests import due
from tests.kernel import clock


@dataclass(frozen=True)
class Case:
    """One check of one scheduler, on one machine and one series of kernels."""

    check: verify.Check
    scheduler: str
    place: verify.Place
    series: str

    def __str__(self) -> str:
        return f"{self.scheduler}-{self.check.name}-{self.place}-{self.series}"


#: The number of the first check of faults and of changes under load. On sim, the kernel's own
#: schedulers run only the checks before this one. `./triage verify` runs every check on any
#: scheduler; these tests run a selection that takes minutes.
FAULTS = "15"
#: Checks that our schedulers run in real time, on several CPUs and the default series.
IN_REAL_TIME = ("08", "14", "17", "21", "30", "32", "37", "38", "44")
#: Checks that also run on other kernel series, on sim. They cover interfaces that differ between
#: series: how a request enters a scheduler, and how it comes back from the device.
OTHER_SERIES = ("01", "02", "04", "07", "08", "10", "15", "18", "20", "25", "27")
#: Checks that also run on other series, in real time.
OTHER_SERIES_IN_REAL_TIME = ("47",)
#: Checks on the debug kernel, and the schedulers that run them. The first pair is for real time,
#: the pair _ON_SIM for sim.
UNDER_DEBUG = ("08", "20")
DEBUGGED = ("prio-adaptive", "triage")
UNDER_DEBUG_ON_SIM = ("04",)
DEBUGGED_ON_SIM = ("triage",)
#: The kernel's own schedulers that run checks here, which shows that the checks are general.
#: `./triage verify` takes any scheduler.
OTHERS = ("none", "mq-deadline")
#: Our schedulers of a few hundred lines, which change seldom.
SMALL = ("prio-basic", "prio-adaptive")
#: The longest checks, which only triage runs here. Most are of accounts and budgets, which the
#: other schedulers do not have.
BY_TRIAGE = ("36", "40", "48", "49", "50", "51", "52", "53", "54", "55", "56")
#: The most checks that one guest runs on sim. If one guest ran all of a scheduler's checks, the
#: longest guest would run alone at the end, and leave the other cores idle.
CHECKS_PER_GUEST = 6
#: Checks that do not run on sim here.
NOT_ON_SIM = ("16", "17", "19", "21", "22")


def cases() -> Iterator[Case]:
    """Yield each check with each scheduler, machine and kernel that it runs on here."""
    default, ours = kernels.DEFAULT_SERIES, sources.own_schedulers()
    for check in verify.checks():
        number = check.name[:2]
        for place in check.places:
            wanted: list[tuple[str, Iterable[str]]] = []
            if place.machine == "sim" and number not in NOT_ON_SIM:
                several = (*ours, *(OTHERS if number < FAULTS else ()))
                wanted.append((default, ("triage",) if number in BY_TRIAGE else several))
                if number in OTHER_SERIES:
                    wanted += [(series, ours) for series in kernels.SERIES if series != default]
            if place.machine == "vm" and number in IN_REAL_TIME:
                wanted.append((default, ours))
            if place.machine == "vm" and number in OTHER_SERIES_IN_REAL_TIME:
                wanted += [(series, ours) for series in kernels.SERIES if series != default]
            if place.machine == "vm" and number in UNDER_DEBUG:
                wanted.append((default + kernels.DEBUG, DEBUGGED))
            if place.machine == "sim" and number in UNDER_DEBUG_ON_SIM:
                wanted.append((default + kernels.DEBUG, DEBUGGED_ON_SIM))
            for series, schedulers in wanted:
                for scheduler in schedulers:
                    yield Case(check, scheduler, place, series)


@pytest.fixture(scope="session")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[Case, verify.Result]:
    """Run every selected case; return the results."""
    selected: dict[tuple[str, verify.Place, str], list[Case]] = defaultdict(list)
    nodes: dict[Case, str] = {}
    for item in request.session.items:
        if (
            isinstance(item, pytest.Function)
            and item.obj is test_check
            and not due.is_left_out(item)
        ):
            case = cast(Case, item.callspec.params["case"])
            selected[case.scheduler, case.place, case.series].append(case)
            nodes[case] = item.nodeid
    found: dict[Case, verify.Result] = {}
    # Cases on a debug kernel come last, because conftest.py builds it meanwhile.
    for debug in (False, True):
        those = [key for key in selected if kernels.looks_for_bugs(key[2]) == debug]
        guests: list[tuple[list[Case], verify.Guest]] = []
        for key in those:
            scheduler, place, series = key
            kernel = kernels.find(series)
            files = tuple(sorted(modules.build(kernel).glob("*.ko")))
            size = CHECKS_PER_GUEST if place.machine == "sim" else len(selected[key])
            for begin in range(0, len(selected[key]), size):
                part = selected[key][begin : begin + size]
                checks = [case.check for case in part]
                folder = tmp_path_factory.mktemp("guest")
                guest = verify.Guest(kernel, scheduler, files, place, checks, folder)
                guests.append((part, guest))
        # Start the longest guests first, so that no guest runs alone at the end.
        guests.sort(key=lambda each: -sum(case.check.name[:2] in BY_TRIAGE for case in each[0]))
        tests = {nodes[case]: (guest, case.check.name) for part, guest in guests for case in part}
        clock.run(request, tests)
        for part, guest in guests:
            found |= zip(part, guest.results, strict=True)
    return found


def is_of_many(case: Case) -> bool:
    """Return whether a case differs little from one of triage on the default series."""
    others = set(kernels.SERIES) - {kernels.DEFAULT_SERIES}
    return case.scheduler != "triage" or case.series in others


def own_files(case: Case) -> list[Path]:
    """Return the check's script and, if the scheduler is a small one, the sources of its module."""
    if case.scheduler not in SMALL:
        return [case.check.script]
    names = ("Makefile", "Kbuild", case.scheduler, "include", "compat")
    return [case.check.script, *(path for name in names for path in files(name))]


def files(name: str) -> list[Path]:
    """Return the files in a folder of kernel/, or the file if `name` is one."""
    path = sources.MODULES / name
    return list(path.iterdir()) if path.is_dir() else [path]


ALL = list(cases())


@pytest.mark.parametrize(
    "case",
    [
        *(case for case in ALL if not is_of_many(case)),
        *due.selected([case for case in ALL if is_of_many(case)], own_files),
    ],
    ids=str,
)
def test_check(case: Case, results: dict[Case, verify.Result]) -> None:
    result = results[case]
    if result.state == "skip":
        pytest.skip(result.reason)
    assert result.state == "pass", result.log


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).parent.glob("[0-9]*.sh")), ids=lambda p: p.stem
)
def test_no_job_forgets_its_pauses(path: Path) -> None:
    """Each job that pauses starts without a ramp (fiofile.py says why)."""
    text = path.read_text()
    ramped = re.search(r"ramp_time=[^0]", text)
    for pause in re.finditer(r"thinktime=", text):
        near = text[max(0, pause.start() - 200) : pause.end() + 200]
        assert not ramped or "ramp_time=0" in near, f"{path.name}: {near}"
