# SPDX-License-Identifier: GPL-2.0-only
"""Find the schedulers that tuned's profile, tmpfiles.d and sysfs.conf choose."""

import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from triagectl.sysfs import Disk
from triagectl.system import System, names, number, read

_PROFILES = ("etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned")
_TMPFILES = ("etc/tmpfiles.d", "run/tmpfiles.d", "usr/lib/tmpfiles.d")


@dataclass(frozen=True)
class Line:
    """A line of a program's configuration that chooses a scheduler."""

    program: str
    file: str
    line: int
    value: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def lines(system: System, disk: Disk) -> list[Line]:
    """Return the lines that choose a disk's scheduler, in the order in which they take effect."""
    return [*_tmpfiles(system, disk), *_sysfs_conf(system, disk), *_tuned(system, disk)]


def profile(system: System) -> str:
    """Return tuned's active profiles, separated by spaces; empty if tuned does not run."""
    pid = number(system.read("run/tuned/tuned.pid"))
    if pid is None or not system.path(f"proc/{pid}").exists():
        return ""
    return (system.read("etc/tuned/active_profile") or "").strip()


def _tuned(system: System, disk: Disk) -> Iterator[Line]:
    found: dict[str, Line] = {}
    for name in profile(system).split():
        _read_profile(system, disk, name, found, set())
    yield from found.values()


def _read_profile(
    system: System, disk: Disk, name: str, found: dict[str, Line], seen: set[str]
) -> None:
    """Read the profiles that a profile includes, then the profile itself, which overrides them."""
    if name in seen:
        return
    seen.add(name)
    for folder in _PROFILES:
        path = system.path(folder) / name / "tuned.conf"
        text = read(path)
        if text is not None:
            break
    else:
        return
    shown = f"/{folder}/{name}/tuned.conf"
    sections = _sections(text)
    for _, section, key, value in sections:
        if section == "main" and key == "include":
            for one in re.split(r"[,\s]+", value):
                _read_profile(system, disk, one, found, seen)
    settings = {(section, key): value for _, section, key, value in sections}
    for line, section, key, value in sections:
        of = settings.get((section, "type"), section)
        if of == "disk" and key == "elevator" and _for(disk, settings.get((section, "devices"))):
            offered = [word for word in re.split(r"[,\s]+", value) if word in disk.schedulers]
            chosen = offered[0] if offered else value
            found[section] = Line("tuned", shown, line, chosen)
        elif of == "sysfs" and fnmatch.fnmatchcase(_attribute(disk), key):
            found[key] = Line("tuned", shown, line, value)


def _sections(text: str) -> list[tuple[int, str, str, str]]:
    """Return line number, section, name and value of each setting in an ini file."""
    found, section = [], ""
    for line, content in enumerate(text.splitlines(), 1):
        content = content.strip()
        if head := re.fullmatch(r"\[(.+)\]", content):
            section = head[1]
        elif "=" in content and content[0] not in "#;":
            key, _, value = content.partition("=")
            found.append((line, section, key.strip(), value.strip()))
    return found


def _for(disk: Disk, devices: str | None) -> bool:
    """Return whether a list of patterns matches a disk; a pattern with ! excludes disks."""
    patterns = re.split(r"[,\s]+", devices.strip()) if devices else ["*"]
    wanted = [one for one in patterns if not one.startswith("!")] or ["*"]
    without = [one[1:] for one in patterns if one.startswith("!")]
    return _any(disk.name, wanted) and not _any(disk.name, without)


def _any(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, one) for one in patterns)


def _attribute(disk: Disk) -> str:
    return f"/sys/block/{disk.name}/queue/scheduler"


def _conf(system: System, folder: str) -> list[str]:
    """Return the names of a folder's `.conf` files: tmpfiles and sysfsutils read no others."""
    return [name for name in names(system.path(folder)) if name.endswith(".conf")]


def _tmpfiles(system: System, disk: Disk) -> Iterator[Line]:
    files: dict[str, tuple[Path, str]] = {}
    for folder in _TMPFILES:
        for name in _conf(system, folder):
            files.setdefault(name, (system.path(folder) / name, f"/{folder}/{name}"))
    for name in sorted(files):
        path, shown = files[name]
        for line, content in enumerate((read(path) or "").splitlines(), 1):
            words = content.split(None, 6)
            if len(words) < 7 or words[0].rstrip("!+") != "w":
                continue
            if fnmatch.fnmatchcase(_attribute(disk), words[1]):
                yield Line("systemd-tmpfiles", shown, line, words[6].strip())


def _sysfs_conf(system: System, disk: Disk) -> Iterator[Line]:
    folder = "etc/sysfs.d"
    files = [f"{folder}/{name}" for name in _conf(system, folder)]
    for name in ["etc/sysfs.conf", *files]:
        for line, content in enumerate((system.read(name) or "").splitlines(), 1):
            key, _, value = content.partition("=")
            if key.strip() == f"block/{disk.name}/queue/scheduler":
                yield Line("sysfsutils", f"/{name}", line, value.strip())
