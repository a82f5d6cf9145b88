# SPDX-License-Identifier: GPL-2.0-only
"""Compute the errors of drive models at measured points, and search for a model's parameters.

The search is scipy's Nelder-Mead on the logarithms of the parameters. It starts several times,
from the best parameters so far. It uses only points of the role `fit`.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy
from scipy import optimize

from triagelab.ask import drives, models
from triagelab.fit import window
from triagelab.fit.simulator import Simulator

#: A load in a mix of reads and writes -> its operation and depth. The loads r and w together are
#: the probe: points have latencies of the probe only.
_MIX = {"r": ("read", 32), "w": ("write", 32), "others": ("write", 376), "few": ("read", 8)}


@dataclass(frozen=True)
class Compared:
    """A measured point, and the model's figures for this point."""

    point: drives.Point
    modelled: Mapping[str, float]

    @property
    def errors(self) -> dict[str, float]:
        """Return each figure's error in percent: positive if the model's figure is larger."""
        measured = self.point.measured
        return {key: (self.modelled[key] / measured[key] - 1) * 100 for key in measured}

    @property
    def misses(self) -> tuple[str, ...]:
        """Return the names of the figures whose errors exceed the bounds in drives.JUDGED."""
        return tuple(key for key, off in self.errors.items() if abs(off) > drives.JUDGED[key][1])


def compare(simulate: Simulator, drive: drives.Drive, times: float = 1) -> list[Compared]:
    """Return the drive's points with the model's figures, except points of role state or info.

    `times` multiplies the length of the simulated measurements. Longer ones must not change the
    figures.
    """
    points = [point for point in drive.points if point.role in ("fit", *drives.PREDICTED)]
    return [
        Compared(point, modelled(simulate, drive, point, steady(simulate, drive, point, times)))
        for point in points
    ]


def steady(
    simulate: Simulator, drive: drives.Drive, point: drives.Point, times: float = 1
) -> window.Window:
    """Return the window in which the drive's model shows its steady state under a point's load."""
    model = simulate.parameters(drive.profile, **drive.parameters)
    return window.steady(model, _load(point), times)


def _load(point: drives.Point) -> window.Load:
    load = point.load
    if "writes_per_s" in load:
        rates = _mix_rates(int(load["writes_per_s"]))
        return window.Load(
            rarest=drives.PROBE,
            all=sum(rates.values()),
            at_once=sum(depth for _, depth in _MIX.values()),
            writes=rates["w"] + rates["others"],
            bytes=4096,
        )
    iops = point.measured["iops"]
    return window.Load(
        rarest=iops,
        all=iops,
        at_once=int(load["depth"]) * int(load["jobs"]),
        writes=iops if load["op"] == "write" else 0,
        bytes=int(load["bytes"]),
        has_room=point.has_room,
    )


