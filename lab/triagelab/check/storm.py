# SPDX-License-Identifier: GPL-2.0-only
"""Carry out storms: random loads with random disturbances, made from a seed, in guests of `sim`.

The seed determines a plan: settings of the disk and the load, and a list of parts, each a group of
processes or a disturbance. The module in kernel/storm delays CPUs at random. These delays, and the
random numbers of the disk and of the guest's program, depend on the seed too. `sim` repeats a run
to the last instruction, so a seed reproduces its failure.
"""

import asyncio
import random
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triagelab.base.errors import RequestError
from triagelab.check import verify
from triagelab.plan.machine import BootError, GuestError, Job, Machine, Outcome
from triagelab.provision import programs
from triagelab.run import execute, machines

_SCRIPT = verify.CHECKS / "storm.sh"
_MEMORY_MB = {False: 512, True: 1024}
#: Seconds that a storm, and a guest's boot, may take by the host's clock, even on a busy computer.
_LIMIT_S = 600.0
_BOOT_LIMIT_S = 600.0
#: Seconds that a storm may take by the guest's clock. A storm that meets no bug takes far less.
_GUEST_LIMIT_S = 600
#: A debug kernel multiplies the load's duration and the guest program's time limits by this.
_DEBUG_SLOW = 4
#: Number of requests that a plan divides among its groups of processes. Some kinds of groups use
#: only a part of their share.
_REQUESTS = 4000
#: shrink() starts no further storms after this many.
_SHRINK_TRIES = 80
#: The load of a plan lasts at most this many ms of virtual time, and in a debug kernel _DEBUG_SLOW
#: times as long. A busy ms of virtual time takes five times as long by the host's clock; idle
#: virtual time takes none.
_MS = 300
_SHORTEST_MS = 25

#: A kind of disturbance -> the mean time between two of this kind, over all plans, in µs.
DISTURBANCES = {
    "scheduler": 30000,
    "unload": 80000,
    "resize": 5000,
    "hotplug": 60000,
    "freeze": 10000,
    "quiesce": 10000,
    "passthrough": 3000,
    "errors": 30000,
    "requeues": 20000,
    "refusals": 20000,
    "stalls": 20000,
    "tunables": 2000,
    "debugfs": 1000,
    "sysfs": 3000,
    "allocations": 30000,
}
#: The disturbances that need a debug kernel.
_DEBUG_ONLY = {"allocations"}


