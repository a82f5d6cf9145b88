# SPDX-License-Identifier: GPL-2.0-only
"""Make run directories for tests: results like a guest's, made without a guest.

Latencies are random. The files have fio's formats: its histogram buckets, JSON and logs.
test_samples.py compares the buckets with those of a real fio in `tests/lab/data`.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Load:
    """A job's load under a scheduler: its requests a second, and their latency."""

    iops: float
    median_us: float
    spread: float = 0.3  # standard deviation of the latency's natural logarithm
    bs: int = 4096
    slat_us: float = 2.0
    ddir: str = "read"


def unchanged(point: Record, scheduler: str, job: str, load: Load) -> Load:
    """Return the same load at every point of the matrix."""
    return load


@dataclass(frozen=True)
class Bench:
    """A whole experiment: the load of each job under each scheduler."""

    loads: dict[str, dict[str, Load]]
    device: str = "null"
    at: Callable[[Record, str, str, Load], Load] = unchanged  # returns a job's load at a point
    alone: Load | None = None
    repeats: int = 5
    seconds: float = 3.0
    protected: str | None = "database_sim"
    background: tuple[str, ...] = ("backup_sim",)
    judged_by: tuple[str, ...] = ()
    capacity_iops: float | None = 10000.0
    failed: tuple[tuple[str, int], ...] = ()
    starved: tuple[tuple[str, int], ...] = ()  # runs in which the protected job completes nothing
    noise: float = 0.02
    points: tuple[Record, ...] = ({},)
    notes: tuple[str, ...] = field(default=("The guest shares no file with the host.",))


STUDY = Bench(
    # Made-up figures, with ratios that are typical of a device that is shared unfairly.
    loads={
        "none": {"database_sim": Load(300, 3000), "backup_sim": Load(9500, 3300, bs=131072)},
        "mq-deadline": {
            "database_sim": Load(180, 5200, slat_us=900),
            "backup_sim": Load(9600, 3300, bs=131072),
        },
        "kyber": {"database_sim": Load(300, 3020), "backup_sim": Load(9300, 3400, bs=131072)},
        "bfq": {"database_sim": Load(7200, 108), "backup_sim": Load(1500, 21000, bs=131072)},
        "prio-basic": {"database_sim": Load(4100, 190), "backup_sim": Load(5600, 5700, bs=131072)},
    },
    alone=Load(8000, 105, 0.05),
)


# A modelled drive. Each request takes one of the DIES for DIE_READ_NS, the only bus for BUS_NS, and
# the only controller for CONTROLLER_NS. So the dies are the drive's busiest part.
DIES, DIE_READ_NS, BUS_NS, CONTROLLER_NS = 16, 1_500_000, 40_000, 9_000
FLASH: Record = {
    "name": "flash",
    "settings": {
        "profile": "flash", "size": 65536, "hw_queues": 4, "depth": 1023, "block_size": 512,
        "memory_backed": 0, "timeout_ms": 30000, "seed": 1, "error_ppm": 0, "stall_ppm": 0,
        "resource_ppm": 0, "cmd_ns": 20000, "bus_mbps": 1200, "slots": 256,
        "ctrl_ns": CONTROLLER_NS, "dies": DIES, "page_kib": 16, "read_ns": DIE_READ_NS,
        "program_kib": 64, "program_ns": 700000, "program_steps": 8, "overtake_max": 16,
        "buffer_kib": 65536, "map_kib": 4, "power_safe": 1, "gc_after_mib": 0,
        "gc_amplify_pct": 200, "gc_ns": 900000,
    },
    "capacity_iops": None,
    "description": "modeldisk: a TLC NVMe drive at a fifth of its throughput",
    "parts": {
        "dies": {"busy": ["die_read_ns", "die_program_ns", "die_copy_ns"], "places": "dies"},
        "bus": {"busy": ["bus_busy_ns"], "places": None},
        "controller": {"busy": ["ctrl_busy_ns"], "places": None},
    },
}  # fmt: skip


