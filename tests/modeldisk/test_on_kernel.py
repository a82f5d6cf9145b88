# SPDX-License-Identifier: GPL-2.0-only
"""Run this folder's checks (NN-name.sh) in guests, and check modeldisk's figures in guests.

On `sim`, guests run side by side: checks with each kernel, figures with the default one.
tests/due.py may leave out checks with other kernels. On `vm`, guests run one at a time, with the
default kernel, and only for checks that ask for `vm`.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from triagelab.check import verify
from triagelab.plan.machine import Job, Outcome
from triagelab.provision import kernels, modules
from triagelab.run import machines

from tests import due

HERE = Path(__file__).parent
#: Seconds a guest may take.
LIMIT_S = 1800.0


@dataclass(frozen=True)
class Case:
    """One check, on one machine and one series of kernels."""

    check: verify.Check
    place: verify.Place
    series: str

    def __str__(self) -> str:
        return f"{self.check.name}-{self.place}-{self.series}"


def cases() -> Iterator[Case]:
    for check in verify.checks(HERE):
        for place in check.places:
            for series in kernels.SERIES if place.machine == "sim" else [kernels.DEFAULT_SERIES]:
                if kernels.version(series) >= kernels.version(place.since):
                    yield Case(check, place, series)


@dataclass(frozen=True)
class Guest:
    """A guest to run: the files of its job, its machine, and the folder for its output."""

    files: dict[str, Path | str]
    place: verify.Place
    series: str
    folder: Path


def run(guests: Iterable[Guest]) -> list[Outcome]:
    """Run the guests, as many side by side as their machine allows; return the results."""
    prepared: list[tuple[Guest, machines.Qemu, Job]] = []
    for guest in guests:
        kernel = kernels.find(guest.series)
        built = (modules.build(kernel) / "modeldisk.ko",)
        place = guest.place
        machine = machines.make(place.machine, kernel, place.cpus, boots_once=True)
        prepared.append((guest, machine, Job(guest.files, built, time_limit_s=LIMIT_S)))

    async def all_of_them() -> list[Outcome]:
        free = asyncio.Semaphore(min((machine.at_once for _, machine, _ in prepared), default=1))

        async def one(guest: Guest, machine: machines.Qemu, job: Job) -> Outcome:
            async with free:
                return await machine.run(job, guest.folder)

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(*each)) for each in prepared]
        return [task.result() for task in running]

    return asyncio.run(all_of_them())


@pytest.fixture(scope="session")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[Case, tuple[Outcome, Path]]:
    """Run every selected case; return each result, and the folder with its log."""
    selected: dict[Case, Guest] = {}
    for item in request.session.items:
        if (
            isinstance(item, pytest.Function)
            and item.obj is test_property
            and not due.is_left_out(item)
        ):
            case = cast(Case, item.callspec.params["case"])
            files: dict[str, Path | str] = {
                "run": f"#!/bin/sh\nsh /job/{case.check.script.name} > out/log 2>&1\n",
                case.check.script.name: case.check.script,
                "lib.sh": HERE / "lib.sh",
            }
            folder = tmp_path_factory.mktemp("guest")
            selected[case] = Guest(files, case.place, case.series, folder)
    ended: list[tuple[Case, Outcome]] = []
    for machine in ("sim", "vm"):
        guests = {c: g for c, g in selected.items() if g.place.machine == machine}
        ended += zip(guests, run(guests.values()), strict=True)
    return {case: (outcome, selected[case].folder) for case, outcome in ended}


ALL = list(cases())
DEFAULT = [case for case in ALL if case.series == kernels.DEFAULT_SERIES]
OTHERS = [case for case in ALL if case.series != kernels.DEFAULT_SERIES]


@pytest.mark.parametrize(
    "case",
    [*DEFAULT, *due.selected(OTHERS, lambda case: [case.check.script])],
    ids=str,
)
def test_property(case: Case, outcomes: dict[Case, tuple[Outcome, Path]]) -> None:
    outcome, folder = outcomes[case]
    assert outcome.status == 0, (folder / "out/log").read_text()


FIGURES = """#!/bin/sh
. /job/lib.sh
# load NAME DEVICE TIME OPTION...
load() {
	name=$1 disk=$2 time=$3
	shift 3
	fio --filename=/dev/$disk --direct=1 --ioengine=io_uring --time_based --runtime=$time \\
		--norandommap --group_reporting --lat_percentiles=1 --clat_percentiles=0 \\
		--output-format=json --output=out/$name.json --name=load "$@"
}
sleep 3 # the kernel's own work after a boot must not count
# Half a second of reads is enough on flash, but not of writes: they fill its buffer first.
for profile in flash fast-flash hdd; do
	device $profile $profile
	echo none > /sys/block/$profile/queue/scheduler
	case $profile in hdd) reads=2s ;; *) reads=500ms ;; esac
	load $profile-alone $profile $reads --rw=randread --bs=4k
	if [ $profile != fast-flash ]; then # it has so many requests that simulating them takes long
		load $profile-reads $profile $reads --rw=randread --bs=64k --iodepth=32 --numjobs=2
		load $profile-writes $profile 2s --rw=write --bs=64k --iodepth=32
	fi
	cat $STATS/$profile/stats > out/$profile.stats
