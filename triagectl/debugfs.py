# SPDX-License-Identifier: GPL-2.0-only
"""Read triage's own files in debugfs."""

from dataclasses import dataclass
from pathlib import Path

from triagectl.system import System, names, read

CLASSES = ("HIGH", "NORMAL", "LOW")


@dataclass(frozen=True)
class Inside:
    """The state of the scheduler `triage` on a disk.

    depth    the numbers in the file `depth`, by name; times in ns
    reasons  by reason, how many requests of each class were dispatched

    The lists have a number for each class, in the order of CLASSES.
    """

    depth: dict[str, int]
    queued: list[int]
    in_flight: list[int]
    dispatched: list[int]
    reasons: dict[str, list[int]]


def folder(system: System, disk: str) -> Path | None:
    """Return the debugfs folder of a disk's scheduler; None if it cannot be seen."""
    top = system.debugfs()
    found = top / "block" / disk / "sched" if top else None
    return found if found and found.is_dir() else None


def files(system: System, disk: str) -> dict[str, str]:
    """Return the text of each debugfs file of a disk's scheduler, by file name."""
    found = folder(system, disk)
    texts = {name: read(found / name) for name in names(found)} if found else {}
    return {name: text for name, text in texts.items() if text is not None}


def inside(system: System, disk: str) -> Inside | None:
    """Return the state of `triage` on a disk; None if debugfs does not show it."""
    found = folder(system, disk)
    if not found or read(found / "depth") is None:
        return None
    return Inside(
        {name: values[0] for name, values in _named(read(found / "depth")).items()},
        _numbers(read(found / "queued")),
        _numbers(read(found / "in_flight")),
        _numbers(read(found / "dispatched")),
        _named(read(found / "reasons")),
    )


def _numbers(text: str | None) -> list[int]:
    return [int(word) for word in (text or "").split()] or [0, 0, 0]


def _named(text: str | None) -> dict[str, list[int]]:
    lines = [line.split() for line in (text or "").splitlines()]
    return {words[0]: [int(word) for word in words[1:]] for words in lines if len(words) > 1}
