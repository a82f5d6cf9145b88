# SPDX-License-Identifier: GPL-2.0-only
"""Define all metrics: the name, unit, precision and computation of each.

All code that computes, judges or shows a metric reads its properties here. A new metric needs an
entry in METRICS and a test of its value.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Bins = Counter[int]  # latency in ns -> number of requests


# ---- units ----------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """A metric's unit in summary.json, and the larger and smaller units that reports use.

    scales  (size, name) of each unit that reports use, the largest first; the size is in units of
            summary.json
    """

    name: str
    scales: tuple[tuple[float, str], ...]


_IOPS = Unit("IOPS", ((1, "IOPS"),))
_BYTES_PER_S = Unit("B/s", ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")))
_MICROSECONDS = Unit("µs", ((1e6, "s"), (1e3, "ms"), (1, "µs")))
_SECONDS = Unit("s", ((1, "s"), (1e-3, "ms")))
_SHARE = Unit("1", ((0.01, "%"),))
# The label of a metric in one of these units names the unit, so reports show the bare number.
_INSTRUCTIONS = Unit("instructions", ((1, ""),))
_SWITCHES = Unit("switches", ((1, ""),))
_LOCKS = Unit("locks", ((1, ""),))
_INDEX = Unit("index", ((1, ""),))


# ---- the facts that metrics are computed from -----------------------------------


@dataclass(frozen=True)
class Done:
    """The work that one job completed in one run.

    requests    number of completed requests; for an application, of completed operations
    seconds     the longest runtime of the job's processes; for an application, the time from its
                start to the end of its last operation
    bytes       bytes moved; None for an application
    cpu_s       CPU time of the job's processes; None for an application
    mean_us     mean of total latency (submission and completion latency together)
    max_us      maximum of total latency
    bins        histogram of total latency
    completion  histogram of completion latency; empty if fio did not measure it
    """

    requests: int
    seconds: float
    bytes: int | None = None
    cpu_s: float | None = None
    mean_us: float = 0.0
    max_us: float = 0.0
    bins: Bins = field(default_factory=Counter)
    completion: Bins = field(default_factory=Counter)

    @property
    def iops(self) -> float:
        """Return requests a second; 0 for a job that completed nothing."""
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Return bytes a second; 0 for a job that completed nothing."""
        return (self.bytes or 0) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Together:
    """The work of all fio jobs of one run.

    background  names of the jobs that may slow down the protected job
    by_weight   for each process, the bytes that it moved, divided by its weight (8 minus its
                best-effort level)
    longest_ms  the longest runtime of all processes
    deadlines   job -> latency in µs; a request of the job that takes longer is late
    """

    jobs: Mapping[str, Done]
    background: tuple[str, ...]
    by_weight: tuple[float, ...]
    longest_ms: float
    deadlines: Mapping[str, int]

    @property
    def requests(self) -> int:
        """Return the number of requests that all jobs completed."""
        return sum(job.requests for job in self.jobs.values())

    @property
    def bytes_per_s(self) -> float:
        """Return the sum of all jobs' bandwidths."""
        return sum(job.bytes_per_s for job in self.jobs.values())


@dataclass(frozen=True)
class Whole:
    """A whole run: the changes of its counters, from the first to the last sample with I/O.

    requests      number of requests that all devices completed
    busy_ns       time in which CPUs were not idle, added up over all CPUs
    virtual_time  True if the CPU takes one nanosecond for each instruction
    contended     number of times a CPU found a spinlock taken; None: not counted
    used          name of a metric -> utilisation: of each part of the device (bus_utilisation), or
                  of the whole device (device_utilisation)
    """

    requests: int
    elapsed_ns: int
    busy_ns: int
    cpus: int
    devices: int
    context_switches: int
    io_ticks_ms: int
    virtual_time: bool
    contended: int | None
    used: Mapping[str, float]


# ---- the registry ---------------------------------------------------------------


class Of(Enum):
    """The thing that a metric describes."""

    JOB = "a job"
    RUN = "a whole run"
    JOBS = "all fio jobs of a run together"
    TIME = "a job, over time"


class Better(Enum):
    """The direction in which a metric is better. A metric that only describes a run has none."""

    LESS = "less"
    MORE = "more"


