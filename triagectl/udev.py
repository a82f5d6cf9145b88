# SPDX-License-Identifier: GPL-2.0-only
"""Find the udev rules that choose a disk's scheduler, by reading the rules like udev does.

udev keeps no record of its rules' effects. So this module evaluates the rules again for a disk, as
far as it can without running programs. If a match depends on a program, the rule is not `certain`.

A rule may depend on the scheduler that the disk had before, but the disk shows only its present
one. So the module starts with the kernel's choice and applies the first event, `add`. Then it
applies `change` events until they make no difference.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from triagectl import patterns
from triagectl.sysfs import Disk
from triagectl.system import System, names, read

#: A file in an earlier folder replaces a file of the same name in a later one.
_FOLDERS = (
    "etc/udev/rules.d",
    "run/udev/rules.d",
    "usr/local/lib/udev/rules.d",
    "usr/lib/udev/rules.d",
    "lib/udev/rules.d",
)
_TOKEN = re.compile(r'(\w+)(?:\{([^}]*)\})?\s*(==|!=|\+=|-=|:=|=)\s*([ei]*)"((?:[^"\\]|\\.)*)"')
_OF_PARENTS = ("KERNELS", "SUBSYSTEMS", "DRIVERS", "ATTRS")
_SCHEDULER = "queue/scheduler"
#: The choice of a scheduler changes these attributes, so their earlier values are not known.
_WITH_IT = re.compile(r"queue/(iosched/.*|nr_requests|wbt_lat_usec)")


class _Token(NamedTuple):
    """A match or an assignment of a rule."""

    key: str
    name: str
    operator: str
    prefix: str
    value: str

    @property
    def is_match(self) -> bool:
        """Return whether the token is a condition. PROGRAM and IMPORT are, with any operator."""
        return self.operator in ("==", "!=") or self.key in ("PROGRAM", "IMPORT")

    @property
    def of_the_scheduler(self) -> bool:
        """Return whether the token compares or sets the scheduler."""
        return self.key == "ATTR" and self.name == _SCHEDULER

    def holds(self, text: str | None) -> bool:
        """Return whether the token holds for a text. No token holds for None, a missing attribute.

        Blanks at the end of an attribute count only if the pattern ends with a blank.
        """
        if text is None:
            return False
        if self.key in ("ATTR", "ATTRS"):
            text = text.rstrip() if self.value[-1:].strip() else text.rstrip("\n")
        return patterns.matches(text, self.value, "i" in self.prefix) == (self.operator == "==")


@dataclass(frozen=True)
class Rule:
    """A line that chooses a scheduler for a disk.

    value    the scheduler; None if that is not known
    certain  whether the disk is sure to have that scheduler after the line
    """

    file: str
    line: int
    value: str | None
    certain: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class _Device:
    """A disk, with the properties and parent devices that rules can match."""

    system: System
    disk: Disk
    properties: dict[str, str]
    parents: list[Path]


@dataclass(frozen=True)
class _Way:
    """One possible state of the disk while udev goes through the rules' lines in an event.

    scheduler  the disk's scheduler now
    seen       the scheduler that udev read when a rule first compared it in this event; None
               before. udev reads an attribute only once in an event, so later rules compare this
               value too
    label      the label that a GOTO looks for; lines before the label are skipped
    """

    scheduler: str
    seen: str | None = None
    label: str | None = None


@dataclass
class _Line:
    """A line of a rules file, with the result of the events so far.

    acts     whether the line may have chosen a scheduler
    certain  whether the disk surely had the line's scheduler after this line
    """

    file: str
    number: int
    tokens: list[_Token]
    acts: bool = False
    certain: bool = True

    @property
    def choice(self) -> _Token | None:
        """Return the token that chooses a scheduler, itself or through a program; else None."""
        for token in self.tokens:
            if not token.is_match and token.of_the_scheduler:
                return token
            if token.key == "RUN" and "scheduler" in token.value:
                return token
        return None

    @property
    def value(self) -> str | None:
        """Return the scheduler that the line chooses; None if only udev knows."""
        choice = self.choice
        if choice is None or choice.key == "RUN" or re.search("[$%]", choice.value):
            return None
        return choice.value


def rules(system: System, disk: Disk, before: Sequence[str]) -> list[Rule]:
    """Return the lines that choose a scheduler for a disk, in udev's order: the last one wins.

    `before` are the schedulers that the disk may have had before udev's first event.
    """
    device = _Device(system, disk, _properties(system, disk), _parents(system, disk))
    files = [_read(path, shown) for path, shown in _files(system)]
    reached = _event("add", set(before), files, device)
    had: set[str] = set()
    while reached - had:
        had |= reached
        reached = _event("change", had, files, device)
    return [
        Rule(line.file, line.number, line.value, line.certain)
        for lines in files
        for line in lines
        if line.acts
    ]


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
    """Return the sysfs folders of the disk and of its parent devices."""
    top = system.path("sys/devices").resolve()
    folder = disk.folder.resolve()
    return [path for path in (folder, *folder.parents) if path.is_relative_to(top) and path != top]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the rules of a file with the numbers of their first lines."""
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


def _read(path: Path, shown: str) -> list[_Line]:
    """Return the lines of a file; none if the word `scheduler` is not in the file."""
    text = read(path) or ""
    if "scheduler" not in text:
        return []
    return [_Line(shown, number, _tokens(line)) for number, line in _lines(text)]


