# SPDX-License-Identifier: GPL-2.0-only
"""Define the command `fit`: make a model of a drive from fio's results, for use with --device.

`fit measure` measures a drive, and writes the results that `fit` needs.
"""

import argparse
import os
import re
import tempfile
from pathlib import Path

from rich.table import Table

from triagelab.ask import devices, drives
from triagelab.base.errors import RequestError
from triagelab.commands import run, telling
from triagelab.fit import fioresults, fitchart, fitting
from triagelab.fit.simulator import Simulator
from triagelab.run import machines, rundir


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `fit`."""
    parser.add_argument(
        "directory", metavar="DIR|measure", type=Path, help="measure: take the results first"
    )
    parser.add_argument("--name", help="the drive's name (default: the folder's)")
    parser.add_argument(
        "--out",
        metavar="FILE|DIR",
        type=Path,
        help="the drive's file (default: drives/NAME.toml); for measure, the results' folder",
    )
    parser.add_argument("--machine", help="for measure: host (the default), vm or sim")
    parser.add_argument(
        "--device", metavar="D", help="for measure: the device to measure; with host a disk, /dev/X"
    )
    parser.add_argument(
        "--allow-write",
        action="store_true",
        help="for measure: measure writes too; they overwrite the disk",
    )
    parser.add_argument(
        "--seconds", metavar="N", type=int, help="for measure: seconds for each point"
    )
    parser.add_argument(
        "--resume", action="store_true", help="for measure: continue what --out has"
    )
    parser.set_defaults(command=_either)


def _either(given: argparse.Namespace) -> int:
    if str(given.directory) == "measure":
        return _measure(given)
    for option in ("machine", "device", "allow_write", "seconds", "resume"):
        if getattr(given, option):
            raise RequestError(f"--{option.replace('_', '-')} is for ./triage fit measure")
    return _fit(given)


def _measure(given: argparse.Namespace) -> int:
    """Run the experiment drive-reads once and, with --allow-write, drive-writes once."""
    if given.out is None or given.device is None:
        raise RequestError("fit measure needs --device, and --out with a folder for the results")
    if given.name:
        raise RequestError("--name is for ./triage fit DIR, after fit measure")
    if given.seconds is not None and given.seconds < 1:
        raise RequestError("--seconds: give 1 or more")
    if given.resume:
        rundir.new_folder(given.out, "", resume=True)  # raises an error if the folder is missing
    machine = given.machine or "host"
    status = 0
    for name in ("drive-reads", *(["drive-writes"] if given.allow_write else [])):
        words = [name, "--schedulers", "none", "--repeats", "1", "--machine", machine]
        words += ["--device", given.device, "--out", str(given.out / name)]
        words += ["--vary", f"seconds={given.seconds}"] if given.seconds is not None else []
        # An interrupted `fit measure` may not have begun with the writes.
        words += ["--resume"] if given.resume and (given.out / name).exists() else []
        words += ["--allow-write"] if given.allow_write and machines.kind(machine).is_here else []
        status = max(status, run.called(words))
    if status == 0:
        telling.output.print(
            f"measured; a drive is made of it by: ./triage fit {given.out} --name NAME"
        )
    return status


def _fit(given: argparse.Namespace) -> int:
    name = given.name
    if name is None:
        name = re.sub(r"[^a-z0-9]+", "-", given.directory.resolve().name.lower()).strip("-")
    _require_free_name(name)
    out, drawn = _files(given.out or drives.FOLDER / f"{name}.toml")
    found = fioresults.read(given.directory)
    for sentence in found.left_out:
        telling.output.print(sentence)
    roles = fitting.with_roles(found.points)
    fitted = [point for point in roles if point.role == "fit"]
    if len(fitted) < 3:
        raise RequestError(
            f"{given.directory} has too few random reads of one process: the fit needs them at "
            "five depths, for instance 1, 2, 4, 8 and 16, or at three depths with two block sizes"
        )
    with tempfile.TemporaryDirectory() as folder:
        simulate = Simulator.build(Path(folder), sanitize=False)
        unfitted = _unfitted(name, given.directory, roles, found.host_ns(fitted))
        drive = fitting.fitted(simulate, unfitted)
        drive = fitting.judged(simulate, drive)
        compared = fitting.compare(simulate, drive)
    out.write_text(drives.text(drive))
    telling.show(_table(compared))
    telling.output.print(f"{drive.kind}; {drive.error_text}")
    for each in compared:
        for key in each.misses:
            telling.output.print(f"missed: {key} at {each.point}: {each.errors[key]:+.0f} %")
    fitchart.write(drawn, name, compared)
    telling.output.print(f"written: {out}, drawn: {drawn}")
    return 0


def _require_free_name(name: str) -> None:
    """Raise RequestError unless a new drive and its file can have the name `name`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise RequestError(
            f"{name!r} cannot be a drive's name: give --name with letters, digits, dots, dashes "
            "and underscores, and first a letter or a digit"
        )
    if name in devices.names():
        raise RequestError(f"there is a device {name} already: choose another --name")


def _files(out: Path) -> tuple[Path, Path]:
    """Return the paths of the drive's file and its chart. Raise RequestError if one cannot be made.

    A drive takes its name from its file's name, so no device may have that name already.
    """
    if out.suffix != ".toml":
        raise RequestError(f"--out {out}: give a file NAME.toml")
    _require_free_name(out.stem)
    if not out.parent.is_dir():
        raise RequestError(f"there is no folder {out.parent}: make it, or choose another --out")
    if not os.access(out.parent, os.W_OK):
        raise RequestError(f"you may not write to the folder {out.parent}: choose another --out")
    both = out, out.with_suffix(".html")
    for path in both:
        if path.exists():
            raise RequestError(f"{path} exists: choose another --name or --out")
    return both


def _unfitted(
    name: str, folder: Path, points: tuple[drives.Point, ...], host_ns: int
) -> drives.Drive:
    """Return a drive with its measured points; the fit replaces kind, profile and parameters."""
    return drives.Drive(
        name=name,
        kind="",
        product=folder.resolve().name,
        profile="flash",
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
    """Build a table of measured and modelled figures."""
    table = Table("role", "bytes", "depth", "figure", "measured", "model", "off", box=None)
    for each in compared:
        for key, off in each.errors.items():
            load, measured = each.point.load, each.point.measured[key]
            table.add_row(
                each.point.role, str(load["bytes"]), str(load["depth"]), key,
                f"{measured:.5g}", f"{each.modelled[key]:.5g}", f"{off:+.1f} %",
            )  # fmt: skip
    return table
