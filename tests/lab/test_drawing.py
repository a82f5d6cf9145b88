# SPDX-License-Identifier: GPL-2.0-only
"""Tests that charts distinguish schedulers without colour, and that labels do not overlap."""

import itertools

from triagelab.report import drawing
from triagelab.report.drawing import MARKERS, log_ticks, styles
from triagelab.report.sweeps import GLYPHS


def test_styles_differ_in_grey_too() -> None:
    looks = styles(["none", *"abcdefg"])
    assert len({look.marker for look in looks.values()}) == 8
    assert len({look.hatch for look in looks.values()}) == 8
    assert styles(["none", "x"])["none"] == looks["none"]
    assert len({look.dash for look in list(looks.values())[1:7]}) == 6


def test_every_marker_has_a_glyph() -> None:
    assert {*MARKERS, styles([])["none"].marker} == set(GLYPHS)


def test_labels_never_overlap() -> None:
    down = [50.0, 51.0, 49.5, 170.0, 1.3, 1.3, 1.31]
    shifts = drawing.label_shifts(down, (0, 200))
    places = sorted(place + shift for place, shift in zip(down, shifts, strict=True))
    for upper, lower in itertools.pairwise(places):
        assert lower - upper >= drawing.LABEL_GAP - 1e-9
    assert drawing.label_shifts([100.0, 9.0], (0, 200)) == [0.0, 0.0]


def test_labels_of_what_ends_at_an_edge_stay_inside() -> None:
    gap, half = drawing.LABEL_GAP, drawing.LABEL_GAP / 2
    inside = [half - 1, half - 1 + gap, half - 1 + 2 * gap]
    assert drawing.label_shifts([1.0, 1.0, 1.0], (0, 200)) == inside
    last = 1 - half  # the label's lower edge is at 200
    assert drawing.label_shifts([199.0, 150.0, 199.0], (0, 200)) == [last - gap, 0, last]
    assert drawing.label_shifts([0.0, 0.0], (0, 1)) == [half, half + gap], "no room for both"


def test_log_ticks_are_round_and_few() -> None:
    assert log_ticks(0.9, 110, most=4)[1] == ["1", "10", "100"]
    assert log_ticks(0.9, 5.5)[1] == ["1", "1.5", "2", "3", "4", "5"]
    for low, high in ((1e-4, 1e6), (0.5, 0.6), (3, 900)):
        ticks, _ = log_ticks(low, high)
        assert all(low <= tick <= high for tick in ticks)
