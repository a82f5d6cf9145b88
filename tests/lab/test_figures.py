# SPDX-License-Identifier: GPL-2.0-only
"""Tests of how figures are written for people: digits, units and intervals."""

import pytest
from triagelab.judge.figures import digits, quantity

from tests.lab.measured import plain


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.00414, "0.00414"), (0.5, "0.500"), (3.14159, "3.14"), (99.94, "99.9"),
     (99.96, "100"), (100, "100"), (1234567.8, "1 234 568")],
)  # fmt: skip
def test_digits(value: float, text: str) -> None:
    assert plain(digits(value)) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(115, "µs", "115 µs"), (13172, "µs", "13.2 ms"), (2.5e6, "µs", "2.50 s"),
     (0.02, "s", "20.0 ms"), (1.05e8, "B/s", "105 MB/s"), (0.975, "1", "97.5 %"),
     (8489.2, "instructions", "8 489"), (0, "µs", "0 µs")],
)  # fmt: skip
def test_quantities_have_fitting_units(value: float, unit: str, text: str) -> None:
    assert plain(quantity(value, unit)) == text


def test_interval_is_in_the_unit_of_its_value() -> None:
    assert plain(quantity(1010, "µs", (990, 1030))) == "1.01 ms [0.990, 1.03]"
