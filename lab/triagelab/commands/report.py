# SPDX-License-Identifier: GPL-2.0-only
"""Define the command `report`: make the report of a run directory, or of a study, again.

The commands `run` and `study` use this module to make their reports. Only its functions import the
modules that draw: to import these takes longer than to import all others, and a command that
refuses its arguments should answer at once.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

from triagelab.base.errors import RequestError
from triagelab.commands import telling
from triagelab.run import records


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `report`."""
    parser.add_argument("directory", metavar="DIR", type=Path)
    parser.set_defaults(command=_report)


def _report(given: argparse.Namespace) -> int:
    if (given.directory / records.STUDY).is_file():
        tell_study(given.directory)
        return 0
    if not (given.directory / "environment.json").is_file():
        raise RequestError(f"{given.directory} is not a run directory: it has no environment.json")
    tell(given.directory)
    return 0


def load() -> None:
    """Import the modules that draw.

    Call this before the first run. After hours of runs, the user may have updated the lab's files,
    and a new module may not fit those that were imported before.
    """
    importlib.import_module("triagelab.report.studyreport")


def tell(out: Path, as_json: bool = False) -> None:
    """Make the report of a run directory; print its table or, if `as_json`, summary.json."""
    from triagelab.judge import measured
    from triagelab.report import report

    found = measured.read(out)
    path = report.write(found)
    text = (out / "summary.json").read_text()
    if as_json:
        sys.stdout.write(text)
        return
    telling.show(report.table(json.loads(text), found.environment))
    telling.output.print(f"report: {path}")


def tell_study(out: Path) -> None:
    """Make all reports of a study, and print its answers."""
    from triagelab.report import studyreport

    found = studyreport.read(out)
    path = studyreport.write(out, found)
    telling.show(studyreport.table(out, found))
    telling.output.print(f"report: {path}")
