# SPDX-License-Identifier: GPL-2.0-only
"""Measure the time of each check by the host's clock, for pytest's list of durations.

One fixture runs all guests of a session, so pytest would list their whole time as the setup of
the first test.
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

#: `_ran`: the seconds in which guests ran during the setup of the present test. `_took`: a test's
#: node id -> the seconds of its check.
_ran = pytest.StashKey[float]()
_took = pytest.StashKey[dict[str, float]]()


class Clock:
    """A recorder of the times at which lines on the guests' consoles report a check's begin or end.

    The times are those at which look() found the lines.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._seen: dict[tuple[Path, str, str], float] = {}

    def look(self) -> None:
        """Record the present time for each check that has newly begun or ended."""
        now = time.monotonic()
        for folder in self._folders:
            for console in folder.glob("*/console.log"):
                for name, what in _TOLD.findall(console.read_text(errors="replace")):
                    self._seen.setdefault((folder, name, what), now)

    def seconds(self, folder: Path, check: str, ended: float) -> float:
        """Return the seconds that a check took; 0 if it never began.

        If the guest died in the check, the check ended at `ended`, the time of the console's last
        line.
        """
        begin = self._seen.get((folder, check, "begins"))
        if begin is None:
            return 0.0
        return self._seen.get((folder, check, "ended"), max(begin, ended)) - begin


def run(request: pytest.FixtureRequest, guests: dict[str, tuple[verify.Guest, str]]) -> None:
    """Run guests, and record how many seconds each test's check took.

    `guests` has, for each test's node id, the guest and the name of the test's check.
    """
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
    """Add a check's time to its test's duration; subtract the guests' time from the setup's."""
    stash = item.config.stash
    if report.when == "setup":
        report.duration -= stash.get(_ran, 0.0)
        stash[_ran] = 0.0
    elif report.when == "call":
        report.duration += stash.get(_took, {}).get(item.nodeid, 0.0)