class _Dice:
    """Random numbers from a seed, equal in all versions of Python because only random() is used."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        """Return a random number from 0 to `bound` - 1."""
        return int(self._random.random() * bound)

    def among(self, values: Sequence[Any]) -> Any:
        """Return a random one of the values."""
        return values[self.below(len(values))]

    def happens(self, chance: float) -> bool:
        """Return True with the probability `chance`."""
        return self._random.random() < chance


@dataclass(frozen=True)
class Plan:
    """The plan that one seed determines.

    storm  a line with the parameters of the module in kernel/storm
    tags   the number of the scheduler's tags; 0: unchanged
    parts  lines for the guest's program; a storm can leave out any of them
    ms     the longest duration of the load, in ms of virtual time; _DEBUG_SLOW times as long in a
           debug kernel
    """

    seed: int
    storm: str
    tags: int
    parts: tuple[str, ...]
    ms: int

    @property
    def whole(self) -> int:
        """Return the mask with a bit for every part."""
        return (1 << len(self.parts)) - 1


@dataclass(frozen=True)
class Storm:
    """A plan, or what is left of it if parts are left out or the load is shortened.

    mask  the bits of the parts that are carried out
    ms    the longest duration of the load, as in Plan
    """

    plan: Plan
    mask: int
    ms: int

    @property
    def replay(self) -> str:
        """Return the argument of --replay that repeats this storm."""
        if self.ms != self.plan.ms:
            return f"{self.plan.seed}:{self.mask:x}:{self.ms}"
        if self.mask != self.plan.whole:
            return f"{self.plan.seed}:{self.mask:x}"
        return str(self.plan.seed)

    @property
    def parts(self) -> list[str]:
        """Return the parts that are carried out."""
        return [part for n, part in enumerate(self.plan.parts) if self.mask >> n & 1]

    def text(self, slow: int = 1) -> str:
        """Return the plan as the guest reads it; `slow` is 1 or _DEBUG_SLOW."""
        load = f"load ms={self.ms} tags={self.plan.tags} slow={slow}"
        return "\n".join([self.plan.storm, load, *self.parts, ""])


def make(seed: int, debug: bool = False) -> Plan:
    """Return the plan of a seed.

    A plan omits some disturbances: a disturbance in every plan would hide the bugs that occur only
    without it.
    """
    dice = _Dice(seed)
    # A theme limits the values of the plan, because some bugs show only under such limits. A
    # forgotten request shows only if no other request causes a dispatch. A fault under load shows
    # only if requests queue.
    theme = dice.among(_THEMES)
    groups = theme.groups or [dice.among(_GROUPS) for _ in range(1 + dice.below(4))]
    each = _REQUESTS // len(groups)
    processes = [line for group in groups for line in group(dice, each)]
    often = dice.among(theme.often)
    disturbances = [
        f"disturb kind={kind} every={every // 2 + dice.below(every)} seed={dice.below(1 << 30)}"
        for kind, every in DISTURBANCES.items()
        if dice.happens(often) and (debug or kind not in _DEBUG_ONLY)
    ]
    storm = (
        f"storm seed={dice.below(1 << 30)} chance={dice.among(theme.chance)} "
        f"longest={dice.among([1, 4, 16, 64])} hw_queues={dice.among(theme.hw_queues)} "
        f"depth={dice.among(theme.depth)} service_us={dice.among(theme.service_us)} "
        f"rotational={int(dice.happens(0.2))}"
    )
    tags = dice.among(theme.tags)
    return Plan(seed, storm, tags, (*processes, *disturbances), _MS)


def _who(dice: _Dice) -> str:
    """Return random attributes of processes: class, level, seed, sometimes cgroup and pid."""
    words = f"class={dice.below(4)} level={dice.below(8)} seed={dice.below(1 << 30)}"
    if dice.happens(0.2):
        words += f" cgroup={1 + dice.below(3)}"
    if dice.happens(0.2):
        words += f" pid={1000 + dice.below(30000)}"
    return words


def _neighbours(dice: _Dice, requests: int) -> Iterator[str]:
    """Yield a process whose threads ask for neighbouring blocks at once, so that requests merge."""
    threads = 2 + dice.below(3)
    # With an area, the threads use the same few blocks again and again; otherwise they move on.
    area = f" first={dice.below(512)} area={threads}" if dice.happens(0.7) else ""
    yield (
        f"process threads={threads} together=1 step=1{area} requests={requests // threads} "
        f"write={dice.among([0, 0, 0, 30])} {_who(dice)}"
    )


def _crowd(dice: _Dice, requests: int) -> Iterator[str]:
    """Yield parts, each with 8 processes of random classes that have one request at a time."""
    parts = dice.among([4, 8, 16])
    scattered = int(dice.happens(0.7))
    for _ in range(parts):
        yield (
            f"process count=8 class=4 requests={max(requests // parts // 8, 3)} "
            f"scattered={scattered} write={dice.among([0, 20])} seed={dice.below(1 << 30)}"
        )


def _streams(dice: _Dice, requests: int) -> Iterator[str]:
    """Yield processes that read or write sequentially, several requests at once."""
    for _ in range(1 + dice.below(2)):
        blocks = dice.among([1, 4, 16])
        yield (
            f"process sync=0 depth={dice.among([4, 8, 32])} batch={dice.among([1, 4, 16])} "
            f"blocks={blocks} step={blocks} requests={requests // 4} "
            f"write={dice.among([0, 100])} {_who(dice)}"
        )


def _mixture(dice: _Dice, requests: int) -> Iterator[str]:
    """Yield processes that mix reads, writes, flushes and discards, at random places."""
    for _ in range(1 + dice.below(2)):
        yield (
            f"process threads={1 + dice.below(3)} sync=0 depth={dice.among([1, 2, 8, 32])} "
            f"batch={dice.among([1, 4])} blocks={dice.among([1, 2, 8])} "
            f"requests={requests // 6} write={dice.below(40)} fua={dice.below(10)} "
            f"flush={dice.below(5)} discard={dice.below(5)} {_who(dice)}"
        )


def _cached(dice: _Dice, requests: int) -> Iterator[str]:
    """Yield a process that reads and writes through the page cache."""
    yield (
        f"process buffered=1 threads={1 + dice.below(3)} blocks={dice.among([1, 4])} "
        f"requests={requests // 12} write=40 flush=3 {_who(dice)}"
    )


def _now_and_then(dice: _Dice, requests: int) -> Iterator[str]:
    """Yield processes that pause after some requests, so that the disk is idle at times."""
    yield (
        f"process count={1 + dice.below(3)} requests={requests // 20} write={dice.below(50)} "
        f"pause_every={1 + dice.below(4)} pause_us={dice.among([500, 5000, 30000])} {_who(dice)}"
    )


_GROUPS = (_neighbours, _crowd, _streams, _mixture, _cached, _now_and_then)


@dataclass(frozen=True)
class _Theme:
    """The possible values of a plan's properties. The seed draws one value of each property.

    groups  functions that make the plan's groups of processes; empty: the seed draws one to four
    often   probabilities; the seed draws one, and with this probability the plan has each
            disturbance
    """

    groups: tuple[Callable[[_Dice, int], Iterator[str]], ...] = ()
    often: tuple[float, ...] = (0.0, 0.1, 0.3, 0.6)
    chance: tuple[int, ...] = (0, 16, 64, 256, 512)
    hw_queues: tuple[int, ...] = (1, 1, 2, 0)
    depth: tuple[int, ...] = (1, 2, 4, 8, 32)
    service_us: tuple[int, ...] = (0, 10, 50, 200, 1000)
    tags: tuple[int, ...] = (0, 0, 16, 256)


_THEMES = (
    _Theme(),
    _Theme(),
    _Theme((_neighbours,), (0.0, 0.1, 0.3), (64, 256, 512), service_us=(0, 10, 50)),
    _Theme(
        (_crowd,),
        (0.0, 0.1, 0.3),
        hw_queues=(1, 1, 2),
        depth=(1, 2, 4),
        service_us=(200, 1000),
        tags=(256,),
    ),
)


def whole(plan: Plan) -> Storm:
    """Return the storm that carries out a whole plan."""
    return Storm(plan, plan.whole, plan.ms)


def parse_replay(text: str, debug: bool = False) -> Storm:
    """Return the storm that --replay SEED[:MASK[:MS]] names, or raise RequestError."""
    found = re.fullmatch(r"(\d+)(?::([0-9a-f]+)(?::(\d+))?)?", text)
    if found is None:
        raise RequestError(f"--replay {text}: give SEED, SEED:MASK or SEED:MASK:MS")
    seed, mask, ms = found.groups()
    plan = make(int(seed), debug)
    wanted = int(mask, 16) if mask else plan.whole
    if wanted & ~plan.whole:
        raise RequestError(f"--replay {text}: seed {seed} has only {len(plan.parts)} parts")
    return Storm(plan, wanted, int(ms) if ms else plan.ms)


@dataclass(frozen=True)
class Result:
    """The result of a storm.

    reason       the failure's message; empty if nothing failed
    last         the last yield points (places where the storm may delay a CPU) that CPUs passed,
                 the latest first
    fingerprint  a hash of all yield points that CPUs passed, and of the times at these points
    seconds      the duration by the host's clock
    folder       the folder with the guest's output; the lab removes it unless something failed
    """

    storm: Storm
    reason: str
    last: str
    fingerprint: str
    measured: str
    seconds: float
    folder: Path

    @property
    def kind(self) -> str:
        """Return the line that first reports the failure, with N in place of each number.

        Two storms with the same line failed in the same way.
        """
        lines = self.reason.splitlines() or [""]
        line = next((line for line in lines if _COMPLAINT.search(line)), lines[0])
        return re.sub(r"0x[0-9a-f]+|\d+", "N", re.sub(r"\[.*?\]|^FAIL: ", "", line)).strip()

    def record(self) -> dict[str, Any]:
        """Return the result as a JSON object for storm.json."""
        return {
            "seed": self.storm.plan.seed,
            "replay": self.storm.replay,
            "result": "fail" if self.reason else "pass",
            "reason": self.reason,
            "last": self.last.splitlines(),
            "fingerprint": self.fingerprint,
            "measured": self.measured,
            "seconds": round(self.seconds, 1),
        }


_COMPLAINT = re.compile(r"^FAIL|Kernel panic|BUG:|WARNING:|watchdog:")


@dataclass(frozen=True)
class Runner:
    """The scheduler and the machine that storms run on."""

    machine: Machine
    scheduler: str
    modules: tuple[Path, ...]
    debug: bool
    out: Path

    async def run(self, storm: Storm) -> Result:
        """Carry out a storm. If it fails, keep its output in a folder named after Storm.replay."""
        folder = self.out / storm.replay.replace(":", "-")
        shutil.rmtree(folder, ignore_errors=True)
        job = Job(
            {
                "run": _script(self.scheduler),
                "storm.sh": _SCRIPT,
                "lib.sh": verify.CHECKS / "lib.sh",
                "tools/storm": programs.static(verify.CHECKS / "tools/storm.c"),
                "plan": storm.text(_DEBUG_SLOW if self.debug else 1),
            },
            self.modules,
            memory_mb=_MEMORY_MB[self.debug],
            time_limit_s=_LIMIT_S,
            boot_limit_s=_BOOT_LIMIT_S,
        )
        begin = time.monotonic()
        try:
            outcome = await self.machine.run(job, folder)
        except BootError:
            raise
        except GuestError as error:
            result = _died(storm, str(error), folder, time.monotonic() - begin)
        else:
            result = _ended(storm, outcome, folder, time.monotonic() - begin)
        if not result.reason:
            shutil.rmtree(folder)
        return result


def _script(scheduler: str) -> str:
    return f"""#!/bin/sh
        export SCHEDULER={scheduler}
        # Report a soft lockup after 4 s rather than 20.
        echo 2 > /proc/sys/kernel/watchdog_thresh
        echo 1 > /proc/sys/kernel/softlockup_panic
        timeout -s KILL {_GUEST_LIMIT_S} sh /job/storm.sh > out/log 2>&1
        """


def _ended(storm: Storm, outcome: Outcome, folder: Path, seconds: float) -> Result:
    log = _read(outcome.folder / "log")
    measured = "; ".join(re.findall(r"^measured: (.*)$", log, re.M))
    reason = "" if outcome.status == 0 else log.strip() or f"it ended with {outcome.status}"
    return Result(
        storm,
        reason,
        _read(outcome.folder / "last"),
        _read(outcome.folder / "fingerprint").strip(),
        measured,
        seconds,
        folder,
    )


def _died(storm: Storm, error: str, folder: Path, seconds: float) -> Result:
    """Return the result of a storm whose guest died; read the yield points in the console's log."""
    console = _read(folder / "console.log")
    fingerprint = re.search(r"storm: fingerprint ([0-9a-f]+)", console)
    last = re.findall(r"storm: (\d+ cpu\d+ .*?)\r?$", console, re.M)
    return Result(
        storm,
        error,
        "\n".join(last),
        fingerprint[1] if fingerprint else "",
        "",
        seconds,
        folder,
    )


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


