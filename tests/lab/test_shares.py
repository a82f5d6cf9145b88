# SPDX-License-Identifier: GPL-2.0-only
"""Tests that an answer names the schedulers that give one of two jobs its due bandwidth."""

from dataclasses import replace
from pathlib import Path

import pytest
from triagelab.judge import shares
from triagelab.judge.answers import Answer

from tests.lab import measured
from tests.lab.rundirs import Bench, Load, Record

DUE = "Too few repeats to tell; by the means: heavy has its due, 2.00 × the bandwidth of light, "


def answer(
    folder: Path, at: dict[str, tuple[float, ...]], light: dict[str, float] | None = None
) -> Answer | None:
    """Return the answer for the job heavy, which is due twice light's bandwidth.

    A bandwidth is given as a multiple of 1000 requests a second.
    at     scheduler -> heavy's bandwidth, by point
    light  scheduler -> light's bandwidth; 1 if not given
    """

    def load(point: Record, scheduler: str, job: str, given: Load) -> Load:
        factor = at[scheduler][point["n"]] if job == "heavy" else (light or {}).get(scheduler, 1)
        return replace(given, iops=given.iops * factor)

    jobs = {"heavy": Load(1000, 900), "light": Load(1000, 900)}
    points = tuple({"n": n} for n in range(len(next(iter(at.values())))))
    bench = Bench(
        loads=dict.fromkeys(at, jobs), at=load, points=points, protected=None, background=(),
        noise=0, repeats=2,
    )  # fmt: skip
    return shares.answer(measured.case(folder, bench).views, "heavy", "light", 2)


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ({"none": (1,), "bfq": (1.95,)}, "under bfq (1.95 ×); not under none (1.00 ×)."),
        ({"none": (2.15,), "bfq": (2.25,)}, "under none (2.15 ×); not under bfq (2.25 ×)."),
        ({"none": (1,), "bfq": (4.5,)}, "nowhere; not under none (1.00 ×) and bfq (4.50 ×)."),
        ({"none": (2, 1.5), "bfq": (1.9, 2)}, "under bfq (1.90 ×); not under none (1.50 ×)."),
        ({"none": (2,)}, "under none (2.00 ×)."),
        (
            {"none": (2, 2), "bfq": (2, 0)},
            "under none (2.00 ×); not under bfq (heavy has nothing).",
        ),
    ],
)
def test_the_schedulers_that_keep_the_shares_are_named(
    tmp_path: Path, at: dict[str, tuple[float, ...]], told: str
) -> None:
    found = answer(tmp_path, at)
    assert found is not None
    assert measured.plain(found.headline) == DUE + told
    assert "fewer than 5 repeats" in found.details[0]


def test_a_job_with_all_of_the_bandwidth_has_more_than_its_due(tmp_path: Path) -> None:
    found = answer(tmp_path, {"none": (1,)}, light={"none": 0})
    assert found is not None
    assert measured.plain(found.headline) == f"{DUE}nowhere; not under none (light has nothing)."


def test_a_scheduler_that_starves_both_jobs_gives_no_job_its_due(tmp_path: Path) -> None:
    found = answer(tmp_path, {"none": (2,), "bfq": (0,)}, light={"bfq": 0})
    assert found is not None
    told = "under none (2.00 ×); not under bfq (both have nothing)."
    assert measured.plain(found.headline) == DUE + told


def test_without_bandwidth_there_is_no_answer(tmp_path: Path) -> None:
    assert answer(tmp_path, {"none": (0,)}, light={"none": 0}) is None
