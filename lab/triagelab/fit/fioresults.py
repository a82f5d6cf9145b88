# SPDX-License-Identifier: GPL-2.0-only
"""Read a folder of fio's results (JSON files) as measured points of a drive.

A point is one load that ran alone, as a drive's model can repeat it. What is something else is left
out, and told.
"""

import itertools
import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, override

from triagelab.ask import fiofile
from triagelab.ask.drives import Point
from triagelab.base.errors import RequestError

_US = {"lat_ns": 1000.0, "clat_ns": 1000.0, "slat_ns": 1000.0, "lat": 1.0, "clat": 1.0, "slat": 1.0}
#: Engines that wait for each request, whatever `iodepth` says.
_SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
#: Options that change a load in a way that no model repeats, and the values that do not.
_PLAIN = {
    "direct": ("1",),
    "buffered": ("0",),
    "random_distribution": ("random",),
    "percentage_random": ("100",),
    "zonemode": ("none",),
    **dict.fromkeys(("bssplit", "bsrange", "blocksize_range"), ()),
    **dict.fromkeys(
        ("rate", "rate_iops", "thinktime", "flow", "sync", "fsync", "fdatasync"), ("0",)
    ),
}
#: Rates of one drive at one load differ by less: a 980 PRO's state alone moved them by 25 %.
_ONE_DRIVE = 1.5


@dataclass(frozen=True)
class _Latency:
    mean: float = 0.0
    percentile: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Side:
    """A job's reads, or its writes. fio 2 reports latencies in µs, and later versions in ns."""

    iops: float
    lat_ns: _Latency | None = None
    clat_ns: _Latency | None = None
    slat_ns: _Latency | None = None
    lat: _Latency | None = None
    clat: _Latency | None = None
    slat: _Latency | None = None

    def us(self, *names: str) -> Iterator[tuple[_Latency, float]]:
        """Yield the latencies of these names that fio reports, and their units in a µs."""
        for name in names:
            for key in (f"{name}_ns", name):
                if latency := getattr(self, key):
                    yield latency, _US[key]


@dataclass(frozen=True)
class _Job:
    read: _Side
    write: _Side
    error: int = 0
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Result:
    jobs: list[_Job]
    options: Mapping[str, str] = field(default_factory=dict)


_converter = Converter()
for _kind, _key in ((_Job, "job options"), (_Result, "global options")):
    _converter.register_structure_hook(
        _kind, make_dict_structure_fn(_kind, _converter, options=override(rename=_key))
    )


@dataclass(frozen=True)
class Found:
    """What a folder holds.

    host_ns   the host's time for a command, in ns: the smallest of the points' mean submission
              latencies, as the larger ones include other delays
    left_out  a sentence for each job that is no point
    """

    points: list[Point]
    host_ns: int
    left_out: list[str]


class _LeftOutError(Exception):
    """A job that is no point; the text says why."""


def read(folder: Path) -> Found:
    """Read all results in a folder and its subfolders.

    Raise RequestError if there is none, if a file is damaged, or if the folder seems to hold
    results of two drives.
    """
    if not folder.is_dir():
        raise RequestError(f"{folder} is no folder")
    submissions: list[float] = []
    left_out: list[str] = []
    measured: dict[str, list[tuple[Path, Point]]] = {}
    for path in sorted(path for path in folder.rglob("*.json") if path.is_file()):
        result = _result(path)
        if result is None:
            continue
        last = 0
        for jobs in _together(result):
            first, last = last + 1, last + len(jobs)
            place = f"{path}: job {first}" + (f" to {last}" if last > first else "")
            try:
                point, submission_us = _point([_load(place, job) for job in jobs], place)
            except _LeftOutError as why:
                left_out.append(f"{place} is left out: {why}")
                continue
            measured.setdefault(str(point.load), []).append((path, point))
            submissions += [submission_us] if submission_us else []
    if not measured:
        raise RequestError(
            "\n".join(
                [f"{folder} has no result of fio: run it with --output-format=json", *left_out]
            )
        )
    points = [_mean(repeats) for repeats in measured.values()]
    return Found(points, max(round(min(submissions, default=0.0) * 1000), 1), left_out)


def _result(path: Path) -> _Result | None:
    """Read a file; return None if fio did not write it."""
    try:
        text = path.read_text()
        # fio writes notes and warnings in front of the JSON object.
        given = json.loads(text[max(text.find("{\n"), 0) :])
    except (OSError, ValueError, RecursionError) as error:
        raise RequestError(f"{path}: {error}") from error
    if not isinstance(given, dict) or "fio version" not in given:
        return None
    try:
        return _converter.structure({"jobs": [], **given}, _Result)
    except (BaseValidationError, TypeError, AttributeError) as error:
        why = transform_error(error) if isinstance(error, BaseValidationError) else [str(error)]
        raise RequestError(f"{path} is no whole result of fio: {why[0]}") from error


