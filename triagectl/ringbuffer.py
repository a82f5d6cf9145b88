# SPDX-License-Identifier: GPL-2.0-only
"""Decode the kernel's trace ring buffer: read events from the binary pages of trace_pipe_raw.

The text form would be simpler, but takes four times as long: the kernel formats it, and Python
must parse it.
"""

import re
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from triagectl.errors import RequestError

#: An event: time in ns, kind, then the fields that were asked for.
Event = tuple[Any, ...]

_FIELD = re.compile(r"field:(.+?);\s*offset:(\d+);\s*size:(\d+);\s*signed:(\d);")
_PADDING, _EXTEND, _STAMP = 29, 30, 31
_MISSED = 1 << 31
_MISSED_MASK = 3 << 30
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


@dataclass(frozen=True)
class Layout:
    """The layout of events of one type."""

    id: int
    kind: str
    fields: struct.Struct


def layout(kind: str, text: str, wanted: Sequence[str]) -> Layout:
    """Return the layout of an event from its `format` file.

    `wanted` lists the fields in the order of their offsets. A field that this kernel's event lacks
    decodes to b"".
    """
    number = re.search(r"^ID: (\d+)$", text, re.M)
    fields = {}
    for declared, offset, size, signed in _FIELD.findall(text):
        name = re.sub(r"\[.*\]$", "", declared).split()[-1]
        fields[name] = (int(offset), int(size), "char" in declared and "[" in declared, signed)
    code, at = "=", 0
    for name in wanted:
        if name not in fields:
            code += "0s"
            continue
        offset, size, is_text, signed = fields[name]
        if offset < at:
            raise RequestError(f"this kernel orders the fields of {kind} as no known one does")
        one = f"{size}s" if is_text else _CODES[size]
        code += f"{offset - at}x{one.lower() if signed == '1' and not is_text else one}"
        at = offset + size
    if number is None:
        raise RequestError(f"this kernel's format of {kind} has no ID")
    return Layout(int(number[1]), kind, struct.Struct(code))


@dataclass(frozen=True)
class Header:
    """The layout of a page's header.

    fields  the page's time, and the number of bytes of events
    size    bytes of the header
    page    bytes of the whole page
    """

    fields: struct.Struct
    size: int
    page: int


def header(text: str) -> Header:
    """Return the layout of a page's header, from the file `header_page`."""
    if sys.byteorder != "little":
        raise RequestError("top and explain cannot read traces of a big-endian machine yet")
    found = {
        re.sub(r"\[.*\]$", "", declared).split()[-1]: (int(offset), int(size))
        for declared, offset, size, _ in _FIELD.findall(text)
    }
    data, length = found["data"]
    return Header(struct.Struct("=Q" + _CODES[found["commit"][1]]), data, data + length)


def decode(page: bytes, begins: Header, layouts: dict[int, Layout], into: list[Event]) -> bool:
    """Append a page's events to `into`. Return whether events before this page were lost."""
    time, commit = begins.fields.unpack_from(page, 0)
    at = begins.size
    end = at + (commit & ~_MISSED_MASK & 0xFFFFFFFF)
    word = _WORD.unpack_from
    kind_of = _TYPE.unpack_from
    while at < end:
        (head,) = word(page, at)
        length = head & 31
        time += head >> 5
        if 0 < length < _PADDING:
            data = at + 4
            at = data + length * 4
        elif length == 0:
            data = at + 8
            at += 4 + word(page, at + 4)[0]
        elif length == _PADDING:
            if not head >> 5:
                break
            at += 4 + word(page, at + 4)[0]
            continue
        elif length == _EXTEND:
            time += word(page, at + 4)[0] << 27
            at += 8
            continue
        else:
            # An absolute time of 59 bits; the upper bits are those of the page's time.
            time = time >> 59 << 59 | word(page, at + 4)[0] << 27 | head >> 5
            at += 8
            continue
        known = layouts.get(kind_of(page, data)[0])
        if known is not None:
            into.append((time, known.kind, *known.fields.unpack_from(page, data)))
    return bool(commit & _MISSED)


_WORD = struct.Struct("=I")
_TYPE = struct.Struct("=H")
