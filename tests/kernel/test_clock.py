# SPDX-License-Identifier: GPL-2.0-only
"""Tests of clock.py, which reads from the guests' consoles when each check begins and ends."""

import time
from pathlib import Path

import pytest

from tests.kernel import clock


def test_a_check_takes_from_its_begin_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    (tmp_path / "0").mkdir()
    console = tmp_path / "0/console.log"
    watch = clock.Clock([tmp_path])
    watch.look()
    console.write_text("triage: ready\r\ncheck 01-a.sh begins\r\n")
    watch.look()
    now = 107.0
    with console.open("a") as file:
        file.write("check 01-a.sh ended 0: \r\ncheck 02-b.sh begins\r\nKernel panic\r\n")
    watch.look()
    now = 200.0
    watch.look()
    assert watch.seconds(tmp_path, "01-a", 150.0) == 7.0
    # The guest died in this check, so the check ended with the console's last line, at 150 s.
    assert watch.seconds(tmp_path, "02-b", 150.0) == 43.0
    assert watch.seconds(tmp_path, "03-c", 150.0) == 0.0


class Item:
    """A stand-in for pytest.Item, with the attributes that clock.attribute() reads."""

    def __init__(self, config: "Item | None" = None) -> None:
        self.config = config or self
        self.nodeid = "a test"
        self.stash = pytest.Stash()


class Report:
    def __init__(self, when: str, duration: float) -> None:
        self.when, self.duration = when, duration


def test_each_test_has_its_seconds_and_the_setup_has_the_rest() -> None:
    item = Item()
    item.stash[clock._ran] = 60.0
    item.stash[clock._took] = {"a test": 7.0}
    for when, before, after in (("setup", 65.0, 5.0), ("call", 0.5, 7.5), ("setup", 1.0, 1.0)):
        report = Report(when, before)
        # Item and Report have all attributes that clock.attribute() uses.
        clock.attribute(item, report)  # type: ignore[arg-type]
        assert report.duration == after