@dataclass(frozen=True)
class Metric:
    """One metric.

    label       its name for people
    measure     computes its value from Done (JOB), Whole (RUN) or Together (JOBS), or returns None
    compared    True if the report compares schedulers by this metric
    resolution  the smallest difference between two distinct values, as a share of a value
    counted     True if a value is computed from counts of requests, so that its smallest step is
                one request
    rests_on    returns the number of requests from which a value is computed
    needs       the fewest requests from which the lab computes this latency
    asked       True if only experiments that name this metric in `judged_by` have it
    absolute    True if answers state the value itself, not its ratio to the value under `none`
    negligible  the largest difference, in the metric's unit, that is too small to matter to a user
    drawn       True if a report has a chart of this metric of whole runs whenever the metric was
                measured
    used        True if the report's table of bottlenecks shows this utilisation
    note        a remark for readers of this metric's chart
    """

    name: str
    label: str
    unit: Unit
    of: Of
    better: Better | None = None
    measure: Callable[[Any], float | None] = lambda _: None
    compared: bool = False
    resolution: float = 0.0
    counted: bool = False
    rests_on: Callable[[Any], int] = lambda of: int(of.requests)
    needs: int = 1
    asked: bool = False
    absolute: bool = False
    negligible: float = 0.0
    drawn: bool = False
    used: bool = False
    note: str = ""

    @property
    def is_latency_of_job(self) -> bool:
        """Return whether this is a job's latency (infinite if the job completed no request)."""
        return self.of is Of.JOB and self.unit is _MICROSECONDS

    @property
    def is_share(self) -> bool:
        """Return whether the metric is a share: reports show it in percent."""
        return self.unit is _SHARE

    def step(self, requests: float) -> float:
        """Return the smallest step of a value computed from `requests`, as a share of the value."""
        return max(self.resolution, 1 / requests if self.counted and requests else 0.0)


#: The resolution of fio's histograms: a bin is 1/128 to 1/64 of its value wide.
_A_BIN = 1 / 64
#: A difference of 0.01 lock waits for each I/O is negligible. The lab's probe executes 525
#: instructions for each wait (docs/lab.md), so 5 for 0.01 waits. An I/O takes over 5000.
_FEW_LOCKS = 0.01
#: A difference of one late request in 100 is negligible.
_FEW_LATE = 0.01
#: The metric that reports show if a job has too few requests for a percentile.
MAXIMUM = "max_us"
#: The tail latency by which a protected job is judged.
TAIL = "p99_us"


def percentile(bins: Bins, permille: int) -> int:
    """Return the lowest bin that has at least `permille`/1000 of all requests at or below it.

    fio computes its percentiles in the same way. Raise ValueError if there are no bins.
    """
    total = bins.total()
    seen = 0
    for value in sorted(bins):
        seen += bins[value]
        if seen * 1000 >= permille * total:
            return value
    raise ValueError("no bins")


def _percentile_us(bins: Bins, permille: int) -> float | None:
    return percentile(bins, permille) / 1000 if bins else None


