# SPDX-License-Identifier: GPL-2.0-only
"""TOML files that people write: each key is checked, so that a mistake is told by its name."""

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from triagelab.errors import RequestError

#: Raises RequestError where a value is not what it must be; is told where it is.
Check = Callable[[str, Any], None]


def read(
    path: Path, required: Mapping[str, Check], optional: Mapping[str, Check]
) -> dict[str, Any]:
    """What a file says, with these keys and no others."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # of TOML, of UTF-8, of a number's length
        raise RequestError(f"{path}: {error}") from error
    known = {**required, **optional}
    if missing := required.keys() - given.keys():
        raise RequestError(f"{path}: missing: {', '.join(sorted(missing))}")
    if wrong := given.keys() - known.keys():
        raise RequestError(
            f"{path}: not known: {', '.join(sorted(wrong))}; there are {', '.join(sorted(known))}"
        )
    for key, value in given.items():
        known[key](f"{path}: {key}", value)
    return given


def text(where: str, value: Any) -> None:
    """A text."""
    _require(isinstance(value, str), where, "a text", value)


def count(where: str, value: Any) -> None:
    """A whole number of something."""
    _require(_is_number(value) and value > 0, where, "a whole number, 1 or more", value)


def setting(where: str, value: Any) -> None:
    """What something can be set to."""
    _require(_is_number(value) or isinstance(value, str), where, "a whole number or a text", value)


def list_of(of: Check) -> Check:
    """A list of such values."""

    def check(where: str, value: Any) -> None:
        _require(isinstance(value, list), where, "a list", value)
        for place, item in enumerate(value, 1):
            of(f"{where}, item {place},", item)

    return check


def table_of(of: Check) -> Check:
    """A table of such values."""

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
