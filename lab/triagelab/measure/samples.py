# SPDX-License-Identifier: GPL-2.0-only
"""Build one tidy table from the results of all runs.

A row holds one value of one metric. The value belongs to a job, or to the whole run if the
column job is null. If time_s is null, the value covers all of the run. Otherwise time_s is the
time of the value: seconds since the job's start or, for the whole run, since the first sample
with I/O.

A job that starved (completed nothing) has rows with 0 requests, but no row for latency. A
percentile has no row if the job completed too few requests for it.
"""

import csv
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from triagelab.ask import fiofile
from triagelab.ask.fiofile import LOG_WINDOW_MS
from triagelab.base import metrics
from triagelab.base.errors import LabError
from triagelab.base.metrics import Bins, Done, Metric, Of, Together, Whole
from triagelab.run import machines, records
from triagelab.run.records import (
    Record,
    point_key,
    point_order,
    read_environment,
    read_json,
    unusable,
)

SCHEMA = {
    "run": pl.String,
    "scheduler": pl.String,
    "point": pl.String,  # JSON, keys sorted
    "repeat": pl.Int64,
    "job": pl.String,
    "metric": pl.String,
    "time_s": pl.Float64,
    "value": pl.Float64,
    "unit": pl.String,
    "requests": pl.Int64,  # number of requests behind the value; null if not counted
}

# The columns of samples.csv. All except time_ns and in_flight are running totals.
COUNTERS = (
    "time_ns",
    "idle_ns",
    "context_switches",
    "reads",
    "writes",
    "discards",
    "flushes",
    "in_flight",
    "io_ticks_ms",
    "queue_ms",
)
DIRECTIONS = ("read", "write", "trim")
#: fio's name for flushes. They move no data, but a job waits for them.
SYNC = "sync"
#: Metric -> the word that marks it in the names of fio's logs, as in 0_clat.log.
LOGS = {"lat_us": "lat", "clat_us": "clat"}

Row = dict[str, int]  # the counters at one moment
#: Computes a utilisation from the counters at the start and at the end of an interval.
Share = Callable[[Row, Row], float]


@dataclass(frozen=True)
class Value:
    """A row of the table without the columns that _row() adds from the run and the metric."""

    job: str | None
    metric: str
    value: float
    requests: int | None
    time_s: float | None = None


def collect(out: Path) -> pl.DataFrame:
    """Return the table of all finished runs under `out`; write nothing.

    Raise LabError if a finished run's files are missing or malformed.
    """
    environment = read_environment(out)
    schedulers = list(environment["schedulers"])
    order = {name: index for index, name in enumerate(schedulers)}
    # A run counts for several points if they differ only in values that do not affect it. The
    # table then has the run's rows once for each of these points.
    done = [
        (run | {"point": point}, values)
        for path, run in records.runs(out)
        if run["status"] == "done"
        for values in [list(_values(path, run, environment))]
        for point in run.get("points", [run["point"]])
    ]
    done.sort(
        key=lambda item: (
            order.get(item[0]["scheduler"], len(order)),
            point_order(item[0]["point"]),
            item[0]["repeat"],
            item[0]["id"],
        )
    )
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA}
    for run, values in done:
        for value in values:
            for name, cell in _row(run, value).items():
                columns[name].append(cell)
    return pl.DataFrame(columns, schema=SCHEMA)


def _row(run: Record, value: Value) -> Record:
    return {
        "run": run["id"],
        "scheduler": run["scheduler"],
        "point": point_key(run["point"]),
        "repeat": run["repeat"],
        "job": value.job,
        "metric": value.metric,
        "time_s": value.time_s,
        "value": float(value.value),
        "unit": metrics.find(value.metric).unit.name,
        "requests": value.requests,
    }


def _values(path: Path, run: Record, environment: Record) -> Iterator[Value]:
    application = environment.get("application")
    if application:
        yield from _operations(path / "out" / "operations.csv", application)
    sections = [name for name in run["sections"] if name != application]
    if sections:
        yield from _jobs(path / "out" / "fio.json", sections, environment)
    known = {
        "cpus": environment["cpus"],
        **environment["device"],
        "parts": records.parts(environment),
    }
    yield from _run_wide(path / "out", environment, {**known, **run})
    yield from _logs(path / "out" / "logs", run["sections"])