RunStorm = Callable[[Storm], Awaitable[Result]]


def run(
    run_storm: RunStorm,
    storms: Iterable[Storm],
    finished: Callable[[Result], None],
    minutes: float | None = None,
    until_failure: bool = False,
) -> list[Result]:
    """Carry out storms side by side, and call `finished` with each result. Return all results.

    No storm begins after `minutes`. With `until_failure`, no storm begins after a failure either.
    Raise StoppedError if the user stops the run.
    """
    end = time.monotonic() + minutes * 60 if minutes is not None else None
    left = iter(storms)
    results: list[Result] = []

    async def one_after_the_other() -> None:
        while end is None or time.monotonic() < end:
            storm = next(left, None)
            if storm is None or (until_failure and any(result.reason for result in results)):
                return
            results.append(await run_storm(storm))
            finished(results[-1])

    async def everything() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(machines.cores()):
                group.create_task(one_after_the_other())

    execute.interruptible(everything)
    return sorted(results, key=lambda result: result.storm.plan.seed)


def shrink(
    run_storm: RunStorm, failed: Result, told: Callable[[Result], None] = lambda result: None
) -> Result:
    """Return the result of the smallest storm found that fails in the same way as `failed`.

    First leave out parts: half of them at once, then fewer and fewer (delta debugging). Then halve
    the duration of the load. Call `told` with each smaller failure.
    """

    async def everything() -> Result:
        best, tries = failed, 0

        async def fails(candidates: Iterable[Storm]) -> Result | None:
            """Return the result of the first candidate that fails in the same way, or None.

            As many candidates run at once as there are cores.
            """
            nonlocal tries
            queue = list(candidates)
            while queue and tries < _SHRINK_TRIES:
                now, queue = queue[: machines.cores()], queue[machines.cores() :]
                tries += len(now)
                for result in await asyncio.gather(*map(run_storm, now)):
                    if result.kind == failed.kind:
                        told(result)
                        return result
            return None

        chunk = max(len(best.storm.parts) // 2, 1)
        while True:
            smaller = await fails(_without(best.storm, chunk))
            if smaller is not None:
                best = smaller
                chunk = max(min(chunk, len(best.storm.parts) // 2), 1)
            elif chunk == 1:
                break
            else:
                chunk //= 2
        while best.storm.ms // 2 >= _SHORTEST_MS:
            sooner = await fails([replace(best.storm, ms=best.storm.ms // 2)])
            if sooner is None:
                break
            best = sooner
        return best

    return execute.interruptible(everything)


def _without(storm: Storm, chunk: int) -> Iterator[Storm]:
    """For each group of `chunk` parts, yield the storm without this group, if a part is left."""
    bits = [n for n in range(len(storm.plan.parts)) if storm.mask >> n & 1]
    if len(bits) < 2:
        return
    for begin in range(0, len(bits), chunk):
        mask = storm.mask
        for n in bits[begin : begin + chunk]:
            mask &= ~(1 << n)
        if mask:
            yield replace(storm, mask=mask)
