# SPDX-License-Identifier: GPL-2.0-only
"""Save and restore the weights that control groups have on one disk.

The kernel keeps these weights with the scheduler's data: a disk that leaves triage or bfq loses
them, in every group. A group's default weight belongs to no disk, and stays.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from triagectl.sysfs import Disk
from triagectl.system import System, folders, read, rewrite

#: The files with a line for each disk: control groups version 2, then version 1.
_FILES = ("io.triage.weight", "io.bfq.weight", "blkio.bfq.weight_device")


def of(system: System, disk: Disk) -> dict[str, str]:
    """Return the weights that control groups have on this disk, by the path of the file."""
    found = {}
    for top in _tops(system):
        for folder in folders(top):
            for name in _FILES:
                weight = _weight(folder / name, disk)
                if weight is not None:
                    found[str(folder / name)] = weight
    return found


def put_back(system: System, disk: Disk, before: dict[str, str]) -> list[str]:
    """Restore the weights that are gone. Return a sentence for each that could not be restored.

    A weight that is there now was set after the scheduler was chosen again, and stays.
    """
    wrong = [
        f"{path} is no control group's weight" for path in before if not _is_weight(system, path)
    ]
    for path, weight in lost(system, disk, before).items():
        try:
            rewrite(Path(path), f"{disk.attribute('dev')} {weight}")
        except OSError as error:
            # The group may have ended just now.
            if Path(path).parent.is_dir():
                wrong.append(
                    f"{path} has lost the weight {weight} of {disk.name}: {error.strerror}"
                )
    return wrong


def lost(system: System, disk: Disk, before: dict[str, str]) -> dict[str, str]:
    """Return the weights that are gone, except those of groups that have ended."""
    return {
        path: weight
        for path, weight in before.items()
        if _is_weight(system, path)
        and Path(path).parent.is_dir()
        and _weight(Path(path), disk) is None
    }


def _is_weight(system: System, name: str) -> bool:
    """Return whether a path is that of a control group's weight."""
    path = Path(name)
    return (
        path.name in _FILES
        and ".." not in path.parts
        and any(path.is_relative_to(top) for top in _tops(system))
    )


def _weight(path: Path, disk: Disk) -> str | None:
    found = re.search(rf"^{disk.attribute('dev')}\s+(\d+)$", read(path) or "", re.M)
    return found[1] if found else None


def _tops(system: System) -> Iterator[Path]:
    """Yield the top folders of control groups: of version 2, and of version 1's `blkio`."""
    for top in (system.mounted("cgroup2"), system.mounted("cgroup", "blkio")):
        if top is not None:
            yield top
