# SPDX-License-Identifier: GPL-2.0-only
"""Match patterns like udev does: with fnmatch(3), and with `|` between alternatives.

Python's fnmatch does not take a backslash as an escape, so `\\[none\\]` would be a set of letters.
"""

import re

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


def matches(text: str, pattern: str, ignore_case: bool = False) -> bool:
    """Return whether a text matches one of the alternatives of a pattern.

    udev splits a pattern at each `|`, even in brackets or after a backslash. If the pattern has no
    `*`, `?` or `[`, its alternatives are plain text, and a backslash stands for itself.
    """
    globs = re.search(r"[*?[]", pattern) is not None
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    return any(
        re.fullmatch(translated(one) if globs else re.escape(one), text, flags)
        for one in pattern.split("|")
    )


def translated(glob: str) -> str:
    """Return the regular expression of a pattern of fnmatch(3), in the locale C."""
    found, at = "", 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "*":
            found += ".*"
        elif char == "?":
            found += "."
        elif char == "\\":
            if at == len(glob):
                # A backslash at the end makes the pattern match nothing.
                return r"(?!)"
            found += re.escape(glob[at])
            at += 1
        elif char == "[" and (bracket := _bracket(glob, at)) is not None:
            expression, at = bracket
            found += expression
        else:
            found += re.escape(char)
    return found


def _bracket(glob: str, at: int) -> tuple[str, int] | None:
    """Return the regular expression for the bracket set at `at`, and the position after the set.

    Return None if the closing bracket is missing: the `[` is an ordinary character then.
    """
    inverted = glob[at : at + 1] in ("!", "^")
    at += inverted
    first, members = at, ""
    while at < len(glob):
        if glob[at] == "]" and at > first:
            if not members:
                return ("." if inverted else r"(?!)"), at + 1
            return f"[{'^' if inverted else ''}{members}]", at + 1
        if found := re.compile(r"\[:([a-z]+):\]").match(glob, at):
            # A class that does not exist makes the pattern match nothing.
            if found[1] not in _CLASSES:
                return r"(?!)", len(glob)
            members += _CLASSES[found[1]]
            at = found.end()
            continue
        low, at = _member(glob, at)
        if glob[at : at + 1] == "-" and glob[at + 1 : at + 2] not in ("", "]"):
            high, at = _member(glob, at + 1)
            if low <= high:
                members += f"{re.escape(low)}-{re.escape(high)}"
        else:
            members += re.escape(low)
    return None


def _member(glob: str, at: int) -> tuple[str, int]:
    """Return the set's character at `at`, without a backslash before it, and the next position."""
    if glob[at] == "\\" and at + 1 < len(glob):
        at += 1
    return glob[at], at + 1
