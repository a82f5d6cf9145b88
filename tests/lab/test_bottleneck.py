# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the report's sentences about the bottleneck: the device or the CPU."""

from typing import Any

import pytest
from triagelab.judge import bottleneck
from triagelab.judge.lookup import View

from tests.lab.measured import plain


@pytest.mark.parametrize(
    ("device", "cpu", "named"),
    [(0.95, 0.5, "device"), (0.5, 0.95, "CPU"), (0.95, 0.95, "device and CPU"),
     (0.5, 0.5, "neither"), (None, 0.5, "not the CPU"), (None, 0.95, "CPU"),
     (None, None, "not measured")],
)  # fmt: skip
def test_bottleneck(device: float | None, cpu: float | None, named: str) -> None:
    used = {"device_utilisation": device, "cpu_utilisation": cpu}
    rows: list[dict[str, Any]] = [
        {"scheduler": "none", "point": {}, "job": None, "metric": metric, "unit": "1",
         "mean": mean, "ci95": None, "n": 5, "starved": 0}
        for metric, mean in ({**used, "iops": 1.0}).items()
        if mean is not None
    ]  # fmt: skip
    environment = {"schedulers": ["none"], "device": {}}
    found = View({"rows": rows, "verdicts": []}, environment, "{}")
    assert bottleneck.named(found, "none") == named
    (sentence,) = bottleneck.sentences(found, "sim")
    assert sentence.startswith("Under none")


def utilised(**used: dict[str, float]) -> View:
    """Return a view of a device with dies and a bus. `used`: scheduler -> part -> utilisation."""
    rows: list[dict[str, Any]] = [
        {"scheduler": name, "point": {}, "job": None, "metric": f"{what}_utilisation",
         "unit": "1", "mean": mean, "ci95": None, "n": 5, "starved": 0}
        for name, parts in used.items()
        for what, mean in {"cpu": 0.4, "device": max(parts.values()), **parts}.items()
    ]  # fmt: skip
    environment = {"schedulers": list(used), "device": {"parts": {"dies": {}, "bus": {}}}}
    return View({"rows": rows, "verdicts": []}, environment, "{}")


def test_bottleneck_says_which_part() -> None:
    found = utilised(
        none={"dies": 0.97, "bus": 0.5},
        bfq={"dies": 0.3, "bus": 0.2},
        kyber={"dies": 0.95, "bus": 0.5},
        triage={"dies": 0.6, "bus": 0.93},
    )
    assert [plain(said) for said in bottleneck.sentences(found, "sim")] == [
        "Under none and kyber the device (its dies) was the bottleneck: it ran at 95 to 97 % of "
        "its capacity, the virtual CPU at 40 %.",
        "Under bfq neither was saturated: the device (its dies) ran at 30 % of its capacity, "
        "the virtual CPU at 40 %. Either the scheduler held requests back or the jobs asked for "
        "no more.",
        "Under triage the device (its bus) was the bottleneck: it ran at 93 % of its capacity, "
        "the virtual CPU at 40 %.",
    ]


def test_saturation_is_said_of_each_scheduler() -> None:
    full, half = {"dies": 0.97, "bus": 0.5}, {"dies": 0.3, "bus": 0.4}
    assert bottleneck.saturation(utilised(a=full, b=full)) == (
        "The device (its dies) was saturated under every scheduler (97 % used)"
    )
    assert bottleneck.saturation(utilised(a=half)) == (
        "The device (its bus) was not saturated under a (40 % used)"
    )
    assert bottleneck.saturation(utilised(a=full, b=half, c=full)) == (
        "The device (its dies) was saturated under a and c (97 % used), not under b (40 %)"
    )
