# SPDX-License-Identifier: GPL-2.0-only
"""Test that patterns match as in udev, which calls the C library's fnmatch(3)."""

import ctypes
import random
import re

import pytest

from triagectl import patterns


@pytest.mark.parametrize(
    ("text", "pattern", "matches"),
    [
        ("[none] mq-deadline", r"*\[none\]*", True),
        ("none [mq-deadline]", r"*\[none\]*", False),
        ("none [mq-deadline]", "*[none]*", True),
        ("sda", "sd[!b]", True),
        ("sda", "sd[^a]", False),
        ("sdb", "vd*|sd[a-c]", True),
        # A bar separates two patterns wherever it stands.
        ("a|b", r"a\|b", False),
        ("b]", "[a|b]", True),
        # In a pattern without *, ? and [, no character is special.
        (r"a\b", r"a\b", True),
        ("ab", r"a\b", False),
        ("ab", r"a\b|c*", True),
        ("", "", True),
        ("", "a|", True),
        ("", "a|?*", False),
        ("a", "?*", True),
        ("x", "", False),
        ("a\nb", "a*b", True),
    ],
)
def test_as_udev_does(text: str, pattern: str, matches: bool) -> None:
    assert patterns.matches(text, pattern) == matches


def test_without_regard_to_case() -> None:
    assert patterns.matches("SDA", "sd[a-c]", ignore_case=True)
    assert not patterns.matches("SDA", "sd[a-c]")


def test_as_the_c_library_does() -> None:
    fnmatch = ctypes.CDLL(None).fnmatch
    # The parts have no `.`, and no `-` outside of `a-c`: C libraries disagree about other sets.
    parts = ["a", "b", "c", "*", "?", "[", "]", "!", "^", "\\", "[:alpha:]", "a-c", "[!", "]*"]
    chance = random.Random(1)
    both = 0
    for _ in range(20_000):
        glob = "".join(chance.choices(parts, k=chance.randint(1, 7)))
        text = "".join(chance.choices("abc[]\\!-^", k=chance.randint(1, 4)))
        expected = fnmatch(glob.encode(), text.encode(), 0) == 0
        found = re.fullmatch(patterns.translated(glob), text, re.DOTALL) is not None
        assert found == expected, (glob, text)
        both += expected
    assert both > 500
