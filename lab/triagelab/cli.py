# SPDX-License-Identifier: GPL-2.0-only
"""Parse the command line and run its command: list, run, study, report, fit, verify, storm, …"""

import argparse
from collections.abc import Sequence
from typing import Any

from triagelab.base.errors import LabError
from triagelab.base.version import version
from triagelab.commands import (
    build,
    fit,
    listing,
    matrix,
    report,
    run,
    storm,
    study,
    telling,
    verify,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status.

    0: done, 1: failed, 2: the request made no sense, 130: interrupted.
    """
    try:
        given = _parser().parse_args(arguments)
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


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="triage", description="Runs I/O schedulers on machines and says what they are worth."
    )
    parser.add_argument("--version", action="version", version=f"triage {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (listing, run, study, report, fit, verify, storm, build, matrix):
        command.add(commands)
    return parser