done
"""


@dataclass(frozen=True)
class Figures:
    """fio's results from a guest. A call returns those of one load and direction."""

    folder: Path

    def __call__(self, load: str, direction: str = "read") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"{load}.json").read_text())
        assert found["jobs"][0]["error"] == 0
        side: dict[str, Any] = found["jobs"][0][direction]
        return side

    def files(self) -> dict[str, str]:
        """Return the content of each file of results, by its name."""
        found = sorted([*self.folder.glob("*-*.json"), *self.folder.glob("*.stats")])
        return {path.name: path.read_text() for path in found}


@pytest.fixture(scope="session")
def measured_twice(tmp_path_factory: pytest.TempPathFactory) -> list[Figures]:
    files: dict[str, Path | str] = {"run": FIGURES, "lib.sh": HERE / "lib.sh"}
    folders = [tmp_path_factory.mktemp("figures") for _ in range(2)]
    place, series = verify.Place("sim", 1), kernels.DEFAULT_SERIES
    outcomes = run([Guest(files, place, series, folder) for folder in folders])
    for outcome, folder in zip(outcomes, folders, strict=True):
        assert outcome.status == 0, (folder / "console.log").read_text()[-4000:]
    return [Figures(folder / "out") for folder in folders]


@pytest.fixture(scope="session")
def figures(measured_twice: list[Figures]) -> Figures:
    return measured_twice[0]


def test_flash_alone_answers_within_91_us(figures: Figures) -> None:
    # The device reads the slowest kind of pages in 77 µs, and the software takes 14 µs.
    alone = figures("flash-alone")["lat_ns"]["percentile"]["99.000000"]
    assert alone == pytest.approx(91_000, rel=0.03)


def test_flash_with_64_kib_requests_is_bound_by_the_device_not_the_cpu(figures: Figures) -> None:
    assert figures("flash-reads")["bw_bytes"] == pytest.approx(419e6, rel=0.03)
    # The dies set the rate: each of the 10 dies programs 32 KiB in 688 µs. The write buffer takes
    # another 16 MiB at once in these 2 s.
    programmed = 10 * 32768 / 688e-6 + (16 << 20) / 2
    assert figures("flash-writes", "write")["bw_bytes"] == pytest.approx(programmed, rel=0.03)


def test_fast_flash_answers_in_about_ten_us_and_the_softwares_share(figures: Figures) -> None:
    fast, slow = (figures(f"{name}-alone")["lat_ns"]["mean"] for name in ("fast-flash", "flash"))
    # A read alone takes the sum of its terms. The software takes the same time on both devices.
    assert slow - fast == pytest.approx(69_042 - 9_639, rel=0.03)


def test_disk_random_and_sequential(figures: Figures) -> None:
    # Mean seek, half a turn and overhead. There are only some 150 samples, so allow 10 %.
    alone = figures("hdd-alone")["lat_ns"]["mean"]
    assert alone == pytest.approx(9.4e6 + 60e9 / 7200 / 2 + 0.3e6, rel=0.1)
    # The zone's rate, and the 16 MiB that the write cache takes at once in these 2 s.
    assert figures("hdd-writes", "write")["bw_bytes"] == pytest.approx(
        110e6 + (16 << 20) / 2, rel=0.03
    )


def test_measuring_again_gives_the_same_to_the_last_digit(measured_twice: list[Figures]) -> None:
    once, again = measured_twice
    assert once.files() == again.files()