def beside(point: Record, scheduler: str, job: str, load: Load) -> Load:
    """Return the load of a job of STUDY beside `t_apps` applications.

    The database's latency grows in proportion to t_apps, but less under bfq and prio-basic. The
    backup's throughput also grows with t_apps, up to that of STUDY.
    """
    apps = point.get("t_apps", 1)
    if job == "backup_sim":
        return replace(load, iops=load.iops * min(0.4 + 0.1 * apps, 1))
    grown = apps ** {"bfq": 0.02, "prio-basic": 0.3}.get(scheduler, 1.0)
    return replace(load, median_us=load.median_us * grown)


def make(out: Path, bench: Bench = STUDY) -> Path:
    """Write the run directory of an experiment, and return it."""
    out.mkdir(parents=True, exist_ok=True)
    for point in bench.points:
        for scheduler, jobs in bench.loads.items():
            for repeat in range(bench.repeats):
                here = {job: bench.at(point, scheduler, job, load) for job, load in jobs.items()}
                if bench.protected and (scheduler, repeat) in bench.starved:
                    here[bench.protected] = Load(0, 100)
                _run(out, bench, scheduler, point, repeat, here)
    for repeat in range(bench.repeats if bench.alone else 0):
        assert bench.alone is not None and bench.protected is not None
        _run(out, bench, "none", {"alone": True}, repeat, {bench.protected: bench.alone})
    runs = {"runs": sorted(path.name for path in (out / "runs").iterdir())}
    _dump(out / "environment.json", environment(bench) | runs)
    return out


def environment(bench: Bench) -> Record:
    return {
        "schema": 1,
        "experiment": "mixed-priority",
        "title": "A database beside a backup",
        "question": "Does a priority-aware scheduler protect the database, and at what price?",
        "machine": "sim",
        "device": FLASH if bench.device == "flash" else _null(bench),
        "kernel": "6.12.117+deb12-amd64",
        "qemu": "7.2.22",
        "fio": "fio-3.33",
        "schedulers": list(bench.loads),
        "protected": bench.protected,
        "background": list(bench.background),
        "judged_by": list(bench.judged_by),
        "repeats": bench.repeats,
        "seed": 1,
        "modules": {"prio-basic": {"sha256": "5a" * 32}} if "prio-basic" in bench.loads else {},
        "tunables": {"prio-basic": {"aging_expire": "100"}} if "prio-basic" in bench.loads else {},
        "cpus": 1,
        "notes": list(bench.notes),
    }


def _null(bench: Bench) -> Record:
    return {
        "name": "null",
        "settings": {"irqmode": 2, "completion_nsec": 400000, "hw_queue_depth": 4},
        "capacity_iops": bench.capacity_iops,
        "description": "null_blk, a completion 400 µs after the request, 4 at a time",
    }


def _run(
    out: Path, bench: Bench, scheduler: str, point: Record, repeat: int, jobs: dict[str, Load]
) -> None:
    where = [f"{name}{value}".replace(" ", "") for name, value in point.items()]
    identity = "-".join([scheduler, *where, str(repeat)])
    folder = out / "runs" / identity
    (folder / "out" / "logs").mkdir(parents=True)
    failed = (scheduler, repeat) in bench.failed
    run = {
        "id": identity,
        "scheduler": scheduler,
        "point": point,
        "repeat": repeat,
        "seed": 1000 + repeat,
        "sections": list(jobs),
        "status": "failed" if failed else "done",
        "reason": "the guest panicked: <NULL> pointer dereference" if failed else None,
        "boot_s": 4.2,
    }
    _dump(folder / "run.json", run)
    if failed:
        return
    random = np.random.default_rng([repeat, len(point), *identity.encode()])
    total = leave(folder / "out", jobs, random, bench.noise, bench.seconds)
    if bench.device == "flash":
        _flash(folder / "out" / "device.csv", total, bench.seconds)


def leave(
    out: Path, jobs: dict[str, Load], random: np.random.Generator, noise: float, seconds: float
) -> int:
    """Write the results that a guest would leave for these jobs; return the number of requests."""
    parts = []
    for index, (name, load) in enumerate(jobs.items()):
        factor = float(np.exp(random.normal(0, noise)))
        count = round(load.iops * seconds / factor)
        latencies = factor * load.median_us * 1000 * np.exp(random.normal(0, load.spread, count))
        parts.append(fio_job(name, latencies.astype(int), load, seconds))
        _logs(out / "logs", index, latencies, load, seconds)
    _dump(out / "fio.json", {"fio version": "fio-3.33", "jobs": parts})
    total = sum(part[jobs[part["jobname"]].ddir]["total_ios"] for part in parts)
    _counters(out / "samples.csv", total, seconds)
    return int(total)


