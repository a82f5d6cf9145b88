# SPDX-License-Identifier: GPL-2.0-only
"""Read a folder of fio's results (JSON files) as measured points of a drive."""

import json
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from triagelab.ask import fiofile
from triagelab.ask.drives import Point
from triagelab.base.errors import RequestError

_US = {"lat_ns": 1000.0, "clat_ns": 1000.0, "slat_ns": 1000.0, "lat": 1.0, "clat": 1.0, "slat": 1.0}


def read(folder: Path) -> tuple[list[Point], int]:
    """Return all points in a folder and its subfolders, and the host's time for a command, in ns.

    The host's time is the smallest of the points' mean submission latencies: the larger ones
    include other delays.
    """
    points, submissions = [], []
    for path in sorted(folder.rglob("*.json")):
        for point, submission_us in _points(path):
            points.append(point)
            submissions += [submission_us] if submission_us else []
    if not points:
        raise RequestError(f"{folder} has no result of fio: run it with --output-format=json")
    return points, max(round(min(submissions, default=0.0) * 1000), 1)


def _points(path: Path) -> Iterator[tuple[Point, float]]:
    """Yield a point for each group of jobs with equal loads in a file, and its submission latency.

    The submission latency is the smallest mean of the group's jobs, in µs.
    """
    try:
        text = path.read_text()
        # fio writes notes and warnings in front of the JSON object.
        given = json.loads(text[max(text.find("{\n"), 0) :])
    except ValueError as error:
        raise RequestError(f"{path}: {error}") from error
    if not isinstance(given, dict) or "fio version" not in given:
        return
    groups: dict[str, list[tuple[dict[str, int | str], Mapping[str, Any]]]] = {}
    jobs = given.get("jobs", [])
    for place, job in enumerate(jobs, 1):
        options = {**given.get("global options", {}), **job.get("job options", {})}
        try:
            loads = list(_loads(options))
        except ValueError as error:
            raise RequestError(f"{path}: job {place} of {len(jobs)}: {error}") from error
        for load in loads:
            groups.setdefault(str(load), []).append((load, job[str(load["op"])]))
    for members in groups.values():
        load, sides = members[0][0], [side for _, side in members if side["iops"]]
        if not sides:
            continue
        load["jobs"] = max(int(load["jobs"]), len(sides))
        measured = {
            "iops": round(sum(side["iops"] for side in sides), 1),
            "mean_us": round(statistics.fmean(_mean_us(side, "lat") for side in sides), 1),
        }
        if tails := [tail for side in sides if (tail := _p99_us(side)) is not None]:
            measured["p99_us"] = round(max(tails), 1)
        yield Point("info", load, measured, {}, ()), min(_mean_us(side, "slat") for side in sides)


def _loads(options: Mapping[str, str]) -> Iterator[dict[str, int | str]]:
    """Yield the load of a job if it only reads or only writes; else yield nothing."""
    kind = options.get("rw", options.get("readwrite", "read"))
    operation = kind.removeprefix("rand")
    if operation in ("read", "write"):
        yield {
            "op": operation,
            "pattern": "random" if kind.startswith("rand") else "sequential",
            "bytes": fiofile.size(options.get("bs", options.get("blocksize", "4k"))),
            "depth": fiofile.number(options.get("iodepth", "1")),
            "jobs": fiofile.number(options.get("numjobs", "1")),
        }


def _mean_us(side: Mapping[str, Any], what: str) -> float:
    """Return a mean latency in µs. fio 2 reports it in µs, and later versions in ns."""
    key = f"{what}_ns" if f"{what}_ns" in side else what
    return float(side[key]["mean"]) / _US[key]


def _p99_us(side: Mapping[str, Any]) -> float | None:
    """Return the P99 in µs: of total latency if fio reports it, else of completion latency.

    Return None if fio reports neither.
    """
    for key in ("lat_ns", "lat", "clat_ns", "clat"):
        found = side.get(key, {}).get("percentile", {})
        if "99.000000" in found:
            return float(found["99.000000"]) / _US[key]
    return None
