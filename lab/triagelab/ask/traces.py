# SPDX-License-Identifier: GPL-2.0-only
"""Convert recorded block traces to fio's iolog of version 3: one for each process of a job.

A trace may be a CSV file in the format of MSR Cambridge or of Alibaba, blkparse's text, or fio's
own iolog. Each process replays its share of the requests.

The job should have a synchronous engine, so that a process waits for each of its requests. With an
asynchronous engine, fio notices a completion only before it submits the next request. The measured
latency would then include the trace's pause between the two requests.
"""

import functools
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from triagelab.ask.devices import Device
from triagelab.ask.fiofile import FioFile, Section
from triagelab.base import cache, tools
from triagelab.base.errors import RequestError

OPTION = "read_iolog"
#: The assumed size, in MiB, of a device whose settings have no size: the size of modeldisk's
#: smallest profile.
_LEAST_SIZE_MIB = 32768
_SECTOR = 512
_HEADINGS = ("timestamp,", "device_id,")
#: The first lines of an iolog. They open a file with the made-up name `device`. With
#: replay_redirect, fio opens the device under test instead.
_BEGIN = "fio version 3 iolog\n0 device add\n0 device open\n"
#: A message shows at most this many characters of a line that cannot be read.
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a trace. Offset and length are in bytes.

    time_us  time of submission, by the clock of the recording computer
    action   fio's word: read, write or datasync
    device   name of the recorded device
    """

    time_us: int
    action: str
    offset: int
    length: int
    device: str


@dataclass(frozen=True)
class Trace:
    """The requests of a trace in the order of their times; the first has time 0.

    notes  sentences about lines that read() left out, and requests that it had to sort
    """

    requests: list[Request]
    notes: list[str]


def read(path: Path) -> Trace:
    """Read a trace. Lines that cannot be replayed are left out, and counted in the notes.

    Raise RequestError if the file is not a trace, has no request, or has requests of several
    devices.
    """
    requests: list[Request] = []
    left_out: Counter[str] = Counter()
    unreadable: list[tuple[int, str]] = []
    lines = _lines(path)
    number, line = next(lines, (0, ""))
    format_of = _format(path, number, line)
    while number:
        found = format_of.request(line)
        if isinstance(found, Request) and (found.length or found.action == "datasync"):
            requests.append(found)
        elif isinstance(found, Request):
            left_out["requests without data"] += 1
        elif found is None:
            unreadable.append((number, line[:_SHOWN]))
        elif found:
            left_out[found] += 1
        number, line = next(lines, (0, ""))
    told = [f"{what} ({count})" for what, count in left_out.items()]
    if unreadable:
        told.append(
            f"lines that are not as in {format_of.name} ({len(unreadable)}), the first of them "
            f"line {unreadable[0][0]}, '{unreadable[0][1]}'"
        )
    notes = [f"left out: {'; '.join(told)}"] if told else []
    if not requests:
        raise RequestError("; ".join([f"{path} has no request", *notes]))
    devices = sorted({request.device for request in requests})
    if len(devices) > 1:
        raise RequestError(
            f"{path} has requests of {len(devices)} devices ({', '.join(devices[:5])}, …): keep "
            "the lines of one"
        )
    ordered = sorted(requests, key=lambda request: request.time_us)
    late = sum(a.time_us > b.time_us for a, b in itertools.pairwise(requests))
    if late:
        notes.append(f"sorted by time: requests that were before the one above them ({late})")
    begin = ordered[0].time_us
    return Trace([replace(each, time_us=each.time_us - begin) for each in ordered], notes)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, except comments, empty lines and a heading at the top."""
    begun = False
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                if not text or text[0] == "#":
                    continue
                if begun or not text.lower().startswith(_HEADINGS):
                    yield number, text
                begun = True
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"cannot read the trace {path}: {error}") from error


def _format(path: Path, number: int, line: str) -> "_Format":
    """Return the format of the trace in `path`, from its first line and the line's number."""
    if not number:
        raise RequestError(f"{path} is not a trace: it has no line")
    for each in _FORMATS:
        if each.begins.match(line):
            return each
    raise RequestError(
        f"{path} is not a trace: line {number} is not from a CSV of MSR Cambridge or Alibaba, "
        "from blkparse's text, or from fio's iolog version 3"
    )


