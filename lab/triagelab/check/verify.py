# SPDX-License-Identifier: GPL-2.0-only
"""Verify a scheduler: run checks, which are shell scripts, in guests.

The comment at a check's start states the property that it guards, and the machines that it runs on.
A guest runs checks one after another; after a failure, the remaining checks run in a fresh guest.
"""

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from rich.table import Table
from rich.text import Text

from triagelab.base import sources, tools
from triagelab.plan.machine import BootError, GuestError, Job
from triagelab.provision import kernels, programs
from triagelab.provision.kernels import Kernel
from triagelab.run import execute, machines

#: The folder of the checks.
CHECKS = sources.MODULES.parent / "tests/kernel"

_SKIPPED = 77
#: Seconds that one check may take, by the guest's clock.
_CHECK_LIMIT_S = 300
#: Seconds that a guest may take, by the host's clock: the limits of its checks plus the allowance,
#: but never more than _GUEST_LIMIT_S. The lab needs this limit if a bug leaves preemption off for
#: good. Then no program runs that could report the bug, and the kernel's watchdog says nothing,
#: because each message on the console resets it.
_GUEST_LIMIT_S = 1800.0
_GUEST_ALLOWANCE_S = 180.0
#: Seconds that a guest's boot may take, by the host's clock.
_BOOT_LIMIT_S = 600.0
#: A guest's memory. A debug kernel needs much: it keeps records of all memory and its allocations.
_MEMORY_MB = 1024


@dataclass(frozen=True)
class Place:
    """A machine for a check, with its number of CPUs.

    since  the oldest series of kernels that boots there; empty: every series does
    """

    machine: str
    cpus: int
    since: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.machine}{self.cpus}"


@dataclass(frozen=True)
class Check:
    """One check of a scheduler: its script, the property that it guards, and its machines."""

    script: Path
    guards: str
    places: tuple[Place, ...]

    @property
    def name(self) -> str:
        """Return the script's name without its suffix."""
        return self.script.stem


def read(script: Path) -> Check:
    """Read a check from the comment at the start of `script`."""
    comment = re.match(r"#.*\n(?:#.*\n)*", script.read_text())
    assert comment is not None, script
    lines = [line.removeprefix("#").strip() for line in comment[0].splitlines()]
    text = "\n".join(lines)
    guards = re.search(r"^Guards: (.*?)(?:^(?:Needs|Machine):|\Z)", text, re.M | re.S)
    found = re.findall(r"^Machine: (sim|vm) ?(\d*)(?:, since (\S+))?$", text, re.M)
    return Check(
        script,
        " ".join(guards[1].split()) if guards else "",
        tuple(Place(name, int(cpus or 1), since) for name, cpus, since in found),
    )


def checks(folder: Path = CHECKS) -> list[Check]:
    """Return the checks in a folder, in the order of their numbers."""
    return [read(script) for script in sorted(folder.glob("[0-9][0-9]-*.sh"))]


