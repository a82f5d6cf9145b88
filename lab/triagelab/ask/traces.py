# SPDX-License-Identifier: GPL-2.0-only
"""Convert recorded block traces to fio's iolog of version 3: one file for each process.

A trace may be a CSV file in the format of MSR Cambridge or of Alibaba, blkparse's text, or fio's
own iolog. fio notices a completion only when it is about to submit. With several requests in
flight, latencies would therefore contain the pauses of the trace. So each process replays its
share of the requests one at a time, with a synchronous engine.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from triagelab.ask.devices import Device
from triagelab.ask.fiofile import FioFile, Section
from triagelab.base.errors import RequestError

OPTION = "read_iolog"
#: The size assumed for a device whose settings have none, in MiB: that of modeldisk's smallest
#: profile.
_LEAST_SIZE_MIB = 32768
_SECTOR = 512
_HEADINGS = ("timestamp,", "device_id,")
#: The first lines of an iolog. With replay_redirect, fio opens the device under test for `device`.
_BEGIN = "fio version 3 iolog\n0 device add\n0 device open\n"


@dataclass(frozen=True)
class Request:
    """A request of a trace. Offset and length are in bytes.

    time_us  time of submission, by the trace's own clock
    action   fio's word: read, write or datasync
    device   name of the recorded device
    """

    time_us: int
    action: str
    offset: int
    length: int
    device: str


def read(path: Path) -> list[Request]:
    """Return a trace's requests in the order of their times; the first has time 0.

    Raise RequestError if the file is no trace, or a trace of several devices.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"cannot read the trace {path}: {error}") from error
    lines = [line for line in lines if line and line[0] != "#"]
    if lines and lines[0].lower().startswith(_HEADINGS):
        lines = lines[1:]
    format_of = next((each for each in _FORMATS if lines and each.begins(lines[0])), None)
    if format_of is None:
        raise RequestError(
            f"{path} is no trace: its first line is none of a CSV of MSR Cambridge or Alibaba, of "
            "blkparse's text, or of fio's iolog version 3"
        )
    try:
        found = sorted(format_of.requests(lines), key=lambda request: request.time_us)
    except (ValueError, IndexError) as error:
        raise RequestError(f"{path}: a line is not as in {format_of.name}: {error}") from error
    devices = sorted({request.device for request in found})
    if len(devices) > 1:
        raise RequestError(
            f"{path} has requests of {len(devices)} devices ({', '.join(devices[:5])}, …): keep "
            "the lines of one"
        )
    if not found:
        raise RequestError(f"{path} has no request")
    return [replace(each, time_us=each.time_us - found[0].time_us) for each in found]


def files(workload: FioFile, sections: tuple[str, ...], device: Device) -> Mapping[str, Path | str]:
    """Return the iologs for the jobs `sections`, by the file names that FioFile.prepared() uses."""
    found: dict[str, Path | str] = {}
    for section in workload.jobs:
        if section.name in sections and OPTION in section.options:
            size = int(device.settings.get("size", _LEAST_SIZE_MIB)) << 20
            requests = read(_found(workload, section.options[OPTION]))
            for name, text in zip(section.traces, _shared(section, requests, size), strict=True):
                found[name] = text
    return found


def _found(workload: FioFile, name: str) -> Path:
    """Find the trace `name` in the current folder, or else in the job file's; return its path."""
    for path in (Path(name), workload.path.parent / name):
        if path.is_file():
            return path
    raise RequestError(f"no trace {name}: {workload.path} has {OPTION}={name}")


def _shared(section: Section, requests: list[Request], size: int) -> Iterator[str]:
    """Yield an iolog for each of the section's n processes: every n-th request of the trace.

    Offsets beyond `size`, the device's size in bytes, wrap around to the device's start.
    """
    end_us = _end_us(section)
    taken = [request for request in requests if end_us is None or request.time_us < end_us]
    for process in range(section.processes):
        # fio would take a time of 0 for a missing time, so all times are 1 µs later.
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
    """Return an iolog's `offset length`: multiples of a sector, in bytes; "0 0" for a flush.

    An offset past the device's end wraps around to its start, whatever the request's length: so a
    sequential stream stays one. A request across the end loses what is behind it.
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

    begins    returns whether a file's first line is of this format
    requests  yields the requests in the lines of a file
    """

    name: str
    begins: Callable[[str], bool]
    requests: Callable[[list[str]], Iterator[Request]]


def _msr(lines: list[str]) -> Iterator[Request]:
    """Yield the requests of a trace in the format of MSR Cambridge.

    A line has: timestamp in units of 100 ns, host, disk, Read or Write, offset, length, response.
    """
    for line in lines:
        ticks, host, disk, kind, offset, length, _ = line.split(",")
        action = {"read": "read", "write": "write"}.get(kind.lower())
        if action is None:
            raise ValueError(line)
        yield Request(int(ticks) // 10, action, int(offset), int(length), f"{host} {disk}")


def _alibaba(lines: list[str]) -> Iterator[Request]:
    """Yield the requests in lines of: device, R or W, offset, length, timestamp in µs."""
    for line in lines:
        device, kind, offset, length, time_us = line.split(",")
        action = {"R": "read", "W": "write"}.get(kind)
        if action is None:
            raise ValueError(line)
        yield Request(int(time_us), action, int(offset), int(length), device)


_BLKPARSE = re.compile(
    r"(?P<device>\d+,\d+)\s+\d+\s+\d+\s+(?P<s>\d+)\.(?P<ns>\d{9})\s+\d+\s+"
    r"(?P<action>\w)\s+(?P<kind>\w+)(?:\s+(?P<sector>\d+) \+ (?P<sectors>\d+))?"
)


def _blkparse(lines: list[str]) -> Iterator[Request]:
    """Yield the queued requests (action Q) except discards.

    A request without sectors is a flush if its kind contains F; else it is left out.
    """
    for line in lines:
        match = _BLKPARSE.match(line)
        if match is None or match["action"] != "Q" or "D" in match["kind"]:
            continue  # other events, and the totals at the end
        time_us = int(match["s"]) * 1_000_000 + int(match["ns"]) // 1000
        sectors = int(match["sectors"] or 0)
        if sectors:
            action = "write" if "W" in match["kind"] else "read"
            begin = int(match["sector"]) * _SECTOR
            yield Request(time_us, action, begin, sectors * _SECTOR, match["device"])
        elif "F" in match["kind"]:
            yield Request(time_us, "datasync", 0, 0, match["device"])


def _iolog(lines: list[str]) -> Iterator[Request]:
    """Yield the requests. Each line has the time in µs, file, action, offset and length.

    Lines with the action add, open, close or trim are left out.
    """
    for line in lines[1:]:
        time_us, name, action, *where = line.split()
        if action in ("read", "write"):
            offset, length = where
            yield Request(int(time_us), action, int(offset), int(length), name)
        elif action in ("sync", "datasync"):
            yield Request(int(time_us), "datasync", 0, 0, name)
        elif action not in ("add", "open", "close", "trim"):
            raise ValueError(line)


_FORMATS = (
    _Format("fio's iolog", lambda line: line == "fio version 3 iolog", _iolog),
    _Format(
        "a CSV of MSR Cambridge",
        lambda line: re.fullmatch(r"\d+,[^,]*,\d+,\w+,\d+,\d+,\d+", line) is not None,
        _msr,
    ),
    _Format(
        "a CSV of Alibaba",
        lambda line: re.fullmatch(r"\d+,[RW],\d+,\d+,\d+", line) is not None,
        _alibaba,
    ),
    _Format("blkparse's text", lambda line: _BLKPARSE.match(line) is not None, _blkparse),
)
