# SPDX-License-Identifier: GPL-2.0-only
"""TOML files written by people: every key is checked, and an error names the wrong key."""

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from triagelab.base.errors import RequestError

#: Check of a value at a place in the file: raises RequestError if the value is wrong.
Check = Callable[[str, Any], None]


def read(
    path: Path, required: Mapping[str, Check], optional: Mapping[str, Check]
) -> dict[str, Any]:
    """Return a file's content; only these keys are allowed."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # from TOML, UTF-8, or a number with too many digits
        raise RequestError(f"{path}: {error}") from error
    _check_keys(str(path), given, required, optional, f"{path}: ")
    return given


def _check_keys(
    where: str,
    given: Mapping[str, Any],
    required: Mapping[str, Check],
    optional: Mapping[str, Check],
    before: str,
) -> None:
    known = {**required, **optional}
    if missing := required.keys() - given.keys():
        raise RequestError(f"{where}: missing: {', '.join(sorted(missing))}")
    if wrong := given.keys() - known.keys():
        raise RequestError(
            f"{where}: not known: {', '.join(sorted(wrong))}; there are {', '.join(sorted(known))}"
        )
    for key, value in given.items():
        known[key](f"{before}{key}", value)


def keys(required: Mapping[str, Check], optional: Mapping[str, Check]) -> Check:
    """Return a check for a table with all required keys, any optional ones, and no others."""

    def check(where: str, value: Any) -> None:
        _require(isinstance(value, dict), where, "a table", value)
        where = where.removesuffix(",")  # of an item
        _check_keys(where, value, required, optional, f"{where}.")

    return check


def text(where: str, value: Any) -> None:
    """Accept a text."""
    _require(isinstance(value, str), where, "a text", value)


def count(where: str, value: Any) -> None:
    """Accept a positive whole number."""
    _require(_is_number(value) and value > 0, where, "a whole number, 1 or more", value)


def setting(where: str, value: Any) -> None:
    """Accept a value of a setting."""
    _require(_is_number(value) or isinstance(value, str), where, "a whole number or a text", value)


def number(where: str, value: Any) -> None:
    """A number, whole or not."""
    _require(_is_number(value) or isinstance(value, float), where, "a number", value)


def some_of(of: Check) -> Check:
    """A list of one such value at least."""

    def check(where: str, value: Any) -> None:
        list_of(of)(where, value)
        _require(bool(value), where, "a list of something", value)

    return check


def list_of(of: Check) -> Check:
    """Return a check that accepts a list of such values."""

    def check(where: str, value: Any) -> None:
        _require(isinstance(value, list), where, "a list", value)
        for place, item in enumerate(value, 1):
            of(f"{where}, item {place},", item)

    return check


def table_of(of: Check) -> Check:
    """Return a check that accepts a table of such values."""

    def check(where: str, value: Any) -> None:
        _require(isinstance(value, dict), where, "a table", value)
        for key, item in value.items():
            of(f"{where}.{key}", item)

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(fits: bool, where: str, wanted: str, value: Any) -> None:
    if not fits:
        shown = json.dumps(value, ensure_ascii=False, default=str)
        raise RequestError(f"{where} must be {wanted}, not {shown}")