def _measured(
    job: str | None, wanted: Iterable[Metric], of: Done | Together | Whole
) -> Iterator[Value]:
    """Yield the value of each `wanted` metric that can be computed.

    Skip a latency metric of a job if the job completed too few requests for it.
    """
    for metric in wanted:
        value = metric.measure(of)
        if value is not None and (of.requests >= metric.needs or not metric.is_latency_of_job):
            yield Value(job, metric.name, value, metric.rests_on(of))


# ---- fio's JSON -----------------------------------------------------------------


def _jobs(path: Path, sections: list[str], environment: Record) -> Iterator[Value]:
    threads: dict[str, list[Record]] = defaultdict(list)
    read = read_json(path)
    for job in read["jobs"]:
        threads[job["jobname"]].append(job)
    if len(threads) < len(set(sections)):
        raise LabError(
            f"{path} reports on {', '.join(threads)} alone, although the jobs were "
            f"{', '.join(sections)}: take group_reporting out of the job file."
        )
    for name, parts in threads.items():
        # A process that ran but completed nothing was starved. This is no error.
        if any(not part["job_runtime"] and not _completed_by(part) for part in parts):
            raise LabError(f"{path}: a process of {name} never started; fio.log there may say why")
    done = {name: _done_by(path, name, parts) for name, parts in threads.items()}
    for name, job in done.items():
        yield from _measured(name, metrics.of(Of.JOB), job)
    judged_by = environment.get("judged_by", ())
    together = Together(
        done,
        tuple(environment.get("background", ())),
        tuple(_by_weight(thread, read) for thread in read["jobs"]),
        max(thread["job_runtime"] for thread in read["jobs"]),
        environment.get("deadlines", {}),
    )
    wanted = [of for of in metrics.of(Of.JOBS) if not of.asked or of.name in judged_by]
    yield from _measured(None, wanted, together)


def _done_by(path: Path, name: str, threads: list[Record]) -> Done:
    """Return a job's work, added up over its processes and over all kinds of requests."""
    parts = [thread[way] for thread in threads for way in DIRECTIONS if way in thread]
    syncs = [thread[SYNC] for thread in threads if SYNC in thread]
    total = [part["lat_ns"] for part in (*parts, *syncs) if part.get("lat_ns", {}).get("N")]
    count = sum(part["N"] for part in total)
    bins = _merged_bins(total)
    if count and not bins:
        raise LabError(
            f"{path}: there is no histogram of {name}'s total latency. fio must run with "
            "lat_percentiles=1 and --output-format=json+: take lat_percentiles=0 and "
            "disable_lat out of the job file."
        )
    return Done(
        requests=sum(part["total_ios"] for part in (*parts, *syncs)),
        # Use the longest runtime (in ms), because fio's group_reporting divides by it too.
        seconds=max(part["runtime"] for part in parts) / 1000,
        bytes=sum(part["io_bytes"] for part in parts),
        cpu_s=sum(_cpu_seconds(thread) for thread in threads),
        mean_us=sum(part["mean"] * part["N"] for part in total) / count / 1000 if count else 0.0,
        max_us=max((part["max"] for part in total), default=0.0) / 1000,
        bins=bins,
        # Completion latency is optional: a job file may turn it off.
        completion=_merged_bins([part.get("clat_ns", {}) for part in parts]),
    )


def histograms(out: Path, job: str) -> dict[tuple[str, str], Bins]:
    """Return a job's histograms of total latency (ns), by point and scheduler.

    A histogram counts the requests of all repeats.
    """
    application = read_environment(out).get("application")
    found: dict[tuple[str, str], Bins] = defaultdict(Counter)
    for path, run in records.runs(out):
        if run["status"] != "done" or job not in run["sections"]:
            continue
        if job == application:
            bins = _bins(_done(path / "out" / "operations.csv"))
        else:
            threads = read_json(path / "out" / "fio.json")["jobs"]
            mine = [thread for thread in threads if thread["jobname"] == job]
            ways = (*DIRECTIONS, SYNC)
            bins = _merged_bins(
                [part[way].get("lat_ns", {}) for part in mine for way in ways if way in part]
            )
        for point in run.get("points", [run["point"]]):
            found[point_key(point), run["scheduler"]] += bins
    return dict(found)


def _completed_by(thread: Record) -> int:
    """Return the number of reads, writes and trims that a process completed."""
    return sum(thread[way]["total_ios"] for way in DIRECTIONS if way in thread)


