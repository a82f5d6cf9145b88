# SPDX-License-Identifier: GPL-2.0-only
"""The udev rule that chooses a disk's scheduler, found by reading the rules as udev does.

udev keeps no record of its rules' effects, so this module evaluates the rules again for a disk, as
far as it can without running programs. If a match depends on a program, the rule is `perhaps`.
"""

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from triagectl.sysfs import Disk
from triagectl.system import System, names, read

#: The same name in an earlier folder takes the place of one in a later.
_FOLDERS = (
    "etc/udev/rules.d",
    "run/udev/rules.d",
    "usr/local/lib/udev/rules.d",
    "usr/lib/udev/rules.d",
    "lib/udev/rules.d",
)
_TOKEN = re.compile(r'(\w+)(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*[ei]?"((?:[^"\\]|\\.)*)"')
_OF_PARENTS = ("KERNELS", "SUBSYSTEMS", "DRIVERS", "ATTRS")
#: Matches that depend on programs, or on what rules before have set.
_PROGRAMS = ("PROGRAM", "RESULT", "IMPORT", "CONST", "SYSCTL", "TAG", "TAGS", "SYMLINK", "NAME")


@dataclass(frozen=True)
class Rule:
    """A line that chooses a scheduler for a disk.

    value    the scheduler; None if a program that the line runs may choose one
    certain  whether the line is sure to match this disk
    """

    file: str
    line: int
    value: str | None
    certain: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class _Device:
    """A disk as rules see it."""

    system: System
    disk: Disk
    properties: dict[str, str]
    parents: list[Path]


def rules(system: System, disk: Disk) -> list[Rule]:
    """Return the lines that choose a scheduler for a disk, in udev's order: the last one wins."""
    device = _Device(system, disk, _properties(system, disk), _parents(system, disk))
    return [rule for path, shown in _files(system) for rule in _in_file(path, shown, device)]


def _files(system: System) -> list[tuple[Path, str]]:
    found: dict[str, tuple[Path, str]] = {}
    for folder in _FOLDERS:
        for name in names(system.path(folder)):
            if name.endswith(".rules"):
                found.setdefault(name, (system.path(folder) / name, f"/{folder}/{name}"))
    return [found[name] for name in sorted(found)]


def _properties(system: System, disk: Disk) -> dict[str, str]:
    found = dict(
        line.split("=", 1) for line in (disk.attribute("uevent") or "").split("\n") if "=" in line
    )
    for line in (system.read(f"run/udev/data/b{disk.attribute('dev')}") or "").splitlines():
        if line.startswith("E:") and "=" in line:
            name, value = line[2:].split("=", 1)
            found[name] = value
    return found


def _parents(system: System, disk: Disk) -> list[Path]:
    """Return the folders of the disk and of the devices above it."""
    top = system.path("sys/devices").resolve()
    folder = disk.folder.resolve()
    return [path for path in (folder, *folder.parents) if path.is_relative_to(top) and path != top]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the rules of a file with the numbers of their first lines."""
    begun, joined = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        begun = begun if joined else number
        joined += line.rstrip()
        if joined.endswith("\\"):
            joined = joined[:-1]
        else:
            if joined.strip():
                yield begun, joined
            joined = ""


def _in_file(path: Path, shown: str, device: _Device) -> Iterator[Rule]:
    skip_to = None
    for number, line in _lines(read(path) or ""):
        tokens = _TOKEN.findall(line)
        if skip_to is not None:
            if ("LABEL", "", "=", skip_to) in tokens:
                skip_to = None
            else:
                continue
        matched = _matches(tokens, device)
        if matched is False:
            continue
        for key, name, operator, value in tokens:
            if operator in ("==", "!="):
                continue
            if key == "GOTO" and matched:
                skip_to = value
            elif key == "ATTR" and name == "queue/scheduler":
                yield Rule(shown, number, value, matched is True)
            elif key == "RUN" and "scheduler" in value:
                yield Rule(shown, number, None, False)


def _matches(tokens: Sequence[tuple[str, str, str, str]], device: _Device) -> bool | None:
    """Whether all matches of a rule hold; None if that depends on a program."""
    certain: bool | None = True
    above = []
    for key, name, operator, value in tokens:
        if operator not in ("==", "!="):
            continue
        if key in _OF_PARENTS:
            above.append((key, name, operator, value))
            continue
        found = _values(key, name, value, device)
        if found is None:
            certain = None
        elif any(_like(one, value) for one in found) != (operator == "=="):
            return False
    if above and not any(_parent_matches(path, above) for path in device.parents):
        return False
    return certain


def _values(key: str, name: str, value: str, device: _Device) -> list[str] | None:
    """Return the values that a key may be compared with; None if only udev knows."""
    if key in _PROGRAMS:
        return None
    if key == "ACTION":
        return ["add", "change"]
    if key == "SUBSYSTEM":
        return ["block"]
    if key == "KERNEL":
        return [device.disk.name]
    if key == "DEVPATH":
        return ["/" + str(device.parents[0]).partition("/sys/")[2]] if device.parents else [""]
    if key == "ENV":
        return [device.properties.get(name, "")]
    if key == "ATTR":
        return [device.disk.attribute(name) or ""]
    if key == "TEST":
        there = (device.disk.folder / value).exists() or device.system.path(value).exists()
        return [value] if there else []
    return None


def _parent_matches(path: Path, wanted: Sequence[tuple[str, str, str, str]]) -> bool:
    return all(
        _like(_of_parent(path, key, name), value) == (operator == "==")
        for key, name, operator, value in wanted
    )


def _of_parent(path: Path, key: str, name: str) -> str:
    if key == "KERNELS":
        return path.name
    if key == "ATTRS":
        return read(path / name) or ""
    link = path / ("subsystem" if key == "SUBSYSTEMS" else "driver")
    return link.resolve().name if link.exists() else ""


def _like(text: str, pattern: str) -> bool:
    """Return whether a text matches one of udev's patterns."""
    return any(fnmatch.fnmatchcase(text, one) for one in pattern.split("|"))
