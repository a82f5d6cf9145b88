# SPDX-License-Identifier: GPL-2.0-only
"""Read a folder of fio's results (JSON files) as measured points of a drive.

A point is one load that ran alone and that a drive's model can repeat. Found.left_out says why any
other job is left out.
"""

import itertools
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, override

from triagelab.ask import fiofile, models
from triagelab.ask.drives import Point
from triagelab.base.errors import RequestError

_US = {"lat_ns": 1000.0, "clat_ns": 1000.0, "slat_ns": 1000.0, "lat": 1.0, "clat": 1.0, "slat": 1.0}
#: Engines that wait for each request, whatever `iodepth` says. fio's default engine is psync.
_SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
_ASYNCHRONOUS = ("libaio", "io_uring", "posixaio")
#: Engines that bypass the page cache whatever `direct` says.
_RAW = ("io_uring_cmd", "spdk", "xnvme")
#: Option -> values with which a model can repeat a load. A job with another value is left out.
_PLAIN = {
    "ioengine": (*_SYNCHRONOUS, *_ASYNCHRONOUS, *_RAW),
    "random_distribution": ("random",),
    "percentage_random": ("100",),
    "zonemode": ("none",),
    "unified_rw_reporting": ("0", "none", "both"),
    "nrfiles": ("1",),
    "iodepth_batch": ("1",),
    "iodepth_batch_submit": ("1",),
    "iodepth_batch_complete_min": ("1",),
    **dict.fromkeys(("rate", "rate_iops", "thinktime", "flow", "startdelay"), ("0",)),
}
#: The same for options that matter only to writes.
_PLAIN_WRITES = {"sync": ("0", "none"), "fsync": ("0",), "fdatasync": ("0",)}
#: Options that this module reads, and options that change no load. fio has some 250 options, and
#: new versions add more: a job with an option that is in none of these tables is left out.
_KNOWN = (
    "rw", "readwrite", "bs", "blocksize", "iodepth", "numjobs", "direct", "buffered", "name",
    "description", "filename", "directory", "size", "filesize", "io_size", "offset", "loops",
    "runtime", "timeout", "time_based", "ramp_time", "invalidate", "fallocate", "thread",
    "group_reporting", "stonewall", "wait_for_previous", "allow_file_create", "randseed",
    "randrepeat", "allrandrepeat", "norandommap", "softrandommap", "random_generator",
    "refill_buffers", "zero_buffers", "scramble_buffers", "buffer_compress_percentage",
    "buffer_pattern", "iomem", "mem", "write_bw_log", "write_lat_log", "write_iops_log",
    "write_hist_log", "log_avg_msec", "log_hist_msec", "log_offset", "log_max_value",
    "log_unix_epoch", "per_job_logs", "bwavgtime", "iopsavgtime", "eta", "lat_percentiles",
    "clat_percentiles", "slat_percentiles", "percentile_list", "disable_bw",
    "disable_bw_measurement", "clocksource", "cpus_allowed", "cpus_allowed_policy",
    "numa_cpu_nodes", "numa_mem_policy", "nice", "prio", "prioclass", "hipri", "fixedbufs",
    "registerfiles", "nonvectored", "sqthread_poll", "sqthread_poll_cpu", "userspace_reap",
    "exitall", "exitall_on_error", "end_fsync", "fsync_on_close", "unlink", "create_on_open",
    "overwrite",
)  # fmt: skip
#: By Little's law, rate times mean latency is the mean number of requests in flight. A job is left
#: out if this number, divided by the number that its options ask for, is outside these bounds.
#: fio's own work between requests keeps the quotient below 1: among 9310 jobs of fio-plot's author,
#: none has more than 1.00, and none with one process has less than 0.80.
_AT_ONCE = (0.6, 1.05)
#: If two rates at one load differ by more than this factor, _mean() takes them for rates of two
#: drives, and refuses them. One 980 PRO, in different states, had rates that differed by 25 %.
_ONE_DRIVE = 1.5


@dataclass(frozen=True)
class _Latency:
    mean: float
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
        """Yield each latency of these names that fio reports, with the divisor that gives µs."""
        for name in names:
            for key in (f"{name}_ns", name):
                if latency := getattr(self, key):
                    yield latency, _US[key]


@dataclass(frozen=True)
class _Job:
    """A job; or several jobs that fio reports as one, because of `group_reporting`.

    groupid  number of the job's group. A job that waits for the jobs before it (`stonewall`) begins
             a new group. The options alone do not tell the groups: fio reports `stonewall` only if
             the job file gives it a value
    """

    read: _Side
    write: _Side
    groupid: int
    error: int = 0
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Result:
    jobs: list[_Job]
    options: Mapping[str, str] = field(default_factory=dict)


