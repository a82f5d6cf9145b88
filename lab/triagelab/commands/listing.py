# SPDX-License-Identifier: GPL-2.0-only
"""Define the command `list`: print experiments, schedulers, devices and kernels, or drives."""

import argparse

from rich.console import Group
from rich.table import Table
from rich.text import Text

from triagelab.ask import devices, drives, experiments
from triagelab.base import sources
from triagelab.commands import telling
from triagelab.provision import kernels

#: Words in the class of a drive -> their meaning, for the legend of the table.
_CLASSES = {
    "cliff": "above some rate of writes, reads queue behind them",
    "not monotone": "reads are slowest at a medium rate of writes",
    "reads protected": "reads never queue behind writes",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `list`."""
    parser.add_argument(
        "what",
        metavar="drives",
        nargs="?",
        choices=["drives"],
        help="list devices fitted to measured drives, with class, source and errors",
    )
    parser.set_defaults(command=_list)


def _list(given: argparse.Namespace) -> int:
    if given.what == "drives":
        return _list_drives()
    rows = [("experiment", name, experiments.title(name)) for name in experiments.names()]
    rows += [("scheduler", name, "the kernel's own") for name in sources.KERNELS_OWN]
    rows += [("scheduler", name, f"kernel/{name}") for name in sources.own_schedulers()]
    rows += [("device", name, devices.describe(name)) for name in devices.names()]
    rows += [("kernel", name, about) for name, about in kernels.listing()]
    table = _table("kind", "name", "what")
    for row in rows:
        table.add_row(*row)
    telling.show(table)
    return 0


def _list_drives() -> int:
    table = _table("name", "class", "source", "off, median/worst")
    for drive in map(drives.find, drives.names()):
        source = f"{drive.source['repository']} ({drive.source['licence']})"
        table.add_row(drive.name, f"{drive.kind}: {drive.product}", source, drive.error_text)
    words = {"off": "the model's error at the measured loads", **drives.PREDICTED, **_CLASSES}
    legend = "; ".join(f"{word}: {meaning}" for word, meaning in words.items())
    telling.show(Group(table, Text(f"{legend}.", style="dim")))
    return 0


def _table(*headings: str) -> Table:
    """Return a table that cuts nothing off. It breaks no names, so that users can copy them."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    return table