def _tokens(line: str) -> list[_Token]:
    found = []
    for key, name, operator, prefix, value in _TOKEN.findall(line):
        if "e" in prefix:
            value = value.encode("latin-1", "backslashreplace").decode("unicode_escape", "replace")
        else:
            value = value.replace('\\"', '"')
        found.append(_Token(key, name, operator, prefix, value))
    return found


def _event(action: str, before: set[str], files: list[list[_Line]], device: _Device) -> set[str]:
    """Apply the rules to a disk for one event. Return the schedulers that it may have then."""
    ways = {_Way(scheduler) for scheduler in before}
    programs = False
    for lines in files:
        # A GOTO cannot leave its file.
        ways = {replace(way, label=None) for way in ways}
        for line in lines:
            ways = _after(line, ways, action, device)
            programs |= line.acts and line.choice is not None and line.choice.key == "RUN"
    # udev runs programs last, and they may choose any scheduler.
    more = device.disk.schedulers if programs else []
    return {way.scheduler for way in ways} | set(more)


def _after(line: _Line, ways: set[_Way], action: str, device: _Device) -> set[_Way]:
    """Return the disk's possible states after a line, and set the line's `acts` and `certain`."""
    labels = [token.value for token in line.tokens if token.key == "LABEL"]
    behind: set[_Way] = set()
    acts, certain = False, True
    for way in ways:
        if way.label is not None and way.label not in labels:
            behind.add(way)
            continue
        matched, way = _matched(line.tokens, replace(way, label=None), action, device)
        if matched is not True:
            behind.add(way)
        if matched is not False:
            acts = True
            certain &= matched is True
            behind |= _taken(line, way, device)
    if line.choice is not None and (acts or action == "add"):
        certain &= all(way.scheduler == line.value for way in behind)
        line.certain &= acts and certain
        line.acts |= acts
    return behind


def _taken(line: _Line, way: _Way, device: _Device) -> set[_Way]:
    """Return the disk's possible states after a line whose matches hold."""
    for token in line.tokens:
        if token.key == "GOTO":
            way = replace(way, label=token.value)
    if line.choice is None or line.choice.key == "RUN":
        return {way}
    values = device.disk.schedulers if line.value is None else [line.value]
    return {replace(way, scheduler=value) for value in values}


def _matched(
    tokens: Sequence[_Token], way: _Way, action: str, device: _Device
) -> tuple[bool | None, _Way]:
    """Return whether all matches hold, and `way` with `seen` set if one of them read the scheduler.

    The first value is None if only udev can know it.
    """
    certain: bool | None = True
    above = []
    for token in tokens:
        if not token.is_match or token.of_the_scheduler:
            continue
        if token.key in _OF_PARENTS:
            above.append(token)
            continue
        holds = _holds(token, action, device)
        if holds is False:
            return False, way
        certain = certain and holds
    if above and not any(_parent_matches(path, above) for path in device.parents):
        return False, way
    for token in tokens:
        if token.is_match and token.of_the_scheduler:
            way = replace(way, seen=way.seen or way.scheduler)
            if not token.holds(_offer(device.disk, way.seen)):
                return False, way
    return certain, way


def _offer(disk: Disk, scheduler: str | None) -> str:
    """Return the text that a disk's scheduler attribute would have with this scheduler."""
    offered = disk.schedulers
    if scheduler not in offered:
        offered = [*offered, str(scheduler)]
    return " ".join(f"[{name}]" if name == scheduler else name for name in offered)


def _holds(token: _Token, action: str, device: _Device) -> bool | None:
    """Return whether a match holds; None if only udev knows."""
    key, name = token.key, token.name
    if key == "ACTION":
        return token.holds(action)
    if key == "SUBSYSTEM":
        return token.holds("block")
    if key == "KERNEL":
        return token.holds(device.disk.name)
    if key == "DEVPATH":
        below = str(device.parents[0]).partition("/sys/")[2] if device.parents else ""
        return token.holds(f"/{below}")
    if key == "ENV" and not name.startswith("."):
        return token.holds(device.properties.get(name, ""))
    if key == "ATTR" and not (_WITH_IT.fullmatch(name) or re.search(r"^\[|[$%]", name)):
        return token.holds(_attribute(device.disk.folder, name))
    if key == "TEST":
        below_it = device.disk.folder / token.value
        there = below_it.exists() or device.system.path(token.value).exists()
        return there == (token.operator == "==")
    # The match depends on a program, on earlier rules or on data that udev does not keep.
    return None


def _attribute(folder: Path, name: str) -> str | None:
    """Return an attribute, including blanks at its ends; None if it cannot be read."""
    try:
        return (folder / name).read_text(errors="replace")
    except OSError:
        return None


def _parent_matches(path: Path, wanted: Sequence[_Token]) -> bool:
    return all(token.holds(_of_parent(path, token.key, token.name)) for token in wanted)


def _of_parent(path: Path, key: str, name: str) -> str | None:
    if key == "KERNELS":
        return path.name
    if key == "ATTRS":
        return _attribute(path, name)
    link = path / ("subsystem" if key == "SUBSYSTEMS" else "driver")
    return link.resolve().name if link.exists() else ""
