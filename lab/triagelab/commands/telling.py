# SPDX-License-Identifier: GPL-2.0-only
"""Print the output of the commands: messages, tables, progress, failures, and how to resume.

The lab never breaks the lines of a message, so that a user can copy paths and commands from it, and
a program can parse it. A terminal folds a long line by itself. The library Rich prints messages as
they are: markup and emoji codes in them have no effect.
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
    """Print tables and text. A table fits the terminal's width; without a terminal, 80 columns.

    Text is wrapped only on a terminal.
    """
    output.print(found, soft_wrap=not output.is_terminal)


@contextlib.contextmanager
def progress(
    total: int, done: int, quiet: bool, what: str = "measuring"
) -> Iterator[Callable[[str, str], None]]:
    """Yield a function, to be called with the name and the state of each finished item.

    On a terminal, the function moves a progress bar, which shows the time left. Without a terminal,
    it prints a line. If `quiet` is True, it prints nothing.
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
    # A run may take minutes, so estimate the time left from the progress in the last hour.
    bar = Progress(*columns, console=output, transient=True, speed_estimate_period=3600)
    with bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda name, state: bar.advance(task)


def tells(step: Callable[[str, str], None]) -> Callable[[execute.Result], None]:
    """Return a function that passes a run's result to `step`, the function from progress().

    At the first run that fails, the function also prints the first line of the reason: if all runs
    will fail, the user need not wait for the last of them to learn why. At the end, tell_failed()
    prints all reasons in full.
    """
    told = False

    def tell(result: execute.Result) -> None:
        nonlocal told
        step(result.run.id, "failed" if result.reason else "done")
        if result.reason and not told:
            told = True
            error.print(f"{result.run.id} failed: {result.reason.splitlines()[0]}", style="red")

    return tell


def tell_failed(failed: list[execute.Result]) -> None:
    """Print which runs failed, and why."""
    for result in failed:
        error.print(f"{result.run.id} failed: {result.reason}", style="red")


def tell_again(failed: int, total: int, command: str) -> None:
    """Print how many runs failed, and `command`, which tries them again."""
    error.print(f"{failed} of {total} runs failed. Try them again with:\n  {command}")


def tell_interrupted(command: str) -> int:
    """Print `command`, which resumes the experiment; return the exit status for an interruption."""
    error.print(f"triage: interrupted; finished runs are kept. Go on with:\n  {command}")
    return INTERRUPTED
