# SPDX-License-Identifier: GPL-2.0-only
"""Count the work of `top` for each event, on a fixed buffer of events.

    python -m tests.triagectl.work        (make work)

The program prints how many lines of Python and calls of C functions an event takes. These numbers
are the same in each run. It also prints the CPU time, which depends on the machine.
"""

import re
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from tests.triagectl import pages
from triagectl import top
from triagectl.processes import Table
from triagectl.requests import Matcher
from triagectl.system import System
from triagectl.tracefs import Instance
from triagectl.usage import Usage

FORMATS = Path(__file__).parent / "data/formats.txt"
DEV = 8 << 20
#: The number of requests in the disk at a time, and of threads that submit them.
DEPTH, THREADS = 8, 4
_TIMES = 20


def formats() -> dict[str, str]:
    """Return the kernel's formats of events, and of a page's header."""
    return dict(re.findall(r"^==== (\S+)\n(.*?)(?=^====|\Z)", FORMATS.read_text(), re.M | re.S))


def packed(name: str, form: str, values: dict[str, Any]) -> bytes:
    """Return an event with these fields as the kernel writes it."""
    (number,) = re.findall(r"^ID: (\d+)$", form, re.M)
    fields = re.findall(r"field:(.+?);\s*offset:(\d+);\s*size:(\d+)", form)
    data = bytearray(max(int(offset) + int(size) for _, offset, size in fields))
    for declared, offset, size in fields:
        field = re.sub(r"\[.*\]$", "", declared).split()[-1]
        value = int(number) if field == "common_type" else values.get(field)
        if isinstance(value, int):
            data[int(offset) : int(offset) + int(size)] = value.to_bytes(int(size), "little")
        elif value is not None:
            data[int(offset) : int(offset) + len(value)] = value
    data += bytes(-len(data) % 4)
    # The event comes 1 us after the previous one.
    return struct.pack("=I", len(data) // 4 | 1000 << 5) + data


def events(requests: int) -> Iterator[bytes]:
    """Yield the events of 4 KiB reads. The disk has DEPTH of them at a time."""
    forms = formats()

    def one(name: str, index: int) -> bytes:
        return packed(
            name,
            forms[f"block/{name}"],
            {
                "common_pid": 1000 + index % THREADS,
                "dev": DEV,
                "sector": index * 8,
                "nr_sector": 8,
                "bytes": 4096,
                "rwbs": b"R",
                "comm": b"fio",
            },
        )

    for index in range(requests + DEPTH):
        if index < requests:
            yield one("block_bio_queue", index)
            yield one("block_rq_issue", index)
        if index >= DEPTH:
            yield one("block_rq_complete", index - DEPTH)


def instance(folder: Path, requests: int) -> Instance:
    """Return a tracefs instance, made of files, that has recorded the events of some requests."""
    forms = formats()
    ours = folder / "instances/triagectl-1"
    (ours / "per_cpu/cpu0").mkdir(parents=True)
    (folder / "events").mkdir()
    (folder / "events/header_page").write_text(forms["header_page"])
    for name in top.EVENTS:
        (folder / "events" / name).mkdir(parents=True)
        (folder / "events" / name / "format").write_text(forms[name])
        (ours / "events" / name).mkdir(parents=True)
    full: list[bytes] = [b""]
    for event in events(requests):
        if len(full[-1]) + len(event) > 4080:
            full.append(b"")
        full[-1] += event
    pipe = b"".join(pages.page(10**9 + 10**6 * at, [data]) for at, data in enumerate(full))
    (ours / "per_cpu/cpu0/trace_pipe_raw").write_bytes(pipe)
    return Instance(ours, top.EVENTS, [DEV])


def prepared(folder: Path, requests: int) -> Callable[[], int]:
    """Return a function that reads a buffer as `top` does and returns how many requests it had."""
    made = instance(folder, requests)
    matcher = Matcher({}, finished=lambda _: None)
    system = System(folder)
    usage = Usage(Table(system), {DEV: ("none", {})}, matcher.inside, 5)
    matcher.finished, matcher.gave_up = usage.finished, usage.gave_up
    matcher.issued = usage.issued

    def work() -> int:
        matcher.feed(made.read())
        return sum(account.requests for account in usage.accounts(DEV))

    return work


def counted(work: Callable[[], int]) -> tuple[int, int]:
    """Return how many lines of Python and calls of C functions `work` takes."""
    lines = calls = 0

    def trace(_: FrameType, event: str, __: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    def profile(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "c_call"

    before = sys.gettrace()
    sys.setprofile(profile)
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        sys.setprofile(None)
    return lines, calls


def main() -> None:
    """Print the work for each event."""
    requests = 2000
    with tempfile.TemporaryDirectory() as name:
        lines, calls = counted(prepared(Path(name) / "counted", requests))
        took = []
        for turn in range(_TIMES):
            work = prepared(Path(name) / str(turn), requests)
            begin = time.process_time_ns()
            assert work() == requests
            took.append(time.process_time_ns() - begin)
    every = 3 * requests
    print(
        f"{every} events: {lines / every:.1f} lines of Python and {calls / every:.1f} calls of C "
        f"functions each, {min(took) / every / 1000:.2f} us of CPU time (the best of {_TIMES})"
    )


if __name__ == "__main__":
    main()
