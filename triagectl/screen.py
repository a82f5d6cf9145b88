# SPDX-License-Identifier: GPL-2.0-only
"""Format text for a terminal of 80 columns."""

import re
import textwrap
from collections.abc import Iterable, Sequence


def duration(ns: int | None) -> str:
    """Return a time in at most 5 characters, or a dash for None."""
    if ns is None:
        return "-"
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        # Use this unit also for a time that would round to 1000 of the smaller unit.
        if ns >= size - size // 2000 or unit == "us":
            value = ns / size
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    raise AssertionError(ns)


def amount(value: float) -> str:
    """Return a number in at most 5 characters."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size * 9.995 or (unit != "k" and value >= size):
            scaled = value / size
            return f"{scaled:.1f}{unit}" if scaled < 99.95 else f"{scaled:.0f}{unit}"
    return f"{value:.1f}" if 0 < value < 9.95 else f"{value:.0f}"


def plain(text: str) -> str:
    """Return a text with each unprintable character escaped, line ends included.

    Any user may choose names of processes and control groups. Such a name must not move a
    terminal's cursor or look like this program's lines.
    """
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode()
        for one in text
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a table. The first `left` columns are aligned left, and the others right."""
    every = [[plain(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in every) for i in range(len(head))]
    lines = []
    for row in every:
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def wrapped(text: str, indent: int, width: int = 80) -> str:
    """Wrap text to `width`, and indent all lines but the first. Break no command in backquotes."""
    whole = re.sub("`[^`]*`", lambda command: command[0].replace(" ", "\0"), plain(text))
    filled = textwrap.fill(
        whole, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return filled.replace("\0", " ")