def files(workload: FioFile, sections: tuple[str, ...], device: Device) -> Mapping[str, Path | str]:
    """Return the iologs for the jobs `sections`, by the file names that FioFile.prepared() uses."""
    return {
        name: folder / str(process)
        for section, entry in _entries(workload, sections, device)
        for folder in filter(Path.is_dir, entry.iterdir())
        for process, name in enumerate(section.traces)
    }


def notes(workload: FioFile, sections: tuple[str, ...], device: Device) -> list[str]:
    """Return the notes of the traces that the jobs replay, each with the trace's name."""
    return [
        f"the trace {section.options[OPTION]}: {note}"
        for section, entry in _entries(workload, sections, device)
        for note in json.loads((entry / _NOTES).read_text())
    ]


#: The file with a trace's notes, in the trace's cache entry.
_NOTES = "notes.json"


def _entries(
    workload: FioFile, sections: tuple[str, ...], device: Device
) -> Iterator[tuple[Section, Path]]:
    """Yield each job that replays a trace, with the cache entry that has the job's iologs."""
    size = int(device.settings.get("size", _LEAST_SIZE_MIB)) << 20
    for section in workload.jobs:
        if section.name in sections and OPTION in section.options:
            path = _found(workload, section.options[OPTION]).resolve()
            yield section, _converted(path, path.stat().st_mtime_ns, section, size)


def _converted(path: Path, changed_ns: int, section: Section, size: int) -> Path:
    """Return the cache entry with the notes of a trace and the iologs of a job.

    The entry's name depends on the trace's content, the device's size, the job's processes and
    runtime, and this module, so a long trace is read once. Inside the entry, the iologs are in a
    folder whose name is a digest of their content. A run's name depends on this digest.
    """
    wanted = [_digest(path, changed_ns), _digest(Path(__file__), 0), str(size)]
    wanted += [str(section.processes), str(_end_us(section))]

    def make(folder: Path) -> None:
        tools.tell(f"reading the trace {path}")
        trace = read(path)
        texts = list(_shared(section, trace.requests, size))
        content = hashlib.sha256("".join(texts).encode()).hexdigest()[:16]
        (folder / content).mkdir()
        for process, text in enumerate(texts):
            (folder / content / str(process)).write_text(text)
        (folder / _NOTES).write_text(json.dumps(trace.notes))

    key = hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:16]
    return cache.made(f"traces/{key}", make)


@functools.cache
def _digest(path: Path, changed_ns: int) -> str:
    """Return a hash of a file's content.

    `changed_ns`, the time of the file's last change, is in the key of functools.cache. So a file
    that has changed is hashed again.
    """
    return tools.sha256(path)


def _found(workload: FioFile, name: str) -> Path:
    """Return the path of the trace `name`: in the current folder, or else in the job file's."""
    for path in (Path(name), workload.path.parent / name):
        if path.is_file():
            return path
    raise RequestError(f"no trace {name}: {workload.path} has {OPTION}={name}")


def _shared(section: Section, requests: list[Request], size: int) -> Iterator[str]:
    """Yield an iolog for each of the section's n processes, with every n-th request of the trace.

    Leave out the requests after the end of the job's runtime. Offsets beyond `size`, the device's
    size in bytes, wrap around to the device's start.
    """
    end_us = _end_us(section)
    taken = [request for request in requests if end_us is None or request.time_us < end_us]
    for process in range(section.processes):
        # Add 1 µs to all times, because fio takes a time of 0 for a missing time.
        lines = [
            f"{1 + each.time_us} device {each.action} {_folded(each, size)}\n"
            for each in taken[process :: section.processes]
        ]
        if not lines:
            raise RequestError(
                f"[{section.name}] has numjobs={section.processes}, and the trace only "
                f"{len(taken)} requests to replay: give less"
            )
        yield _BEGIN + "".join(lines)


def _end_us(section: Section) -> int | None:
    """Return the time in the trace at which the job's runtime ends; None for the whole trace.

    replay_time_scale is a speed in percent. With replay_no_stall, fio ignores the trace's times.
    """
    runtime_us = section.time_us("runtime", 0)
    speed = section.number("replay_time_scale", 100)
    at_once = section.number("replay_no_stall", 0)
    return None if at_once or runtime_us == 0 else runtime_us * speed // 100


