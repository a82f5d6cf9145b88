#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Print the errors of each drive's model, point by point, for the drives in drives/.

Usage: `personalities.py [NAME]...`. With `--write` the program also puts the errors and the misses
into the drives' files. A miss is a figure with a larger error than drives.JUDGED allows.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from triagelab.ask import drives
from triagelab.fit import fitting
from triagelab.fit.simulator import Simulator


def _lines(drive: drives.Drive, compared: list[fitting.Compared]) -> Iterator[str]:
    for each in compared:
        cells = (
            f"{key} {each.point.measured[key]:g} {each.modelled[key]:.4g} {off:+.1f} %"
            for key, off in each.errors.items()
        )
        missed = " MISSED " + " ".join(each.misses) if each.misses else ""
        yield f"{drive.name} {each.point.role} {each.point}: {', '.join(cells)}{missed}"
    yield f"{drive.name}: {fitting.summary(compared)}"


def main() -> None:
    """Print the errors; with --write, also put them into the drives' files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", nargs="*", choices=[[], *drives.names()])
    parser.add_argument("--write", action="store_true", help="put the errors into the files")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        simulate = Simulator.build(Path(folder), sanitize=False)
        for name in given.name or drives.names():
            drive = drives.find(name)
            print("\n".join(_lines(drive, fitting.compare(simulate, drive))), flush=True)
            if given.write:
                path = drives.FOLDER / f"{name}.toml"
                path.write_text(drives.text(fitting.judged(simulate, drive)))


if __name__ == "__main__":
    main()