def _by_weight(thread: Record, read: Record) -> float:
    """Return the number of bytes that a process moved, divided by the process's weight.

    The weight is 8 minus the best-effort level, which is 4 if the job file does not set it. In
    the kernel, bfq's weights of processes are ten times these.
    """
    options = read.get("global options", {}) | thread.get("job options", {})
    done = sum(thread[way]["io_bytes"] for way in DIRECTIONS if way in thread)
    return float(done / (8 - fiofile.number(options.get("prio", "4"))))


def _cpu_seconds(thread: Record) -> float:
    """Return a process's user and system time, in seconds.

    fio reports both as percentages of job_runtime, which is in ms.
    """
    share = (thread["usr_cpu"] + thread["sys_cpu"]) / 100
    return float(share * thread["job_runtime"] / 1000)


def _merged_bins(parts: list[Record]) -> Bins:
    bins: Bins = Counter()
    for part in parts:
        for value, count in part.get("bins", {}).items():
            bins[int(value)] += count
    return bins


# ---- an application's operations ------------------------------------------------


def _operations(path: Path, application: str) -> Iterator[Value]:
    """Yield the metrics of an application's operations, and their mean latency over time.

    Each mean covers the operations that ended in one window of LOG_WINDOW_MS.
    """
    done = _done(path)
    latencies = [latency for _, latency in done]
    job = Done(
        requests=len(done),
        seconds=max((end for end, _ in done), default=0.0),
        mean_us=sum(latencies) / len(latencies) if latencies else 0.0,
        max_us=max(latencies, default=0.0),
        bins=_bins(done),
    )
    yield from _measured(application, metrics.of(Of.JOB), job)
    windows: dict[int, list[float]] = defaultdict(list)
    for end, latency in done:
        windows[int(end * 1000) // LOG_WINDOW_MS].append(latency)
    for window, inside in sorted(windows.items()):
        time_s = (window + 1) * LOG_WINDOW_MS / 1000
        yield Value(application, "lat_us", sum(inside) / len(inside), len(inside), time_s)


def _done(path: Path) -> list[tuple[float, float]]:
    """Return the end (s) and the latency (µs) of each of an application's operations.

    A line of the file has the two numbers of one operation, with a comma between them.
    """
    try:
        lines = [line.split(",") for line in path.read_text().split()]
        return [(float(end), float(latency)) for end, latency in lines]
    except (OSError, ValueError) as error:
        raise unusable(path, error) from error


def _bins(done: list[tuple[float, float]]) -> Bins:
    return Counter(round(latency * 1000) for _, latency in done)


# ---- the guest's counters -------------------------------------------------------


def _run_wide(folder: Path, environment: Record, run: Record) -> Iterator[Value]:
    """Yield the whole-run metrics for the time from the first to the last sample with I/O.

    Also yield the device's utilisation between samples. The time excludes fio's start and end. A
    run with fewer than two samples with I/O has none of these metrics.
    """
    rows = _counters(folder / "samples.csv")
    active = [index for index in range(len(rows)) if _does_io(rows, index)]
    if len(active) < 2:
        return
    rows = rows[active[0] : active[-1] + 1]
    first, last = rows[0], rows[-1]
    change = {name: last[name] - first[name] for name in first}
    contended = _between(folder / "locks.csv", first, last)
    shares, device_rows = _shares(folder, rows, run["parts"], run.get("capacity_iops"))
    whole = Whole(
        requests=_completed(last) - _completed(first),
        elapsed_ns=change["time_ns"],
        busy_ns=change["time_ns"] * run["cpus"] - change["idle_ns"],
        cpus=run["cpus"],
        devices=run.get("devices", 1),
        context_switches=change["context_switches"],
        io_ticks_ms=change["io_ticks_ms"],
        # In virtual time, the simulated CPU takes one nanosecond for each instruction.
        virtual_time=machines.kind(environment["machine"]).in_virtual_time,
        contended=contended[-1]["contended"] - contended[0]["contended"]
        if len(contended) > 1
        else None,
        used={name: share(device_rows[0], device_rows[-1]) for name, share in shares.items()},
    )
    yield from _measured(None, [*metrics.of(Of.RUN), *map(metrics.part, run["parts"])], whole)
    for before, after in itertools.pairwise(device_rows):
        if shares:
            # The utilisation of a device is that of its most used part.
            used = max(share(before, after) for share in shares.values())
            time_s = (after["time_ns"] - first["time_ns"]) / 1e9
            yield Value(None, "device_utilisation", used, None, time_s)


def _shares(
    folder: Path, rows: list[Row], busy: Record, capacity: float | None
) -> tuple[dict[str, Share], list[Row]]:
    """Return a function for each utilisation metric, and the rows that the functions read.

    If the device's parts are known, each part has a function, which reads rows of device.csv.
    Otherwise, if the device's capacity is known, one function reads `rows`, which are from
    samples.csv. Without parts and capacity, or with fewer than two rows, there is no function.
    """
    shares: dict[str, Share] = {}
    if busy:
        start, end = rows[0]["time_ns"], rows[-1]["time_ns"]
        rows = [row for row in _parts_counters(folder, busy) if start <= row["time_ns"] <= end]
        shares = {metrics.part(name).name: _part_share(part) for name, part in busy.items()}
    elif capacity:
        shares = {"device_utilisation": _capacity_share(capacity)}
    return (shares, rows) if len(rows) > 1 else ({}, [])


def _capacity_share(capacity_iops: float) -> Share:
    """Return a function that divides the completed requests a second by the device's capacity."""

    def share(before: Row, after: Row) -> float:
        completed = _completed(after) - _completed(before)
        return completed / (_elapsed_ns(before, after) / 1e9) / capacity_iops

    return share


def _part_share(part: Record) -> Share:
    """Return a function that computes a part's utilisation.

    Utilisation is busy time over elapsed time. If a part can do n operations at once, as the n
    dies of a flash drive can, the elapsed time is multiplied by n. A device may count all of an
    operation's time at its start or at its end. So over an interval as short as an operation,
    utilisation may exceed 1.
    """

    def share(before: Row, after: Row) -> float:
        busy_ns = sum(after[name] - before[name] for name in part["busy"])
        places = after[part["places"]] if part["places"] else 1
        return busy_ns / (_elapsed_ns(before, after) * places)

    return share


def _between(path: Path, first: Row, last: Row) -> list[Row]:
    """Return a file's rows from the time of `first` to that of `last`; [] without the file."""
    if not path.exists():
        return []
    return [row for row in _csv(path)[1] if first["time_ns"] <= row["time_ns"] <= last["time_ns"]]


def _elapsed_ns(before: Row, after: Row) -> int:
    return after["time_ns"] - before["time_ns"]


def _counters(path: Path) -> list[Row]:
    columns, rows = _csv(path)
    if columns != COUNTERS:
        raise unusable(path, f"its columns are not {','.join(COUNTERS)}")
    return rows


def _parts_counters(folder: Path, busy: Record) -> list[Row]:
    """Return the rows of device.csv, which has the device's own counters for its parts."""
    path = folder / "device.csv"
    columns, rows = _csv(path)
    wanted = {"time_ns"}
    for part in busy.values():
        wanted |= {*part["busy"], *([part["places"]] if part["places"] else [])}
    if missing := wanted - set(columns):
        raise unusable(path, f"it lacks {', '.join(sorted(missing))}")
    return rows


def _csv(path: Path) -> tuple[tuple[str, ...], list[Row]]:
    """Return the column names and the rows of a CSV file of whole numbers."""
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            rows = [{name: int(cell) for name, cell in row.items()} for row in reader]
            return tuple(reader.fieldnames or ()), rows
    except OSError as error:
        raise unusable(path, error.strerror) from error
    except (TypeError, ValueError) as error:
        raise unusable(path, error) from error


def _completed(row: Row) -> int:
    return row["reads"] + row["writes"] + row["discards"] + row["flushes"]


def _does_io(rows: list[Row], index: int) -> bool:
    """Return True if the sample at `index` shows I/O.

    A sample shows I/O if a request is in flight, or if requests completed both since the sample
    before and until the sample after.
    """
    if rows[index]["in_flight"]:
        return True
    if not 0 < index < len(rows) - 1:
        return False
    before, here, after = (_completed(rows[i]) for i in (index - 1, index, index + 1))
    return before < here < after


# ---- fio's latency logs ---------------------------------------------------------


def _logs(folder: Path, sections: list[str]) -> Iterator[Value]:
    """Yield each job's latency over time from fio's logs.

    A job that completed nothing has no log.
    """
    for index, job in enumerate(sections):
        for metric, kind in LOGS.items():
            path = folder / f"{index}_{kind}.log"
            if not path.exists():
                continue
            for line in path.read_text().splitlines():
                milliseconds, nanoseconds, _ = line.split(",", 2)
                yield Value(job, metric, int(nanoseconds) / 1000, None, int(milliseconds) / 1000)
