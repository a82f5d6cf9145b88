# SPDX-License-Identifier: GPL-2.0-only
"""Parse the command line and run its command: list, run, study, report, fit, verify, storm, …"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from triagelab.base.errors import LabError
from triagelab.base.version import version
from triagelab.commands import telling

#: Each command with its module in `commands`, and its line in `triage --help`. Only the module of
#: the command that the user gives is imported: to import the libraries for statistics and charts
#: takes longer than most commands need for all else.
COMMANDS = {
    "list": ("listing", "list experiments, schedulers, devices and kernels"),
    "run": ("run", "run an experiment, or your own fio job file"),
    "study": ("study", "run the whole scheduler study: many experiments"),
    "report": ("report", "make the report of a run directory again"),
    "fit": ("fit", "make a drive for --device from a folder of fio's JSON results"),
    "verify": ("verify", "check a scheduler's correctness"),
    "storm": ("storm", "look for a scheduler's bugs, with replay"),
    "modules": ("build", "build the kernel modules"),
    "matrix": ("matrix", "build for the oldest and the newest kernels, verify on each"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status.

    0: done, 1: failed, 2: the request made no sense, 130: interrupted.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        given = parsed(words)
        return int(given.command(given))
    except LabError as error:
        telling.error.print(f"triage: {error}", style="red")
        return error.exit_status
    except KeyboardInterrupt:
        telling.error.print("triage: interrupted")
        return telling.INTERRUPTED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        message = f"triage: {where}{error.strerror or error}"
        telling.error.print(message, style="red")
        return 1


class _Once(argparse.Action):
    """Store an option's value; refuse an option that is given twice, or with an empty value."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store one option's value."""
        given = vars(namespace).setdefault("given", set())
        if option_string and self.dest in given:
            parser.error(f"{option_string} is given twice; give it once")
        if option_string and values == "":
            parser.error(f"{option_string} is empty; leave it out, or give a value")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


class _Parser(argparse.ArgumentParser):
    """A parser that uses _Once for every option that names no other action.

    argparse also uses this class for the parser of each command.
    """

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.register("action", None, _Once)


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words of a command line. If they make no sense, say so and exit with status 2."""
    parser = _Parser(
        prog="triage", description="Runs I/O schedulers on machines and says what they are worth."
    )
    parser.add_argument("--version", action="version", version=f"triage {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (module, says) in COMMANDS.items():
        command = commands.add_parser(name, help=says)
        if name in words:
            importlib.import_module(f"triagelab.commands.{module}").add(command)
    return parser.parse_args(words)