def fio_job(name: str, latencies_ns: Array, load: Load, seconds: float) -> Record:
    """Return one element of `jobs` in fio's JSON, made from each request's total latency."""
    idle: Record = {"io_bytes": 0, "total_ios": 0, "runtime": 0}
    idle |= {"lat_ns": _latency([]), "clat_ns": _latency([])}
    busy = {
        "io_bytes": len(latencies_ns) * load.bs,
        "total_ios": len(latencies_ns),
        "runtime": round(seconds * 1000),
        "lat_ns": _latency(latencies_ns.tolist()),
        "clat_ns": _latency(np.maximum(latencies_ns - int(load.slat_us * 1000), 1000).tolist()),
    }
    return {
        "jobname": name,
        **{ddir: busy if ddir == load.ddir else idle for ddir in ("read", "write", "trim")},
        "job_runtime": round(seconds * 1000),
        "usr_cpu": 1.5,
        "sys_cpu": 0.0005 * len(latencies_ns) / seconds,
    }


def bucket(nanoseconds: int) -> int:
    """Return the middle of a latency's bucket in fio's histogram (stat.c, plat_val_to_idx)."""
    shift = max(nanoseconds.bit_length() - 7, 0)
    return ((nanoseconds >> shift) << shift) + ((1 << shift) >> 1)


def _latency(values: list[int]) -> Record:
    if not values:
        return {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    bins = Counter(bucket(value) for value in values)
    return {
        "min": min(values),
        "max": max(values),
        "mean": sum(values) / len(values),
        "N": len(values),
        "bins": {str(value): count for value, count in sorted(bins.items())},
    }


def _logs(folder: Path, index: int, latencies: Array, load: Load, seconds: float) -> None:
    windows = np.array_split(latencies, round(seconds * 20))
    for kind, less in (("lat", 0.0), ("clat", load.slat_us * 1000)):
        ddir = ("read", "write", "trim").index(load.ddir)
        lines = [
            f"{50 * (number + 1)}, {max(int(window.mean() - less), 1)}, {ddir}, 0, 0, 0\n"
            for number, window in enumerate(windows)
            if len(window)
        ]
        (folder / f"{index}_{kind}.log").write_text("".join(lines))


def _counters(path: Path, total: int, seconds: float) -> None:
    """Write the guest's counters: half a second of start-up at full CPU, then the I/O."""
    lines = [
        "time_ns,idle_ns,context_switches,reads,writes,discards,flushes,in_flight,io_ticks_ms,queue_ms"
    ]
    steps = round(seconds * 10)
    for step in range(-5, steps + 1):
        progress = max(step, 0) / steps
        idle = round(max(step, 0) * 40_000_000)
        lines.append(
            f"{(step + 5) * 100_000_000},{idle},{1000 + round(2 * total * progress)},"
            f"{round(total * progress)},0,0,0,{4 if 0 <= step < steps else 0},{max(step, 0) * 98},0"
        )
    path.write_text("\n".join(lines) + "\n")


def _flash(path: Path, total: int, seconds: float) -> None:
    """Write the drive's own counters, sampled 3 µs after the guest's."""
    lines = [
        "time_ns,in_device,reads,dies,ctrl_busy_ns,bus_busy_ns,"
        "die_read_ns,die_program_ns,die_copy_ns,buffered_bytes"
    ]
    steps = round(seconds * 10)
    for step in range(-5, steps + 1):
        done = round(total * max(step, 0) / steps)
        reading, programming = round(0.9 * done * DIE_READ_NS), round(0.1 * done * DIE_READ_NS)
        lines.append(
            f"{(step + 5) * 100_000_000 + 3000},4,{done},{DIES},{done * CONTROLLER_NS},"
            f"{done * BUS_NS},{reading},{programming},0,0"
        )
    path.write_text("\n".join(lines) + "\n")


def _dump(path: Path, content: Record) -> None:
    path.write_text(json.dumps(content))