def _mix_rates(writes_per_s: int) -> dict[str, int]:
    """Return each load's commands a second in a mix. Without the probe, 99 % of them are writes."""
    others = writes_per_s - drives.PROBE
    return {"r": drives.PROBE, "w": drives.PROBE, "others": others, "few": max(others // 99, 1)}


def modelled(
    simulate: Simulator, drive: drives.Drive, point: drives.Point, times: window.Window
) -> dict[str, float]:
    """Return the model's figures for a point, by the names in drives.JUDGED."""
    load = point.load
    if "writes_per_s" in load:
        return _mix(simulate, drive, int(load["writes_per_s"]), times)
    jobs = int(load["jobs"])
    given = ":".join(str(load[key]) for key in ("op", "pattern", "bytes", "depth"))
    found = simulate(
        drive.profile,
        *(f"j{job}:{given}:host_ns={drive.host_ns}" for job in range(jobs)),
        **times.settings(),
        **drive.parameters,
    )
    each = [found[f"j{job}"] for job in range(jobs)]
    return {
        "iops": sum(job["iops"] for job in each),
        "mean_us": statistics.fmean(job["mean_ns"] for job in each) / 1000,
        "p99_us": max(job["p99_ns"] for job in each) / 1000,
    }


def _mix(
    simulate: Simulator, drive: drives.Drive, writes_per_s: int, times: window.Window
) -> dict[str, float]:
    """Return the model's figures for a probe beside other commands.

    All commands arrive at exponentially distributed intervals. The device holds at most 64 commands
    of the probe and 384 others.
    """
    rates = _mix_rates(writes_per_s)
    found = simulate(
        drive.profile,
        *(
            f"{name}:{op}:random:4096:{depth}:rate={rates[name]}"
            for name, (op, depth) in _MIX.items()
        ),
        **times.settings(),
        **drive.parameters,
    )
    return {
        "writes_done": found["w"]["iops"] + found["others"]["iops"],
        "read_p50_us": found["r"]["p50_ns"] / 1000,
        "read_p99_us": found["r"]["p99_ns"] / 1000,
        "write_p50_us": found["w"]["p50_ns"] / 1000,
        "write_p99_us": found["w"]["p99_ns"] / 1000,
    }


def summary(compared: list[Compared]) -> dict[str, dict[str, list[float]]]:
    """Return the median and the worst error, in percent, by role and kind."""
    found: dict[str, dict[str, list[float]]] = {}
    for role in drives.PREDICTED:
        kinds: dict[str, list[float]] = {}
        for each in compared:
            if each.point.role == role:
                for key, off in each.errors.items():
                    kinds.setdefault(drives.JUDGED[key][0], []).append(abs(off))
        if kinds:
            found[role] = {
                kind: [round(statistics.median(all_of), 1), round(max(all_of), 1)]
                for kind, all_of in kinds.items()
            }
    return found


def medians_missed(found: Mapping[str, Mapping[str, list[float]]]) -> tuple[str, ...]:
    """Return the kinds of errors whose median is too large for some role."""
    return tuple(
        kind
        for kind, most in drives.MEDIANS.items()
        if any(kind in kinds and kinds[kind][0] > most for kinds in found.values())
    )


def judged(simulate: Simulator, drive: drives.Drive) -> drives.Drive:
    """Simulate the drive's points; return the drive with its errors and misses."""
    compared = compare(simulate, drive)
    misses = {id(each.point): each.misses for each in compared}
    found = summary(compared)
    return replace(
        drive,
        points=tuple(
            replace(point, misses=misses.get(id(point), point.misses)) for point in drive.points
        ),
        errors=found,
        misses=medians_missed(found),
    )


# --- the search ---

#: A drive is fitted as a hard disk if the mean time of a lone read is longer than this. No flash is
#: so slow, and no disk's arm is so quick.
_SLOWEST_FLASH_US = 2000
#: The number of starts of the search for flash, and the number of trials from each start. With 4
#: starts of 120 trials, a fit to a modelled drive with 8 dies found 14 dies, and the rates of held
#: points were up to 7 % off. With these numbers it found 8 dies, and the rates were at most 1 %
#: off. A fit takes one to three minutes.
_FLASH_STARTS, _FLASH_STEPS = 10, 200
#: The same for a disk.
_DISK_STARTS, _DISK_STEPS = 3, 120
#: The number of trials with each pair of spindle speed and queue rule of a disk. The search then
#: goes on with the best pair.
_CHOICE_STEPS = 30
#: The weight of each kind of error in the cost that the search minimises.
_WEIGHTS: Mapping[str, float] = {"rate": 1.0, "mean": 1.0, "p99": 0.3}
#: Spindle speeds of disks on the market, in revolutions a minute.
_RPMS = (5400, 7200, 10000, 15000)


def with_roles(points: Iterable[drives.Point]) -> tuple[drives.Point, ...]:
    """Return the points with their roles.

    Random reads of one process are fitted (fit) or held out (held). Among the points of one size,
    sorted by depth, the first point, every third point after it and the last point are fitted.
    Points of other loads are not fitted (info): for example, points of several processes depend on
    how the host shares its queue.
    """
    sizes: dict[int, list[drives.Point]] = {}
    others = []
    for point in points:
        load = point.load
        if (load["op"], load["pattern"], load["jobs"]) == ("read", "random", 1):
            sizes.setdefault(int(load["bytes"]), []).append(point)
        else:
            others.append(replace(point, role="info"))
    found = []
    for size in sorted(sizes):
        ordered = sorted(sizes[size], key=lambda point: int(point.load["depth"]))
        for place, point in enumerate(ordered):
            fitted = place % 3 == 0 or place == len(ordered) - 1
            found.append(replace(point, role="fit" if fitted else "held"))
    return (*found, *others)


def fitted(simulate: Simulator, drive: drives.Drive) -> drives.Drive:
    """Return the drive with the profile and parameters that are nearest to its `fit` points.

    Set the drive's kind too.
    """
    points = [point for point in drive.points if point.role == "fit"]
    alone = min(points, key=lambda point: (int(point.load["depth"]), int(point.load["bytes"])))
    if alone.measured["mean_us"] > _SLOWEST_FLASH_US:
        return _fitted_disk(simulate, drive, points, alone)
    return _fitted_flash(simulate, drive, points, alone)


def _fitted_flash(
    simulate: Simulator, drive: drives.Drive, points: list[drives.Point], alone: drives.Point
) -> drives.Drive:
    alone_ns = alone.measured["mean_us"] * 1000
    most = max(point.measured["iops"] for point in points)
    bytes_per_s = max(point.measured["iops"] * int(point.load["bytes"]) for point in points)
    tail_ns = max(alone.measured.get("p99_us", 0) * 1000 - alone_ns, 1000)
    start = {
        "cmd_ns": 1000,
        "ctrl_ns": max(int(1e9 / most), 1),
        "read_ns": max(int(alone_ns - 1e9 / most) // 2, 1000),
        "bus_mbps": max(int(2 * bytes_per_s / 1e6), 1),
        "dies": 16,
        "slots": 64,
        "read_spread_pct": 10,
        "read_slow_permille": 50,
        "read_slow_ns": int(tail_ns),
    }
    if any(int(point.load["bytes"]) > 4096 for point in points):
        start |= {"read_full_ns": start["read_ns"], "full_mbps": start["bus_mbps"] // 2 + 1}
    # If no point reads more than 4 KiB, the time of longer reads is unknown: 0 makes the model use
    # the same times as for 4 KiB.
    off = {"read_full_ns": 0, "full_mbps": 0}
    drive = replace(drive, profile="flash", kind="SSD", parameters=off)
    return _nearest(simulate, drive, points, start, _FLASH_STARTS, _FLASH_STEPS)[1]


def _fitted_disk(
    simulate: Simulator, drive: drives.Drive, points: list[drives.Point], alone: drives.Point
) -> drives.Drive:
    drive = replace(
        drive,
        profile="hdd",
        kind="hard disk",
        parameters={"readahead_kib": 0, "age_limit_ms": 0, "slots": 32},
    )
    tried = []
    for rpm, rule in product(_RPMS, (0, 1)):
        seek_ns = max(alone.measured["mean_us"] * 1000 - 30e9 / rpm, 2e6)
        start = {
            "cmd_ns": 300_000,
            "seek_settle_ns": int(seek_ns / 4),
            "seek_sqrt_ns": int(seek_ns),
            "seek_knee_permille": 400,
            "reorder_min": 4,
        }
        given = {**drive.parameters, "rpm": rpm, "queue_rule": rule}
        tried.append(
            _nearest(simulate, replace(drive, parameters=given), points, start, 1, _CHOICE_STEPS)
        )
    best = min(tried, key=lambda each: each[0])[1]
    start = {key: best.parameters[key] for key in start}
    return _nearest(simulate, best, points, start, _DISK_STARTS, _DISK_STEPS)[1]


def _nearest(
    simulate: Simulator,
    drive: drives.Drive,
    points: list[drives.Point],
    start: Mapping[str, int],
    rounds: int,
    steps: int,
) -> tuple[float, drives.Drive]:
    """Search from the parameters `start`; return the smallest cost, and the drive with this cost.

    `rounds` is the number of starts, and `steps` is the number of trials from each start.
    """
    bounds = {key: models.parameters(drive.profile)[key] for key in start}
    random = numpy.random.default_rng(1)
    best = (math.inf, drive)

    def cost(logs: "numpy.typing.NDArray[numpy.float64]") -> float:
        nonlocal best
        values = {
            key: min(max(round(math.exp(log)), bound.lowest), bound.highest)
            for (key, bound), log in zip(bounds.items(), logs, strict=True)
        }
        tried = replace(drive, parameters={**drive.parameters, **values})
        found = sum(_cost(simulate, tried, point) for point in points)
        if found < best[0]:
            best = (found, tried)
        return found

    at = numpy.array([math.log(max(value, 1)) for value in start.values()])
    for _ in range(rounds):
        moves = numpy.diag(random.uniform(0.1, 0.5, len(at)) * random.choice([-1, 1], len(at)))
        options = {"initial_simplex": [at, *(at + moves)], "maxfev": steps}
        optimize.minimize(cost, at, method="Nelder-Mead", options=options)
        at = numpy.array([math.log(max(best[1].parameters[key], 1)) for key in start])
    return best


def _cost(simulate: Simulator, drive: drives.Drive, point: drives.Point) -> float:
    found = modelled(simulate, drive, point, window.brief(_load(point)))
    return math.fsum(
        _WEIGHTS[drives.JUDGED[key][0]] * abs(math.log(max(found[key], 1e-9) / value)) ** 1.5
        for key, value in point.measured.items()
    )