def _number(value: Any, kind: type[float]) -> float:
    """Return an int or a float that fio can have measured. Raise ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, kind)):
        raise ValueError(f"a {'whole ' if kind is int else ''}number is expected")
    if not 0 <= value < math.inf:
        raise ValueError(f"{value} is not a possible number")
    return kind(value)


_converter = Converter()
for _kind in (int, float):
    _converter.register_structure_hook(_kind, _number)
for _class, _key in ((_Job, "job options"), (_Result, "global options")):
    _converter.register_structure_hook(
        _class, make_dict_structure_fn(_class, _converter, options=override(rename=_key))
    )


@dataclass(frozen=True)
class Found:
    """The points in a folder of fio's results.

    submissions  a point's load -> its smallest mean submission latency, in ns
    left_out     for each job that gave no point, a sentence that says why
    """

    points: list[Point]
    submissions: Mapping[str, float]
    left_out: list[str]

    def host_ns(self, fitted: Iterable[Point]) -> int:
        """Return the host's time to submit a command, in ns, from the points that are fitted.

        The time is the smallest submission latency of these points, because larger ones include
        other delays. Return 1 if no submission latency is known.
        """
        known = [self.submissions.get(str(point), math.inf) for point in fitted]
        least = min(known, default=math.inf)
        return max(round(least), 1) if least < math.inf else 1


class _LeftOutError(Exception):
    """The error for a job that no point can be made of. The message is the reason."""


def read(folder: Path) -> Found:
    """Read all results in a folder and its subfolders.

    Raise RequestError if there is no point, if a file is damaged, or if the folder seems to hold
    results of two drives.
    """
    if not folder.is_dir():
        raise RequestError(f"{folder} is not a folder: give the one with fio's results")
    submissions: dict[str, float] = {}
    left_out: list[str] = []
    measured: dict[str, list[tuple[str, Point]]] = {}
    for path in sorted(path for path in folder.rglob("*.json") if path.is_file()):
        result = _result(path)
        if result is None:
            continue
        if not result.jobs:
            left_out.append(f"{path} is left out: it has no job")
        last = 0
        for jobs in _together(result):
            first, last = last + 1, last + len(jobs)
            place = f"{path}: job {first}" + (f" to {last}" if last > first else "")
            try:
                point, submission_us = _point([_load(job) for job in jobs])
            except _LeftOutError as why:
                left_out.append(f"{place} is left out: {why}")
                continue
            load = str(point)
            measured.setdefault(load, []).append((place, point))
            if submission_us:
                submissions[load] = min(submissions.get(load, math.inf), submission_us * 1000)
    if not measured:
        lacks = "has no result of fio: run it with --output-format=json"
        if left_out:
            lacks = "has no result that a model can repeat"
        raise RequestError("\n".join([f"{folder} {lacks}", *left_out]))
    return Found([_mean(repeats) for repeats in measured.values()], submissions, left_out)


def _result(path: Path) -> _Result | None:
    """Read a file. Return None if fio did not write it; raise RequestError if it is damaged."""
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
        why = (
            transform_error(error, format_exception=_wrong)
            if isinstance(error, BaseValidationError)
            else [str(error)]
        )
        raise RequestError(f"{path} is not a complete result of fio: {why[0]}") from error


def _wrong(error: BaseException, _: Any) -> str:
    """Describe a mistake in a file to its user, who does not know this module's classes."""
    if isinstance(error, KeyError):
        return "a value is missing"
    return str(error) if isinstance(error, ValueError) else "a value of another kind is expected"


def _together(result: _Result) -> Iterator[list[_Job]]:
    """Yield the jobs of each of fio's groups, with the global options in each job.

    The jobs of a group ran at the same time. If the job file has `new_group`, jobs of another group
    may have run beside them: fio's result does not tell.
    """
    for _, jobs in itertools.groupby(result.jobs, lambda job: job.groupid):
        yield [replace(job, options={**result.options, **job.options}) for job in jobs]


