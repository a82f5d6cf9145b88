# SPDX-License-Identifier: GPL-2.0-only
"""Build pages of a trace ring buffer from events, as the kernel does."""

import struct
from collections.abc import Sequence

#: Formats of Linux 6.12, without the fields that no test needs.
FORMAT = """\
name: block_rq_issue
ID: {id}
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:char comm[16];\toffset:24;\tsize:16;\tsigned:0;
"""
HEADER = """\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
"""


def event(of: int, pid: int, dev: int, sector: int, comm: bytes, delta: int = 0) -> bytes:
    """Return an event: a header, then 40 bytes."""
    data = struct.pack("=HHiIIQ16s", of, 0, pid, dev, 0, sector, comm)
    return struct.pack("=I", len(data) // 4 | delta << 5) + data


def long_event(of: int, sector: int, length: int, delta: int) -> bytes:
    """Return an event whose length does not fit into its header."""
    data = struct.pack("=HHiIIQ", of, 0, 1, 2, 0, sector).ljust(length, b"\0")
    return struct.pack("=II", delta << 5, length + 4) + data


def extend(time: int) -> bytes:
    """Return a time extension, for a time difference that does not fit into an event's header."""
    return struct.pack("=II", 30 | (time & (1 << 27) - 1) << 5, time >> 27)


def stamp(time: int) -> bytes:
    """Return an absolute time stamp."""
    return struct.pack("=II", 31 | (time & (1 << 27) - 1) << 5, time >> 27 & 0xFFFFFFFF)


def discarded(length: int, delta: int) -> bytes:
    """Return an event that a filter has discarded."""
    return struct.pack("=II", 29 | delta << 5, length).ljust(length + 4, b"\0")


def page(time: int, parts: Sequence[bytes], missed: bool = False) -> bytes:
    """Return a page that begins at a time. If `missed`, it says that events before it were lost."""
    data = b"".join(parts)
    head = struct.pack("=QQ", time, len(data) | missed << 31)
    return (head + data).ljust(4096, b"\0")