def _together(result: _Result) -> Iterator[list[_Job]]:
    """Yield the jobs that ran at the same time, each with all its options."""
    group: list[_Job] = []
    for job in result.jobs:
        options = {**result.options, **job.options}
        # An option of the whole file makes each job wait for the one before.
        if group and {"stonewall", "wait_for_previous"} & options.keys():
            yield group
            group = []
        group.append(_Job(job.read, job.write, job.error, options))
    if group:
        yield group


def _load(place: str, job: _Job) -> tuple[dict[str, int | str], _Side]:
    """Return a job's load, and what was measured. Raise _LeftOutError if it is no plain load."""
    options = job.options
    if not options:
        raise _LeftOutError("the file does not say what it did")
    if job.error:
        raise _LeftOutError(f"fio ended with error {job.error}")
    kind = options.get("rw", options.get("readwrite", "read"))
    operation = kind.removeprefix("rand")
    if operation not in ("read", "write"):
        raise _LeftOutError(f"rw={kind} is neither only reads nor only writes")
    for name, plain in _PLAIN.items():
        if name in options and options[name] not in plain:
            raise _LeftOutError(f"a model does not know {name}={options[name]}")
    try:
        load: dict[str, int | str] = {
            "op": operation,
            "pattern": "random" if kind.startswith("rand") else "sequential",
            "bytes": fiofile.size(options.get("bs", options.get("blocksize", "4k"))),
            "depth": fiofile.number(options.get("iodepth", "1")),
            "jobs": fiofile.number(options.get("numjobs", "1")),
        }
    except ValueError as error:
        raise RequestError(f"{place}: {error}") from error
    if options.get("ioengine") in _SYNCHRONOUS:
        load["depth"] = 1
    if zero := [name for name, value in load.items() if value == 0]:
        raise RequestError(f"{place}: {zero[0]} is 0")
    return load, job.read if operation == "read" else job.write


def _point(
    members: Sequence[tuple[dict[str, int | str], _Side]], place: str
) -> tuple[Point, float]:
    """Return the point of jobs that ran together, and their smallest submission latency, in µs."""
    load, sides = members[0][0], [side for _, side in members if side.iops]
    if any(other != load for other, _ in members):
        raise _LeftOutError("jobs with different loads ran at the same time")
    if not sides:
        raise _LeftOutError("nothing was done")
    load["jobs"] = max(int(load["jobs"]), len(sides))
    means = [[latency.mean / unit for latency, unit in side.us("lat")][:1] for side in sides]
    measured = {
        "iops": round(sum(side.iops for side in sides), 1),
        "mean_us": round(statistics.fmean(itertools.chain(*means)), 1) if all(means) else 0.0,
    }
    if tails := [tail for side in sides if (tail := _p99_us(side)) is not None]:
        measured["p99_us"] = round(max(tails), 1)
    for name, value in measured.items():
        if not (math.isfinite(value) and value > 0):
            raise RequestError(f"{place}: {name} is {value}: is the result whole?")
    submitted = [latency.mean / unit for side in sides for latency, unit in side.us("slat")]
    return Point("info", load, measured, {}, ()), min(submitted, default=0.0)


def _p99_us(side: _Side) -> float | None:
    """Return the P99 in µs: of total latency if fio reports it, else of completion latency."""
    for latency, unit in side.us("lat", "clat"):
        if "99.000000" in latency.percentile:
            return latency.percentile["99.000000"] / unit
    return None


def _mean(repeats: Sequence[tuple[Path, Point]]) -> Point:
    """Return the mean of the measurements of one load."""
    least = min(repeats, key=lambda each: each[1].measured["iops"])
    most = max(repeats, key=lambda each: each[1].measured["iops"])
    if most[1].measured["iops"] > _ONE_DRIVE * least[1].measured["iops"]:
        raise RequestError(
            f"{least[0]} and {most[0]} differ at the same load, {least[1].measured['iops']:g} and "
            f"{most[1].measured['iops']:g} requests a second: give each drive a folder of its own"
        )
    first = repeats[0][1]
    given: list[Mapping[str, Any]] = [point.measured for _, point in repeats]
    keys = [key for key in first.measured if all(key in each for each in given)]
    mean = {key: round(statistics.fmean(each[key] for each in given), 1) for key in keys}
    return Point("info", first.load, mean, {}, ())