def _load(job: _Job) -> tuple[dict[str, int | str], _Side]:
    """Return a job's load and measurements. Raise _LeftOutError if no model can repeat the load."""
    options = job.options
    if not options:
        raise _LeftOutError("the file does not say what it did")
    if job.error:
        raise _LeftOutError(f"fio ended with error {job.error}")
    kind = options.get("rw", options.get("readwrite", "read"))
    operation = kind.removeprefix("rand")
    if operation not in ("read", "write"):
        raise _LeftOutError(f"rw={kind} is neither only reads nor only writes")
    _require_plain(options, writes=operation == "write")
    try:
        load: dict[str, int | str] = {
            "op": operation,
            "pattern": "random" if kind.startswith("rand") else "sequential",
            "bytes": _bytes(options.get("bs", options.get("blocksize", "")), operation),
            "depth": fiofile.number(options.get("iodepth", "1")),
            "jobs": fiofile.number(options.get("numjobs", "1")),
        }
    except ValueError as error:
        raise _LeftOutError(str(error)) from error
    if options.get("ioengine", "psync") in _SYNCHRONOUS:
        load["depth"] = 1
    if zero := [name for name, value in load.items() if value == 0]:
        raise _LeftOutError(f"{zero[0]} is 0")
    if int(load["bytes"]) % 512 or int(load["bytes"]) > models.LARGEST:
        raise _LeftOutError(
            f"requests of {load['bytes']} bytes: a model takes whole sectors of 512 bytes, and "
            f"{models.LARGEST} bytes at most"
        )
    return load, job.read if operation == "read" else job.write


def _require_plain(options: Mapping[str, str], writes: bool) -> None:
    """Raise _LeftOutError if an option makes, or may make, a load that no model can repeat."""
    plain = _PLAIN | (_PLAIN_WRITES if writes else dict.fromkeys(_PLAIN_WRITES, ()))
    for name, value in options.items():
        known = name in _KNOWN or (name in _PLAIN_WRITES and not writes)
        if not known and value not in plain.get(name, ()):
            raise _LeftOutError(f"a model does not know {name}={value}")
    buffered = options.get("buffered")
    direct = options.get("direct", "1" if buffered == "0" else "0")
    if (direct != "1" or buffered == "1") and options.get("ioengine") not in _RAW:
        raise _LeftOutError("it used the page cache: measure with direct=1")
    if ":" in options.get("filename", ""):
        raise _LeftOutError(f"it used several files, {options['filename']}")


def _bytes(given: str, operation: str) -> int:
    """Return the size of an operation's requests from fio's `bs`: one size, or READS,WRITES."""
    sizes = given.split(",")
    return fiofile.size((sizes[1] if operation == "write" and sizes[1:] else sizes[0]) or "4k")


def _point(members: Sequence[tuple[dict[str, int | str], _Side]]) -> tuple[Point, float]:
    """Return the point of jobs that ran together, and their smallest mean submission latency.

    The latency is in µs; 0 if fio does not report it. Raise _LeftOutError if the jobs give no
    point.
    """
    load, sides = members[0][0], [side for _, side in members if side.iops]
    if any(other != load for other, _ in members):
        raise _LeftOutError("jobs with different loads ran at the same time")
    if not sides:
        raise _LeftOutError("nothing was done")
    load["jobs"] = max(int(load["jobs"]), len(sides))
    means = [next((each.mean / unit for each, unit in side.us("lat")), 0.0) for side in sides]
    measured = {
        "iops": round(sum(side.iops for side in sides), 1),
        "mean_us": round(statistics.fmean(means), 1),
    }
    if tails := [tail for side in sides if (tail := _p99_us(side)) is not None]:
        measured["p99_us"] = round(max(tails), 1)
    if zero := [name for name, value in measured.items() if value == 0]:
        raise _LeftOutError(f"{zero[0]} is 0")
    asked = int(load["depth"]) * int(load["jobs"])
    at_once = sum(side.iops * mean for side, mean in zip(sides, means, strict=True)) / 1e6
    if not _AT_ONCE[0] <= at_once / asked <= _AT_ONCE[1]:
        raise _LeftOutError(
            f"there were {at_once:.3g} requests at once, by its rate and mean latency, but its "
            f"options ask for {asked}"
        )
    submitted = [latency.mean / unit for side in sides for latency, unit in side.us("slat")]
    return Point("info", load, measured, {}, ()), min(submitted, default=0.0)


def _p99_us(side: _Side) -> float | None:
    """Return the P99 in µs: of total latency if fio reports it, else of completion latency."""
    for latency, unit in side.us("lat", "clat"):
        if "99.000000" in latency.percentile:
            return latency.percentile["99.000000"] / unit
    return None


def _mean(repeats: Sequence[tuple[str, Point]]) -> Point:
    """Return the mean of the measurements of one load.

    Raise RequestError if they seem to be of two drives.
    """
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