def jain(shares: list[float]) -> float:
    """Return Jain's index of fairness: 1 if all shares are equal, 1 / n if one of n has all.

    R. Jain, D. Chiu, W. Hawe, A Quantitative Measure of Fairness (DEC-TR-301, 1984).
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def _background(together: Together) -> list[Done]:
    return [together.jobs[name] for name in together.background if name in together.jobs]


def _background_bytes_per_s(together: Together) -> float | None:
    jobs = _background(together)
    return sum(job.bytes_per_s for job in jobs) if jobs else None


def _least_share(together: Together) -> float:
    total = together.bytes_per_s
    return min(job.bytes_per_s for job in together.jobs.values()) / total if total else 0.0


def _longest_wait(together: Together) -> float:
    """Return the longest latency of all jobs, in µs.

    If a job completed nothing, its latency is the longest runtime of all processes.
    """
    return max(
        job.max_us if job.requests else together.longest_ms * 1000 for job in together.jobs.values()
    )


def _late_share(together: Together) -> float:
    """Return the mean share of late requests, over all jobs that have a deadline.

    A job's share is the part of its requests whose latency exceeds its deadline. A job that
    completed nothing has the share 1.
    """
    shares = [
        _share_above(together.jobs[name].bins, deadline_us * 1000)
        for name, deadline_us in together.deadlines.items()
        if name in together.jobs
    ]
    return sum(shares) / len(shares) if shares else 0.0


def _share_above(bins: Bins, limit: int) -> float:
    late = sum(count for value, count in bins.items() if value > limit)
    return late / bins.total() if bins else 1.0


def _instructions(whole: Whole) -> float | None:
    return whole.busy_ns / whole.requests if whole.virtual_time and whole.requests else None


def _contended(whole: Whole) -> float | None:
    if whole.contended is None or not whole.requests:
        return None
    return whole.contended / whole.requests


#: Every metric, in the order in which tables show them. A job's latencies (except clat_p99_us) are
#: total latencies: a request waits for a tag during submission, and completion latency does not
#: include this wait.
METRICS = (
    Metric("iops", "throughput", _IOPS, Of.JOB, Better.MORE, lambda job: job.iops,
           compared=True, counted=True),
    Metric("bytes_per_s", "bandwidth", _BYTES_PER_S, Of.JOB, Better.MORE,
           lambda job: None if job.bytes is None else job.bytes_per_s,
           compared=True, counted=True),
    Metric("mean_us", "mean latency", _MICROSECONDS, Of.JOB, Better.LESS,
           lambda job: job.mean_us if job.requests else None, compared=True),
    Metric("p50_us", "median latency", _MICROSECONDS, Of.JOB, Better.LESS,
           lambda job: _percentile_us(job.bins, 500), resolution=_A_BIN, needs=2),
    Metric("p99_us", "P99 latency", _MICROSECONDS, Of.JOB, Better.LESS,
           lambda job: _percentile_us(job.bins, 990),
           compared=True, resolution=_A_BIN, needs=100),
    Metric("p999_us", "P99.9 latency", _MICROSECONDS, Of.JOB, Better.LESS,
           lambda job: _percentile_us(job.bins, 999), resolution=_A_BIN, needs=1000),
    Metric(MAXIMUM, "maximum latency", _MICROSECONDS, Of.JOB, Better.LESS,
           lambda job: job.max_us if job.requests else None, compared=True),
    Metric("cpu_s", "CPU time", _SECONDS, Of.JOB, Better.LESS, lambda job: job.cpu_s,
           compared=True,
           note="User and system time of fio's threads: more I/Os take more of it."),
    Metric("clat_p99_us", "P99 completion latency", _MICROSECONDS, Of.JOB, Better.LESS,
           lambda job: _percentile_us(job.completion, 990), resolution=_A_BIN, needs=100),
    Metric("instructions_per_io", "instruction count per I/O", _INSTRUCTIONS, Of.RUN, Better.LESS,
           _instructions, compared=True, drawn=True,
           note="All that the virtual CPU does, fio and interrupts too, over all I/Os."),
    Metric("contended_locks_per_io", "number of contended locks per I/O", _LOCKS, Of.RUN,
           Better.LESS, _contended, compared=True, drawn=True, negligible=_FEW_LOCKS),
    Metric("context_switches", "context switches", _SWITCHES, Of.RUN, Better.LESS,
           lambda whole: whole.context_switches),
    Metric("device_utilisation", "device utilisation", _SHARE, Of.RUN,
           measure=lambda whole: max(whole.used.values(), default=None), used=True),
    Metric("device_busy", "time with a request in flight", _SHARE, Of.RUN,
           measure=lambda whole: whole.io_ticks_ms * 1e6 / whole.elapsed_ns / whole.devices,
           used=True),
    Metric("cpu_utilisation", "CPU utilisation", _SHARE, Of.RUN,
           measure=lambda whole: whole.busy_ns / (whole.elapsed_ns * whole.cpus), used=True),
    Metric("background_bytes_per_s", "bandwidth of the background", _BYTES_PER_S, Of.JOBS,
           Better.MORE, _background_bytes_per_s, compared=True, counted=True,
           rests_on=lambda all_jobs: sum(job.requests for job in _background(all_jobs))),
    Metric("total_iops", "total throughput", _IOPS, Of.JOBS, Better.MORE,
           lambda all_jobs: sum(job.iops for job in all_jobs.jobs.values()),
           compared=True, counted=True, asked=True),
    Metric("total_bytes_per_s", "total bandwidth", _BYTES_PER_S, Of.JOBS, Better.MORE,
           lambda all_jobs: all_jobs.bytes_per_s, compared=True, counted=True, asked=True),
    Metric("jain_index", "fairness index", _INDEX, Of.JOBS, Better.MORE,
           lambda all_jobs: jain(list(all_jobs.by_weight)),
           compared=True, counted=True, asked=True, absolute=True),
    Metric("least_share", "share of the job with least", _SHARE, Of.JOBS, Better.MORE,
           _least_share, compared=True, counted=True, asked=True, absolute=True,
           rests_on=lambda all_jobs: min(job.requests for job in all_jobs.jobs.values())),
    Metric("longest_wait_us", "longest wait", _MICROSECONDS, Of.JOBS, Better.LESS,
           _longest_wait, compared=True, asked=True, absolute=True),
    Metric("late_share", "share of late requests", _SHARE, Of.JOBS, Better.LESS,
           _late_share, compared=True, counted=True, asked=True, absolute=True,
           negligible=_FEW_LATE,
           rests_on=lambda all_jobs: sum(
               all_jobs.jobs[name].requests for name in all_jobs.deadlines if name in all_jobs.jobs
           )),
    Metric("lat_us", "latency", _MICROSECONDS, Of.TIME, Better.LESS),
    Metric("clat_us", "completion latency", _MICROSECONDS, Of.TIME, Better.LESS),
)  # fmt: skip

_BY_NAME = {metric.name: metric for metric in METRICS}
_UNITS = {metric.unit.name: metric.unit for metric in METRICS}
_PART = "_utilisation"


def find(name: str) -> Metric:
    """Return the metric `name` of METRICS; any other name is the utilisation of a device's part."""
    return _BY_NAME.get(name) or _part(name)


def known(name: str) -> bool:
    """Return whether METRICS has a metric of this name."""
    return name in _BY_NAME


def of(*kinds: Of) -> list[Metric]:
    """Return the metrics that describe one of `kinds`, such as Of.JOB, in the order of METRICS."""
    return [metric for metric in METRICS if metric.of in kinds]


def part(name: str) -> Metric:
    """Return the metric for the utilisation of the part `name` of the device."""
    return _part(name + _PART)


def _part(name: str) -> Metric:
    label = name.replace("_", " ")
    return Metric(name, label, _SHARE, Of.RUN, measure=lambda whole: whole.used.get(name))


def unit(name: str) -> Unit:
    """Return the unit called `name`.

    If no metric has this unit, return a unit without larger and smaller ones.
    """
    return _UNITS.get(name) or Unit(name, ((1, name),))
