# SPDX-License-Identifier: GPL-2.0-only
"""Test durations: all options for a time take the same units, and errors have an example."""

import argparse

import pytest

from tests.triagectl.test_command import subcommands
from triagectl import durations

OPTIONS = {
    (name, action.option_strings[0]): action
    for name, command in subcommands().items()
    for action in command._actions
    if action.option_strings and action.metavar == "TIME"
}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("0.5", 0.5), ("1.5m", 90), ("2m", 120), ("1h", 3600), ("007", 7)],
)
def test_a_duration(text: str, seconds: float) -> None:
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "s", "-5", "+5", "1e3", "nan", "inf", "1_0", "5 s", "2M", "1d", "1m30s", "٣", "5.s"],
)
def test_what_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"as 90 \(seconds\), 90s, 2m or 1h"):
        durations.seconds(text)


def test_the_options_for_a_time() -> None:
    assert set(OPTIONS) == {("top", "--interval"), ("explain", "--for"), ("try", "--for")}


@pytest.mark.parametrize(("command", "option"), sorted(OPTIONS))
def test_each_takes_every_unit(command: str, option: str) -> None:
    kind = OPTIONS[command, option].type
    assert callable(kind)
    assert [kind(text) for text in ("90", "90s", "1.5m", "0.025h")] == [90] * 4
    assert kind("1h") == 3600
    with pytest.raises(argparse.ArgumentTypeError, match="'0': give "):
        kind("0")


@pytest.mark.parametrize(
    ("text", "good"),
    [("6", True), ("24h", True), ("1440m", True), ("5.9s", False), ("24.1h", False)],
)
def test_both_ends_are_allowed(text: str, good: bool) -> None:
    parse = durations.between("6s", "24h")
    if good:
        assert parse(text) == durations.seconds(text)
    else:
        with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}': give 6s to 24h"):
            parse(text)
