# SPDX-License-Identifier: GPL-2.0-only
"""`list`: what there is to run."""

import argparse

from rich.table import Table

from triagelab import devices, experiments, kernels, modules
from triagelab.commands import options, telling


def add(commands: options.Commands) -> None:
    """Its arguments."""
    listing = commands.add_parser("list", help="experiments, schedulers, devices, kernels found")
    listing.set_defaults(command=_list)


def _list(_: argparse.Namespace) -> int:
    rows = [("experiment", name, experiments.title(name)) for name in experiments.names()]
    rows += [("scheduler", name, "the kernel's own") for name in modules.KERNELS_OWN]
    rows += [("scheduler", name, f"kernel/{name}") for name in modules.own_schedulers()]
    rows += [("device", name, devices.describe(name)) for name in devices.names()]
    rows += [("kernel", name, about) for name, about in kernels.listing()]
    table = Table("kind", "name", "what", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    telling.output.print(table)
    return 0