def _folded(request: Request, size: int) -> str:
    """Return the text `offset length` for an iolog; "0 0" for a flush.

    Both numbers are in bytes, and multiples of a sector. An offset past the device's end wraps
    around to the start, whatever the request's length, so a sequential stream stays sequential. A
    request that crosses the device's end is cut off there.
    """
    if request.action == "datasync":
        return "0 0"
    begin = request.offset // _SECTOR * _SECTOR
    length = max(-(-(request.offset + request.length - begin) // _SECTOR), 1) * _SECTOR
    folded = begin % size
    return f"{folded} {min(length, size - folded)}"


# ---- the formats ----------------------------------------------------------------


@dataclass(frozen=True)
class _Format:
    """A format of traces.

    begins   matches the first line of a file
    request  returns a line's request; or the kind of a line that is left out, in the plural; or ""
             for a line that a replay does not need; or None if the line is not of this format
    """

    name: str
    begins: re.Pattern[str]
    request: Callable[[str], Request | str | None]


#: Timestamp in units of 100 ns, host, disk, Read or Write, offset, length, response.
_MSR = re.compile(r"(\d+),([^,]*),(\d+),(\w+),(\d+),(\d+),\d+$")
_MSR_ACTIONS = {"read": "read", "write": "write"}


def _msr(line: str) -> Request | str | None:
    match = _MSR.match(line)
    action = _MSR_ACTIONS.get(match[4].lower()) if match else None
    if match is None or action is None:
        return None
    device = f"{match[2]} {match[3]}"
    return Request(int(match[1]) // 10, action, int(match[5]), int(match[6]), device)


#: Device, R or W, offset, length, timestamp in µs.
_ALIBABA = re.compile(r"(\d+),([RW]),(\d+),(\d+),(\d+)$")


def _alibaba(line: str) -> Request | str | None:
    match = _ALIBABA.match(line)
    if match is None:
        return None
    action = "read" if match[2] == "R" else "write"
    return Request(int(match[5]), action, int(match[3]), int(match[4]), match[1])


_BLKPARSE = re.compile(
    r"(?P<device>\d+,\d+)\s+\d+\s+\d+\s+(?P<s>\d+)\.(?P<ns>\d{9})\s+\d+\s+"
    r"(?P<action>\w)\s+(?P<kind>\w+)(?:\s+(?P<sector>\d+) \+ (?P<sectors>\d+))?"
)


def _blkparse(line: str) -> Request | str | None:
    """Read a line of blkparse as _Format.request demands; only action Q (queued) is a request.

    A flush has no sectors, and an F in its kind.
    """
    match = _BLKPARSE.match(line)
    if match is None:
        return None
    if match["action"] != "Q":
        return "events that are not Q, a request queued"
    if "D" in match["kind"]:
        return "discards"
    time_us = int(match["s"]) * 1_000_000 + int(match["ns"]) // 1000
    sectors = int(match["sectors"] or 0)
    if not sectors and "F" in match["kind"]:
        return Request(time_us, "datasync", 0, 0, match["device"])
    action = "write" if "W" in match["kind"] else "read"
    begin = int(match["sector"] or 0) * _SECTOR
    return Request(time_us, action, begin, sectors * _SECTOR, match["device"])


_IOLOG_BEGINS = re.compile(r"fio version 3 iolog$")
#: Time in µs, file, action, and for some actions offset and length.
_IOLOG = re.compile(r"(\d+)\s+(\S+)\s+(\w+)(?:\s+(\d+)\s+(\d+))?$")


def _iolog(line: str) -> Request | str | None:
    match = _IOLOG.match(line)
    if match is None:
        return "" if _IOLOG_BEGINS.match(line) else None
    time_us, name, action = int(match[1]), match[2], match[3]
    if action in ("read", "write") and match[4]:
        return Request(time_us, action, int(match[4]), int(match[5]), name)
    if action in ("sync", "datasync"):
        return Request(time_us, "datasync", 0, 0, name)
    if action == "trim":
        return "discards"
    return "" if action in ("add", "open", "close") else None


_FORMATS = (
    _Format("fio's iolog", _IOLOG_BEGINS, _iolog),
    _Format("a CSV of MSR Cambridge", _MSR, _msr),
    _Format("a CSV of Alibaba", _ALIBABA, _alibaba),
    _Format("blkparse's text", _BLKPARSE, _blkparse),
)
