# SPDX-License-Identifier: GPL-2.0-only
"""Record trace events in a separate tracefs instance, so that other tracing is not disturbed.

A child process removes the instance once instance()'s block ends, or if triagectl dies in it.
"""

import bisect
import contextlib
import operator
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from triagectl import ringbuffer
from triagectl.errors import CtlError, RequestError
from triagectl.giveway import giving_way
from triagectl.ringbuffer import Event
from triagectl.system import System, names

_PREFIX = "triagectl-"

#: The fields to read of each event, in the order of their offsets. Device and sector must identify
#: a request, because its events carry no other identifier.
_BIO = ("common_pid", "dev", "sector", "nr_sector", "rwbs", "comm")
_RQ = ("common_pid", "dev", "sector", "nr_sector", "ioprio", "rwbs", "comm")
FIELDS: Mapping[str, Sequence[str]] = {
    "block/block_bio_queue": _BIO,
    "block/block_bio_complete": ("dev", "sector", "error"),
    "block/block_getrq": _BIO,
    "block/block_bio_backmerge": _BIO,
    "block/block_bio_frontmerge": _BIO,
    "block/block_rq_insert": _RQ,
    "block/block_rq_merge": _RQ,
    "block/block_rq_issue": _RQ,
    "block/block_rq_requeue": ("common_pid", "dev", "sector", "nr_sector"),
    "block/block_rq_complete": ("common_pid", "dev", "sector", "nr_sector"),
    "triage/triage_dispatch": ("dev", "sector", "bytes", "cost", "class", "reason"),
    "triage/triage_hold": ("dev", "queued", "budget", "inside"),
}

#: The longest filter that the kernel takes, in bytes: a page without the final zero byte.
_FILTER_MOST = 4095
#: Events that are so rare that they stay on. Turning one on or off takes 0.1 ms of CPU time.
#: block_bio_complete comes only for a bio that ends without a request.
SELDOM = (
    "block/block_bio_complete",
    "block/block_bio_frontmerge",
    "block/block_rq_merge",
    "block/block_rq_requeue",
)


class Instance:
    """Reads trace events of some kinds from all CPUs, in the order of their times."""

    def __init__(self, folder: Path, events: Sequence[str], devices: Sequence[int]) -> None:
        self._folder = folder
        top = folder.parent.parent
        self._header = ringbuffer.header((top / "events/header_page").read_text())
        self._often = [folder / "events" / name / "enable" for name in events if name not in SELDOM]
        self._on = folder / "tracing_on"
        self._layouts = {}
        for name in events:
            text = (top / "events" / name / "format").read_text()
            found = ringbuffer.layout(name.rpartition("/")[2], text, FIELDS[name])
            self._layouts[found.id] = found
        for name in events:
            (folder / "events" / name / "filter").write_text(_filter(devices))
        self._on.write_text("0")
        for name in events:
            if name in SELDOM:
                (folder / "events" / name / "enable").write_text("1")
        cpus = sorted((folder / "per_cpu").glob("cpu[0-9]*"))
        self._pipes = [
            os.open(cpu / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            for cpu in cpus
        ]
        self._recording = False
        self._left: list[Event] = []
        self.lost = 0

    def record(self, on: bool) -> None:
        """Turn recording on or off. While it is off, only the events in SELDOM stay enabled."""
        if on != self._recording:
            value = "1" if on else "0"
            if not on:
                self._on.write_text(value)
            for file in self._often:
                file.write_text(value)
            if on:
                self._on.write_text(value)
            self._recording = on

    def read(self) -> list[Event]:
        """Return the events from the start of the last call to the start of this one.

        CPUs are read one after the other. So of the events after the start of this call, only some
        are found: keep them for the next call. If a CPU's buffer was full, the kernel dropped
        events of this CPU. Then leave out the events of all CPUs up to the end of the gap, and
        count the call in `lost`.
        """
        found = self._left
        intact = 0
        until = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for pipe in self._pipes:
            while page := self._page(pipe):
                begin = len(found)
                if ringbuffer.decode(page, self._header, self._layouts, found):
                    intact = max(intact, found[begin][0] if len(found) > begin else until)
        found.sort(key=_time)
        complete = bisect.bisect_left(found, until, key=_time)
        self._left = found[complete:]
        if not intact:
            return found[:complete]
        self.lost += 1
        return found[bisect.bisect_left(found, intact, key=_time) : complete]

    def _page(self, pipe: int) -> bytes:
        try:
            return os.read(pipe, self._header.page)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """Stop reading."""
        self.record(False)
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes = []


def _filter(devices: Sequence[int]) -> str:
    """Return the kernel's filter for events of some devices."""
    wanted = " || ".join(f"dev == {device}" for device in devices)
    if len(wanted) > _FILTER_MOST:
        raise RequestError(
            f"{len(devices)} disks and partitions are too many for the kernel's filter: name disks"
        )
    return wanted


_time = operator.itemgetter(0)


@contextlib.contextmanager
def instance(
    system: System,
    events: Sequence[str],
    devices: Sequence[int],
    kib_per_cpu: int,
    optional: Sequence[str] = (),
) -> Iterator[Instance]:
    """Make an instance that records `events` of the devices, and remove it after the block.

    `optional` are events that a kernel may lack. During the block, giving_way() lowers this
    process's CPU priority.
    """
    top = system.tracefs()
    missing = [name for name in events if not (top / "events" / name).is_dir()]
    if missing:
        raise RequestError(
            f"this kernel has no trace event {missing[0].replace('/', ':')}: "
            "it was built without CONFIG_BLK_DEV_IO_TRACE"
        )
    there = [*events, *(name for name in optional if (top / "events" / name).is_dir())]
    sweep(top)
    folder = top / "instances" / f"{_PREFIX}{os.getpid()}"
    with _removed_at_the_end(folder):
        try:
            folder.mkdir()
            # Use a clock that all CPUs share, because times of different CPUs are compared.
            (folder / "trace_clock").write_text("mono")
            (folder / "buffer_size_kb").write_text(str(kib_per_cpu))
            made = Instance(folder, there, devices)
        except OSError as error:
            raise CtlError(f"cannot set up {folder}: {error.strerror}") from error
        try:
            with giving_way():
                yield made
        finally:
            made.close()


def sweep(top: Path) -> None:
    """Remove instances that are left over because triagectl and its child were both killed."""
    for name in names(top / "instances"):
        found = re.fullmatch(rf"{_PREFIX}(\d+)", name)
        if found and not Path(f"/proc/{found[1]}").exists():
            with contextlib.suppress(OSError):
                (top / "instances" / name).rmdir()


@contextlib.contextmanager
def _removed_at_the_end(folder: Path) -> Iterator[None]:
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        _wait_and_remove(ours, theirs, folder)
    os.close(ours)
    try:
        yield
    finally:
        os.close(theirs)
        os.waitpid(child, 0)
        if folder.exists():
            raise CtlError(f"cannot remove {folder}: give `rmdir {folder}`")


def _wait_and_remove(ours: int, theirs: int, folder: Path) -> None:
    """Remove the folder when the other end of the pipe is closed. Does not return."""
    # A Ctrl-C is for the parent. This child has a session of its own, so it also outlives a
    # closed terminal.
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.close(theirs)
    os.read(ours, 1)
    with contextlib.suppress(OSError):
        folder.rmdir()
    os._exit(0)
