# SPDX-License-Identifier: GPL-2.0-only
"""Execute a plan: carry out runs side by side, and record each run's result in its folder.

The lab writes a run's record as soon as the run ends. However the experiment ends, the records
are kept, and --resume repeats no run that succeeded.
"""

import asyncio
import contextlib
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from triagelab.base import files
from triagelab.plan.machine import BootError, FullError, GuestError, Outcome, last_lines
from triagelab.plan.plan import Run
from triagelab.run import records

T = TypeVar("T")


class StoppedError(Exception):
    """A request to stop: Ctrl-C, SIGTERM, or a closed terminal."""


@dataclass(frozen=True)
class Result:
    """A run's result. `reason` says why the run failed; None: it succeeded."""

    run: Run
    reason: str | None
    boot_s: float | None


#: A run and its folder in the run directory.
Task = tuple[Run, Path]
CarryOut = Callable[[Run, Path], Awaitable[Result]]
#: An executor prepares this computer or a cluster for the given runs. Its context manager yields a
#: function that carries out one run.
Executor = Callable[[Sequence[Run]], contextlib.AbstractAsyncContextManager[CarryOut]]


@contextlib.asynccontextmanager
async def here(runs: Sequence[Run]) -> AsyncIterator[CarryOut]:
    """Yield a function that carries out a run on this computer.

    At most `at_once` calls run at a time, as the machine allows. Other calls wait.
    """
    places = asyncio.Semaphore(min((run.machine.at_once for run in runs), default=1))

    async def when_there_is_a_place(run: Run, folder: Path) -> Result:
        async with places:
            return await carry_out(run, folder)

    yield when_there_is_a_place


def execute(
    tasks: Sequence[Task], executor: Executor, finished: Callable[[Result], None]
) -> list[Result]:
    """Carry out `tasks`, call `finished` with each result, and return all results.

    Raise StoppedError if the user asks to stop, and FullError if the host's disk is full. If a
    guest does not boot, and no run has ended yet, raise BootError: probably no guest boots. Once a
    run has ended, a run whose guest does not boot counts as failed.
    """

    async def everything() -> list[Result]:
        booted = False
        async with executor([run for run, _ in tasks]) as carry_out_there:

            async def one(task: Task) -> Result:
                nonlocal booted
                try:
                    result = await carry_out_there(*task)
                    booted = True
                except BootError as error:
                    if not booted or isinstance(error, FullError):
                        raise
                    result = write_down(*task, str(error), None)
                finished(result)
                return result

            async with asyncio.TaskGroup() as group:
                waiting = [group.create_task(one(task)) for task in tasks]
        return [task.result() for task in waiting]

    return interruptible(everything)


def interruptible(everything: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end; return its result. On a request to stop, raise StoppedError.

    Ctrl-C on a terminal also ends the compilers and packers that the coroutine runs. So any error
    after a request to stop, except FullError, counts as a consequence of the request.
    """
    asked = False

    async def to_be_cancelled() -> T:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        stopping = [signal.SIGINT, signal.SIGTERM]
        # If nohup started the lab, go on ignoring SIGHUP.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            stopping.append(signal.SIGHUP)
        # Do not use loop.add_signal_handler(): it loses the earlier handlers.

        def stop(*_: object) -> None:
            nonlocal asked
            asked = True
            loop.call_soon_threadsafe(task.cancel)

        before = {number: signal.signal(number, stop) for number in stopping}
        try:
            return await everything()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    try:
        return asyncio.run(to_be_cancelled())
    except asyncio.CancelledError:
        raise StoppedError from None
    except (Exception, BaseExceptionGroup) as error:
        # In a group, the first exception is the cause of the others.
        first = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error
        if asked and not isinstance(first, FullError):
            raise StoppedError from first
        raise first from None


async def carry_out(run: Run, folder: Path) -> Result:
    """Carry out a run; `folder` then holds its results and run.json."""
    return write_down(run, folder, *await attempt(run, folder))


async def attempt(run: Run, folder: Path) -> tuple[str | None, float | None]:
    """Carry out a run without writing run.json. Raise BootError if the guest did not boot.

    Return two values: the reason why the run failed, or None; and the seconds until fio started, or
    None.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        outcome = await run.machine.run(run.job, folder)
    except BootError:
        raise
    except GuestError as error:
        return str(error), None
    return _complaint(outcome, folder), outcome.fio_started_s


def write_down(run: Run, folder: Path, reason: str | None, boot_s: float | None) -> Result:
    """Write run.json, the last file of a run, into the run's folder; return the run's result."""
    folder.mkdir(parents=True, exist_ok=True)
    ended = {"status": "failed" if reason else "done", "reason": reason, "boot_s": boot_s}
    files.write_json(folder / "run.json", _about(run) | ended)
    return Result(run, reason, boot_s)


def take_over(was: Path, run: Run, folder: Path) -> None:
    """Make an earlier plan's run part of a new plan: rename its folder, and adapt its run.json.

    was     the run's folder in the earlier plan
    run     the same run in the new plan, where it may have another name or more points
    folder  the run's folder in the new plan
    """
    record = was / "run.json"
    if record.exists():
        files.write_json(record, records.read_json(record) | _about(run))
    was.rename(folder)


def _about(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "scheduler": run.scheduler,
        "point": dict(run.point),
        "points": [dict(point) for point in run.points],
        "cpus": run.machine.cpus,
        "devices": len(run.device.blocks),
        "capacity_iops": run.device.capacity_iops,
        "parts": {name: asdict(part) for name, part in run.device.parts.items()},
        "repeat": run.repeat,
        "seed": run.seed,
        "sections": list(run.sections),
    }


def _complaint(outcome: Outcome, folder: Path) -> str | None:
    """Return the reason why a finished job failed; None if it succeeded."""
    if outcome.status == 0:
        return None
    told = outcome.folder / "reason"
    what = told.read_text().strip() if told.exists() else f"the job ended with {outcome.status}"
    console = folder / "console.log"
    return f"{what}\nIts last lines were:\n{last_lines(console)}\nThe console's log is {console}"
