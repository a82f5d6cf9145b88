# SPDX-License-Identifier: GPL-2.0-only
"""Test that the work of `top` for each event is bounded, and does not grow with the load.

The tests count the work instead of timing it, so the result is the same on any machine, and nearly
the same in each Python. They do not see how long a C function takes: `make work` prints CPU time.
"""

from pathlib import Path

from tests.triagectl import work

#: The most lines and calls allowed for an event: 5 % above the counts of a `top` that took 1.8 % of
#: a core at 50 000 IOPS.
LINES, CALLS = 43.0 * 1.05, 10.9 * 1.05


def each(folder: Path, requests: int) -> tuple[float, float]:
    lines, calls = work.counted(work.prepared(folder, requests))
    return lines / (3 * requests), calls / (3 * requests)


def test_the_buffer_goes_through_all_of_it(tmp_path: Path) -> None:
    assert work.prepared(tmp_path, 500)() == 500


def test_the_work_for_each_event_is_bounded(tmp_path: Path) -> None:
    lines, calls = each(tmp_path, 2000)
    assert 30 < lines < LINES
    assert 8 < calls < CALLS


def test_the_work_for_each_event_does_not_grow_with_their_number(tmp_path: Path) -> None:
    few, many = each(tmp_path / "few", 1000), each(tmp_path / "many", 4000)
    assert many[0] < few[0] * 1.01
    assert many[1] < few[1] * 1.01
