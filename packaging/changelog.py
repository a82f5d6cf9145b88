#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Print parts of CHANGELOG.md in the form that packages need.

    changelog.py date                the newest version's day, in seconds since 1970
    changelog.py debian MAINTAINER   the file in the format of Debian's changelogs
    changelog.py rpm MAINTAINER      the same for a spec file

Exit status 2 if CHANGELOG.md's newest version is not the one in kernel/triage/version.h, or lists
no change.
"""

import datetime
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADING = re.compile(r"^## (\d+\.\d+\.\d+) – (\d{4}-\d{2}-\d{2})$", re.MULTILINE)


class ChangelogError(Exception):
    """Raised if the changelog does not fit the version; the message says what to do."""


@dataclass(frozen=True)
class Release:
    """A version, the beginning of its day in UTC, and its changes: one string for each item."""

    version: str
    day: datetime.datetime
    changes: list[str]


def releases(text: str) -> list[Release]:
    """Return the changelog's entries, newest first."""
    parts = HEADING.split(text)[1:]
    return [
        Release(version, datetime.datetime.fromisoformat(f"{day}T00:00:00+00:00"), items(body))
        for version, day, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def items(body: str) -> list[str]:
    """Return the items of a version's lists, each in one line, without Markdown's marks."""
    found = re.findall(r"^- (.+(?:\n  .+)*)", body, re.MULTILINE)
    return [re.sub(r"\s+", " ", re.sub(r"\[([^]]+)]\([^)]+\)|[*`]", r"\1", item)) for item in found]


def checked(found: list[Release], version: str) -> list[Release]:
    """Return `found`; raise an error if its first release is not `version`, or has no change."""
    if not found or found[0].version != version:
        has = found[0].version if found else "none"
        raise ChangelogError(
            f"kernel/triage/version.h says {version}, the newest heading of CHANGELOG.md is {has}; "
            f"add `## {version} – DAY` there, DAY as 2026-01-31"
        )
    if not found[0].changes:
        raise ChangelogError(f"CHANGELOG.md lists no change for {version}: add a line `- …`")
    return found


def debian(found: list[Release], maintainer: str) -> str:
    """Return a Debian changelog."""
    entries = []
    for release in found:
        changes = "\n".join(
            textwrap.fill(change, 78, initial_indent="  * ", subsequent_indent="    ")
            for change in release.changes
        )
        day = release.day.strftime("%a, %d %b %Y %H:%M:%S %z")
        entries.append(
            f"triage-dkms ({release.version}) unstable; urgency=medium\n\n{changes}\n\n"
            f" -- {maintainer}  {day}\n"
        )
    return "\n".join(entries)


def rpm(found: list[Release], maintainer: str) -> str:
    """Return the text of a spec file's %changelog."""
    entries = []
    for release in found:
        # In a spec file % begins a macro.
        changes = "\n".join(f"- {change}" for change in release.changes).replace("%", "%%")
        day = release.day.strftime("%a %b %d %Y")
        entries.append(f"* {day} {maintainer} - {release.version}-1\n{changes}\n")
    return "\n".join(entries)


def main(arguments: list[str]) -> int:
    """Run the program; return its exit status."""
    header = (ROOT / "kernel/triage/version.h").read_text()
    version = re.findall(r'^#define TRIAGE_VERSION "(.+)"$', header, re.MULTILINE)[0]
    try:
        found = checked(releases((ROOT / "CHANGELOG.md").read_text()), version)
    except ChangelogError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    match arguments:
        case ["date"]:
            print(int(found[0].day.timestamp()))
        case ["debian", maintainer]:
            print(debian(found, maintainer), end="")
        case ["rpm", maintainer]:
            print(rpm(found, maintainer), end="")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