@dataclass(frozen=True)
class Result:
    """The result of a check.

    status   the check's exit status; None if the guest ended during the check
    log      the check's output, or an error message if the guest ended during the check. If the
             guest died in a later check, only the SKIP line, if there is one
    seconds  the check's duration by the guest's clock. If the guest died during the check, the
             guest's duration by the host's clock. If the guest died in a later check, 0
    """

    check: Check
    place: Place
    status: int | None
    log: str
    seconds: float = 0.0

    @property
    def state(self) -> str:
        """Return `pass`, `skip` or `fail`."""
        return {0: "pass", _SKIPPED: "skip"}.get(-1 if self.status is None else self.status, "fail")

    @property
    def reason(self) -> str:
        """Return the reason of a skip, or the last lines of a failure's log; empty for a pass."""
        lines = [line for line in self.log.splitlines() if line.strip()]
        if self.state == "skip":
            return next((line[6:] for line in lines if line.startswith("SKIP: ")), "")
        return "\n".join(lines[-8:]) if self.state == "fail" else ""

    @property
    def measured(self) -> list[str]:
        """Return the figures that the check printed in lines `measured: …`."""
        lead = "measured: "
        return [line.removeprefix(lead) for line in self.log.splitlines() if line.startswith(lead)]

    def record(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {
            "check": self.check.name,
            "guards": self.check.guards,
            "machine": str(self.place),
            "result": self.state,
            "reason": self.reason,
            "measured": self.measured,
            "seconds": round(self.seconds, 1),
        }


@dataclass
class Guest:
    """Checks of one scheduler that run one after another on the machine of one Place.

    folder   the folder for the output; each boot gets a folder inside it
    results  the results so far
    """

    kernel: Kernel
    scheduler: str
    modules: tuple[Path, ...]
    place: Place
    checks: Sequence[Check]
    folder: Path
    results: list[Result] = field(default_factory=list)


#: A function that boots a guest, runs checks in it, and stops at the first failure. The path is the
#: folder for the guest's output.
Boots: TypeAlias = Callable[[list[Check], Path], Awaitable[list[Result]]]


def guests(
    kernel: Kernel, scheduler: str, available: Iterable[Path], chosen: Iterable[Check], folder: Path
) -> list[Guest]:
    """Return guests that run each check at each of its places, as far as the kernel boots there.

    On `sim`, divide the checks of a place among guests, at most one for each core of this computer.
    On `vm`, one guest runs all checks of a place.
    """
    by_place: dict[Place, list[Check]] = defaultdict(list)
    for check in chosen:
        for place in check.places:
            if kernels.version(kernel.release) < kernels.version(place.since):
                continue
            by_place[place].append(check)
    made = []
    for place, wanted in by_place.items():
        parts = (
            min(machines.cores(), len(wanted))
            if machines.kind(place.machine).in_virtual_time
            else 1
        )
        made += [
            Guest(
                kernel,
                scheduler,
                tuple(available),
                place,
                wanted[part::parts],
                folder / f"{place}-{part}",
            )
            for part in range(parts)
        ]
    return made


def run(
    guests: Sequence[Guest], finished: Callable[[Result], None] = lambda result: None
) -> list[Result]:
    """Run the checks of all guests, and call `finished` with each result.

    Return all results. Raise StoppedError if the user stops the run.
    """
    prepared = [(guest, _prepare(guest)) for guest in guests]

    async def everything() -> None:
        for kind in sorted({_kind(guest) for guest, _ in prepared}):
            free = asyncio.Semaphore(max(machines.cores() // kind[1], 1))

            async def one(guest: Guest, boots: Boots, free: asyncio.Semaphore = free) -> None:
                async with free:
                    await _through(guest, boots, finished)

            async with asyncio.TaskGroup() as group:
                for guest, boots in prepared:
                    if _kind(guest) == kind:
                        group.create_task(one(guest, boots))

    execute.interruptible(everything)
    return [result for guest in guests for result in guest.results]


def _kind(guest: Guest) -> tuple[str, int]:
    """Return a guest's machine, and the number of this computer's cores that it occupies.

    In virtual time all CPUs of a guest take turns on one core.
    """
    place = guest.place
    return place.machine, 1 if machines.kind(place.machine).in_virtual_time else place.cpus


async def _through(
    guest: Guest,
    boots: Boots,
    finished: Callable[[Result], None],
) -> None:
    """Run all checks of a guest, and call `finished` with each result.

    `boots` stops at a failure. Then call it again, to boot a fresh guest for the remaining checks.
    """
    left = list(guest.checks)
    while left:
        results = await boots(left, guest.folder / str(len(guest.checks) - len(left)))
        guest.results += results
        for result in results:
            finished(result)
        left = left[len(results) :]


def _prepare(wanted: Guest) -> Boots:
    """Return a function that boots a guest for some checks and stops at the first failure."""
    place = wanted.place
    machine = machines.make(place.machine, wanted.kernel, place.cpus, boots_once=True)
    sources = sorted(CHECKS.glob("tools/*.c"))
    built = {f"tools/{source.stem}": programs.static(source) for source in sources}
    # The guest gets mke2fs of e2fsprogs, because busybox's mke2fs makes no journal.
    tools.require([tools.MKE2FS])
    mke2fs = Path(tools.path(tools.MKE2FS)).resolve()

    async def boots(left: list[Check], folder: Path) -> list[Result]:
        files: dict[str, Path | str] = {
            "run": _script(wanted.scheduler, left),
            "lib.sh": CHECKS / "lib.sh",
            "tools/mke2fs": mke2fs,
        }
        files |= built
        files |= {f"tools/{path.name}": path.resolve() for path in tools.libraries(mke2fs)}
        files |= {check.script.name: check.script for check in left}
        job = Job(
            files,
            wanted.modules,
            memory_mb=_MEMORY_MB,
            time_limit_s=min(_GUEST_LIMIT_S, _GUEST_ALLOWANCE_S + len(left) * _CHECK_LIMIT_S),
            boot_limit_s=_BOOT_LIMIT_S,
        )
        begin = time.monotonic()
        try:
            await machine.run(job, folder)
        except BootError:
            raise
        except GuestError as error:  # other errors are the lab's, not the scheduler's
            return results_of_a_dead_guest(
                wanted.place, left, folder, error, time.monotonic() - begin
            )
        return results_of(wanted.place, left, folder / "out")

    return boots


def _script(scheduler: str, wanted: Iterable[Check]) -> str:
    """Return the script that runs the checks in a guest.

    The script reports each check on the console too: this output survives if the guest dies.
    """
    return f"""#!/bin/sh
        export SCHEDULER={scheduler}
        # Panic if a CPU spins forever: no program could report that.
        echo 1 > /proc/sys/kernel/softlockup_panic
        for script in {" ".join(check.script.name for check in wanted)}; do
            echo "check $script begins"
            begun=$(cut -d ' ' -f 1 /proc/uptime)
            timeout -s KILL {_CHECK_LIMIT_S} sh /job/$script > out/$script.log 2>&1
            status=$?
            echo "$status $begun $(cut -d ' ' -f 1 /proc/uptime)" > out/$script.status
            echo "check $script ended $status: $(grep -E '^SKIP' out/$script.log)"
            [ $status = 0 ] || [ $status = {_SKIPPED} ] || exit 1
        done
        """


def results_of(place: Place, wanted: Sequence[Check], out: Path) -> list[Result]:
    """Return the results of the checks that ended in a guest; if none ended, fail the first one."""
    found = []
    for check in wanted:
        record = out / f"{check.script.name}.status"
        words = record.read_text().split() if record.exists() else []
        if len(words) != 3:  # a guest without free memory leaves the file empty
            break
        status, begun, ended = words
        log = (out / f"{check.script.name}.log").read_text(errors="replace")
        if int(status) == 128 + 9:
            log += f"\nFAIL: not over after {_CHECK_LIMIT_S} s\n"
        found.append(Result(check, place, int(status), log, float(ended) - float(begun)))
    if not found:  # name a failed check: otherwise the same check would run again, without end
        said = (
            f"the guest left no word of how it ended; its console's log is {out.parent}/console.log"
        )
        found.append(Result(wanted[0], place, None, said))
    return found


def results_of_a_dead_guest(
    place: Place, wanted: Sequence[Check], folder: Path, error: GuestError, seconds: float
) -> list[Result]:
    """Return the results of the checks that ended before the guest died, and fail the next check.

    The console log has the results of the checks that ended. `seconds` is the time that the guest
    ran.
    """
    said = (folder / "console.log").read_text(errors="replace")
    ended = dict(re.findall(r"^check (\S+) ended (.*?)\r?$", said, re.M))
    found: list[Result] = []
    for check in wanted:
        status, _, reason = ended.get(check.script.name, "").partition(": ")
        # The guest runs no check after a failed one. So the first check that did not pass or skip
        # is the last one that began: it gets the guest's death as its failure. If all checks passed
        # or skipped, the last check gets it.
        if status not in ("0", str(_SKIPPED)) or check is wanted[-1]:
            found.append(Result(check, place, None, str(error), seconds))
            break
        found.append(Result(check, place, int(status), reason))
    return found


_COLOURS = {"pass": "green", "skip": "yellow", "fail": "red"}


def table(record: Mapping[str, Any]) -> Table:
    """Return a table for the terminal from the content of verify.json."""
    made = Table("check", "guards", "machine", "result", "s", box=None, pad_edge=False)
    made.columns[-1].justify = "right"
    for check in record["checks"]:
        state = check["result"]
        said = [f"skip: {check['reason']}" if state == "skip" else state, *check["measured"]]
        made.add_row(
            check["check"],
            # A table's column has room for the first clause only.
            Text(re.split(r"[:;.](?:\s|$)", check["guards"], maxsplit=1)[0]),
            check["machine"],
            Text("FAIL" if state == "fail" else "; ".join(said), style=_COLOURS[state]),
            f"{check['seconds']:.0f}",
        )
    return made
