# SPDX-License-Identifier: GPL-2.0-only
"""`fit`: a drive by name from results of fio."""

import argparse
import re
import tempfile
from pathlib import Path

from rich.table import Table

from triagelab import drives, fioresults, fitting
from triagelab.commands import options, telling
from triagelab.errors import RequestError
from triagelab.simulator import Simulator


def add(commands: options.Commands) -> None:
    """Its arguments."""
    fit = commands.add_parser(
        "fit", help="a drive by name, for --device, from a folder of fio's JSON results"
    )
    fit.add_argument("directory", metavar="DIR", type=Path)
    fit.add_argument("--name", help="of the drive; else that of the folder")
    fit.add_argument("--out", metavar="FILE", type=Path, help="else drives/NAME.toml")
    fit.set_defaults(command=_fit)


def _fit(given: argparse.Namespace) -> int:
    name = given.name or re.sub(r"[^a-z0-9]+", "-", given.directory.resolve().name.lower())
    out = given.out or drives.FOLDER / f"{name}.toml"
    if out.exists():
        raise RequestError(f"{out} exists: choose another --name or --out")
    points, host_ns = fioresults.read(given.directory)
    roles = fitting.with_roles(points)
    if sum(point.role == "fit" for point in roles) < 3:
        raise RequestError(
            f"{given.directory} has too few random reads of one process: the fit needs them at "
            "three depths or more, for instance at 1, 4 and 32"
        )
    with tempfile.TemporaryDirectory() as folder:
        simulate = Simulator.build(Path(folder), sanitize=False)
        drive = fitting.fitted(simulate, _unfitted(name, given.directory, roles, host_ns))
        drive = fitting.judged(simulate, drive)
        compared = fitting.compare(simulate, drive)
    out.write_text(drives.text(drive))
    telling.output.print(_table(compared))
    telling.output.print(f"{drive.kind}; {drive.error_text}")
    for each in compared:
        for key in each.misses:
            telling.output.print(f"missed: {key} at {each.point}: {each.errors[key]:+.0f} %")
    telling.output.print(f"written: {out}", markup=False, soft_wrap=True)
    return 0


def _unfitted(
    name: str, folder: Path, points: tuple[drives.Point, ...], host_ns: int
) -> drives.Drive:
    """A drive with its points and without parameters."""
    return drives.Drive(
        name=name,
        kind="",
        product=folder.resolve().name,
        profile="",
        source={
            "repository": "own measurements",
            "path": folder.resolve().name,
            "licence": "not stated",
        },
        limits="Random reads of one process only: writes and all else are those of the profile.\n",
        host_ns=host_ns,
        settings={},
        parameters={},
        points=points,
        errors={},
        misses=(),
    )


def _table(compared: list[fitting.Compared]) -> Table:
    """Measured beside modelled."""
    table = Table("role", "bytes", "depth", "figure", "measured", "model", "off", box=None)
    for each in compared:
        for key, off in each.errors.items():
            load, measured = each.point.load, each.point.measured[key]
            table.add_row(
                each.point.role, str(load["bytes"]), str(load["depth"]), key,
                f"{measured:.5g}", f"{each.modelled[key]:.5g}", f"{off:+.1f} %",
            )  # fmt: skip
    return table
