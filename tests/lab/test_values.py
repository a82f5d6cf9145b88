# SPDX-License-Identifier: GPL-2.0-only
"""Tests that an answer names the values of a scheduler's setting that are worth choosing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from triagelab.judge import values
from triagelab.judge.answers import Answer

from tests.lab import measured, rundirs
from tests.lab.rundirs import Bench, Load

LOADS = {
    "none": {"db": Load(300, 3000), "backup": Load(9000, 3300, bs=131072)},
    "bfq": {"db": Load(5000, 200), "backup": Load(3000, 9900, bs=131072)},
}


def answer(
    folder: Path, given: dict[str, tuple[float, float]], starved: str = "", **changes: Any
) -> Answer | None:
    """Return the answer for values of `slice` under bfq.

    given    value -> factors by which it changes db's latency and the backup's throughput
    starved  the values, of one letter each, under which db completes nothing
    """

    def at(point: rundirs.Record, scheduler: str, job: str, load: Load) -> Load:
        if scheduler == "none":
            return load
        longer, more = given.get(point.get("slice", ""), (1, 1))
        if job == "backup":
            return replace(load, iops=load.iops * more)
        if point.get("slice", "-") in starved:
            return replace(load, iops=0)
        return replace(load, median_us=load.median_us * longer)

    bench = Bench(
        loads=LOADS, at=at, alone=Load(8000, 100, 0.05), protected="db", background=("backup",),
        points=tuple({"slice": value} for value in given), **changes,
    )  # fmt: skip
    return values.answer(measured.case(folder, bench).views, "bfq", "slice")


def test_a_value_that_is_behind_in_both_is_not_worth_choosing(tmp_path: Path) -> None:
    found = answer(tmp_path, {"a": (1, 1), "b": (2, 2), "c": (3, 1.5), "d": (0.5, 0.5)})
    assert found is not None
    text = measured.plain(found.headline)
    assert text.startswith("Worth choosing of 4 values of slice under bfq: d (db's P99 latency is ")
    assert [part[:2] for part in text.split(": ", 1)[1].split("; ")] == ["d ", "a ", "b "]
    assert "× what it is alone, backup keeps 66" in text.split("; ")[2]
    (beaten,) = found.details
    assert beaten.startswith("c: ") and beaten.endswith("; not worth choosing beside b.")


def test_a_tenth_decides_nothing(tmp_path: Path) -> None:
    found = answer(tmp_path, {"a": (1, 1), "b": (1.05, 1), "c": (1, 0.95)}, noise=0)
    assert found is not None
    assert found.details == []


def test_more_than_a_tenth_decides(tmp_path: Path) -> None:
    found = answer(tmp_path, {"a": (1, 1), "b": (1, 0.85)}, noise=0)
    assert found is not None
    assert found.details[0].startswith("b: ")


def test_equal_figures_are_told_once(tmp_path: Path) -> None:
    found = answer(tmp_path, {"a": (1, 1), "b": (1, 1)}, noise=0, repeats=1)
    assert found is not None
    assert found.headline.count("db's P99") == 1 and "under bfq: a and b (" in found.headline
    assert "fewer than 5 repeats" in found.details[-1]


def test_a_value_that_starves_the_job_is_beaten(tmp_path: Path) -> None:
    found = answer(tmp_path, {"a": (1, 1), "b": (1, 1)}, starved="b")
    assert found is not None
    assert found.details == [
        "b: nothing completed in 5 of 5 repeats, backup keeps "
        + found.details[0].split("keeps ")[1]
    ]
    assert found.details[0].endswith("not worth choosing beside a.")


def test_one_value_is_no_choice(tmp_path: Path) -> None:
    assert answer(tmp_path, {"a": (1, 1)}) is None


def test_where_every_value_starves_the_job_there_is_none_to_choose(tmp_path: Path) -> None:
    assert answer(tmp_path, {"b": (1, 1), "c": (1, 1)}, starved="bc") is None


def test_few_requests_are_judged_by_the_maximum(tmp_path: Path) -> None:
    found = answer(tmp_path, {"a": (1, 1), "b": (2, 2)}, seconds=0.1)
    assert found is not None
    assert "(db's maximum latency is " in found.headline


def test_too_few_repeats_are_told_first(tmp_path: Path) -> None:
    found = answer(tmp_path, {"a": (1, 1), "b": (2, 2)}, repeats=2)
    assert found is not None
    assert found.headline.startswith("Too few repeats to tell; by the means: worth choosing of 2 ")
