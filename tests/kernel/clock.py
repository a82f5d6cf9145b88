# SPDX-License-Identifier: GPL-2.0-only
"""Our seconds of each check, for pytest's list of durations.

A fixture of a session runs every guest, so pytest would say that all of it is the setup of the
first test.
"""

import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from triagelab.check import verify

_POLL_S = 0.5
_TOLD = re.compile(r"^check (\S+)\.sh (begins|ended)", re.M)

#: Seconds in which guests ran during a setup, and those of each test's check by the test's node.
_ran = pytest.StashKey[float]()
_took = pytest.StashKey[dict[str, float]]()


class Clock:
    """Notes when checks begin and end, by what their guests say on their consoles."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._seen: dict[tuple[Path, str, str], float] = {}

    def look(self) -> None:
        """Note what the guests have said by now."""
        now = time.monotonic()
        for folder in self._folders:
            for console in folder.glob("*/console.log"):
                for name, what in _TOLD.findall(console.read_text(errors="replace")):
                    self._seen.setdefault((folder, name, what), now)

    def seconds(self, folder: Path, check: str, ended: float) -> float:
        """Return how long a check took; one whose guest died until its console's last word."""
        begin = self._seen.get((folder, check, "begins"))
        if begin is None:
            return 0.0
        return self._seen.get((folder, check, "ended"), max(begin, ended)) - begin


def run(request: pytest.FixtureRequest, guests: dict[str, tuple[verify.Guest, str]]) -> None:
    """Run guests by `verify`; note the seconds of tests' checks, given by the tests' nodes."""
    clock = Clock(sorted({guest.folder for guest, _ in guests.values()}))
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_POLL_S):
            clock.look()

    begin, began_at = time.monotonic(), time.time()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        verify.run(list({id(guest): guest for guest, _ in guests.values()}.values()))
    finally:
        over.set()
        watcher.join()
    clock.look()
    stash = request.config.stash
    stash[_ran] = stash.get(_ran, 0.0) + time.monotonic() - begin
    for node, (guest, check) in guests.items():
        words = [path.stat().st_mtime for path in guest.folder.glob("*/console.log")]
        ended = begin + max(words, default=began_at) - began_at
        stash.setdefault(_took, {})[node] = clock.seconds(guest.folder, check, ended)


def attribute(item: pytest.Item, report: pytest.TestReport) -> None:
    """Give each test the seconds of its check, and take them from the setup that ran them all."""
    stash = item.config.stash
    if report.when == "setup":
        report.duration -= stash.get(_ran, 0.0)
        stash[_ran] = 0.0
    elif report.when == "call":
        report.duration += stash.get(_took, {}).get(item.nodeid, 0.0)
