# SPDX-License-Identifier: GPL-2.0-only
"""Print the output of the commands: messages, tables, progress, failures, and how to resume.

The lab never wraps a message, so that a user can copy the paths and commands in it, and a program
can parse them. A terminal folds a long line by itself. The library Rich, which prints the messages,
interprets no markup or emoji in them.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from triagelab.run import execute

INTERRUPTED = 130  # 128 + SIGINT, as in a shell


def _console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


error = _console(stderr=True)
output = _console()


def show(found: RenderableType) -> None:
    """Print tables and text: tables in the terminal's width, or in 80 columns elsewhere.

    Text is wrapped only on a terminal.
    """
    output.print(found, soft_wrap=not output.is_terminal)


@contextlib.contextmanager
def progress(
    total: int, done: int, quiet: bool, what: str = "measuring"
) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that the caller calls with the name and state of each finished item.

    On a terminal, the function moves a progress bar with the time left; elsewhere it prints a line.
    If `quiet`, it prints nothing.
    """
    if quiet or not output.is_terminal:
        count = iter(range(1, total - done + 1))
        begin = time.monotonic()

        def line(name: str, state: str) -> None:
            if quiet:
                return
            here = next(count)
            minutes = (time.monotonic() - begin) / here * (total - done - here) / 60
            left = f", {minutes:.0f} min left" if minutes >= 1 else ""
            output.print(f"[{done + here}/{total}] {name} {state}{left}")

        yield line
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Runs take long, so estimate the time left from the speed in the last hour.
    bar = Progress(*columns, console=output, transient=True, speed_estimate_period=3600)
    with bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda name, state: bar.advance(task)


def tells(step: Callable[[str, str], None]) -> Callable[[execute.Result], None]:
    """Return a function that reports a run's result with `step`, the function from progress()."""
    return lambda result: step(result.run.id, "failed" if result.reason else "done")


def tell_failed(failed: list[execute.Result]) -> None:
    """Print which runs failed, and why."""
    for result in failed:
        error.print(f"{result.run.id} failed: {result.reason}", style="red")


def tell_again(failed: int, total: int, command: str) -> None:
    """Print the command that tries failed runs again."""
    error.print(f"{failed} of {total} runs failed. Try them again with:\n  {command}")


def tell_interrupted(command: str) -> int:
    """Print the command that resumes the experiment; return the exit status."""
    error.print(f"triage: interrupted; finished runs are kept. Go on with:\n  {command}")
    return INTERRUPTED
