# SPDX-License-Identifier: GPL-2.0-only
"""Recorded block traces, as what fio replays: its iolog of version 3, one file a process.

Read are CSV files as of MSR Cambridge and of Alibaba, blkparse's text and fio's own iolog. fio
notices a completion only when it is about to submit, so a replay with several requests in flight
would have the pauses of the trace in its latencies. Each process therefore replays its share of
the requests one at a time, with a synchronous engine, and sees each one's own latency.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from triagelab.ask.devices import Device
from triagelab.ask.fiofile import FioFile, Section
from triagelab.base.errors import RequestError

OPTION = "read_iolog"
#: MiB of the smallest profile of modeldisk, for a device that is not told its size.
_LEAST_SIZE_MIB = 32768
_SECTOR = 512
_HEADINGS = ("timestamp,", "device_id,")
#: The begin of a file of version 3; all names in it stand for the device under test.
_BEGIN = "fio version 3 iolog\n0 device add\n0 device open\n"


@dataclass(frozen=True)
class Request:
    """A request of a trace.

    time_us  since the trace's own beginning of time
    action   read, write or datasync, as fio calls them
    device   the recorded one
    """

    time_us: int
    action: str
    offset: int
    length: int
    device: str


def read(path: Path) -> list[Request]:
    """Return the requests of a trace in order, the first at 0; RequestError if it is none."""
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
    """Return what fio replays in a run, by the names that FioFile.prepared gives the files."""
    found: dict[str, Path | str] = {}
    for section in workload.jobs:
        if section.name in sections and OPTION in section.options:
            size = int(device.settings.get("size", _LEAST_SIZE_MIB)) << 20
            requests = read(_found(workload, section.options[OPTION]))
            for name, text in zip(section.traces, _shared(section, requests, size), strict=True):
                found[name] = text
    return found


def _found(workload: FioFile, name: str) -> Path:
    """Return the trace's path, relative to the current folder or to the job file's."""
    for path in (Path(name), workload.path.parent / name):
        if path.is_file():
            return path
    raise RequestError(f"no trace {name}: {workload.path} has {OPTION}={name}")


def _shared(section: Section, requests: list[Request], size: int) -> Iterator[str]:
    """The part of the trace for each process: every n-th request, inside the device."""
    end_us = _end_us(section)
    taken = [request for request in requests if end_us is None or request.time_us < end_us]
    for process in range(section.processes):
        # fio takes a time of 0 for none.
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
    """The recorded time at which the job's runtime is over; None where it has no such end."""
    runtime_us = section.time_us("runtime", 0)
    speed = section.number("replay_time_scale", 100)
    at_once = section.number("replay_no_stall", 0)
    return None if at_once or runtime_us == 0 else runtime_us * speed // 100


def _folded(request: Request, size: int) -> str:
    """Offset and length, of whole sectors; beyond the device's end it begins again."""
    if request.action == "datasync":
        return "0 0"
    begin = request.offset // _SECTOR * _SECTOR
    length = max(-(-(request.offset + request.length - begin) // _SECTOR), 1) * _SECTOR
    return f"{begin % max(size - length, _SECTOR) // _SECTOR * _SECTOR} {length}"


# ---- the formats ----------------------------------------------------------------


@dataclass(frozen=True)
class _Format:
    """A format: whether a first line begins it, and the requests of all lines."""

    name: str
    begins: Callable[[str], bool]
    requests: Callable[[list[str]], Iterator[Request]]


def _msr(lines: list[str]) -> Iterator[Request]:
    """Timestamp in 100 ns, host, disk, Read or Write, offset, length, response time."""
    for line in lines:
        ticks, host, disk, kind, offset, length, _ = line.split(",")
        action = {"read": "read", "write": "write"}.get(kind.lower())
        if action is None:
            raise ValueError(line)
        yield Request(int(ticks) // 10, action, int(offset), int(length), f"{host} {disk}")


def _alibaba(lines: list[str]) -> Iterator[Request]:
    """Device, R or W, offset, length, timestamp in µs."""
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
    """Read queued requests (action Q); a flush has no sectors, and discards are left out."""
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
    """Time in µs, file, action, offset, length; files are added and opened too."""
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
