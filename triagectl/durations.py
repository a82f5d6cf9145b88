# SPDX-License-Identifier: GPL-2.0-only
"""Parse durations from the command line: 90 (seconds), 90s, 2m or 1h."""

import argparse
import re
from collections.abc import Callable

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def between(least: str, most: str) -> Callable[[str], float]:
    """Return a function that parses a duration to seconds and refuses one outside these bounds."""

    def parse(text: str) -> float:
        value = seconds(text)
        if not seconds(least) <= value <= seconds(most):
            raise argparse.ArgumentTypeError(f"'{text}': give {least} to {most}")
        return value

    return parse


def seconds(text: str) -> float:
    """Parse a duration. Return it in seconds."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([smh]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}': give a time, as 90 (seconds), 90s, 2m or 1h")
    return float(found[1]) * _UNITS[found[2]]
