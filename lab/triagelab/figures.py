# SPDX-License-Identifier: GPL-2.0-only
"""Figures and metrics as people read them."""

from collections.abc import Iterable
from dataclasses import dataclass

from triagelab.statistics import Comparison

NAMES = {
    "iops": "throughput",
    "bytes_per_s": "bandwidth",
    "mean_us": "mean latency",
    "p50_us": "median latency",
    "p99_us": "P99 latency",
    "p999_us": "P99.9 latency",
    "max_us": "maximum latency",
    "cpu_s": "CPU time",
    "clat_p99_us": "P99 completion latency",
    "instructions_per_io": "instruction count per I/O",
    "contended_locks_per_io": "number of contended locks per I/O",
    "total_iops": "total throughput",
    "total_bytes_per_s": "total bandwidth",
    "jain_index": "fairness index",
    "least_share": "share of the job with least",
    "longest_wait_us": "longest wait",
    "late_share": "share of late requests",
    "context_switches": "context switches",
    "cpu_utilisation": "CPU utilisation",
    "device_utilisation": "device utilisation",
    "device_busy": "time with a request in flight",
}
MORE_IS_BETTER = (
    "iops",
    "bytes_per_s",
    "total_iops",
    "total_bytes_per_s",
    "jain_index",
    "least_share",
)


def name_of(metric: str) -> str:
    """A metric for people; what is not in NAMES is of a part of the device."""
    return NAMES.get(metric) or metric.replace("_", " ")


@dataclass(frozen=True)
class Scale:
    """A unit to show values in, and what to divide them by."""

    divisor: float
    unit: str

    def show(self, value: float) -> str:
        """The value in this unit, with the unit."""
        return f"{digits(value / self.divisor)}{SPACE}{self.unit}".rstrip()


SCALES = {
    "µs": [Scale(1e6, "s"), Scale(1e3, "ms"), Scale(1, "µs")],
    "B/s": [Scale(1e9, "GB/s"), Scale(1e6, "MB/s"), Scale(1e3, "kB/s"), Scale(1, "B/s")],
    "s": [Scale(1, "s"), Scale(1e-3, "ms")],
    "1": [Scale(0.01, "%")],
    # The metric's name says these.
    "instructions": [Scale(1, "")],
    "switches": [Scale(1, "")],
    "locks": [Scale(1, "")],
    "index": [Scale(1, "")],
}
THIN_SPACE, SPACE = "\u202f", "\u00a0"  # neither breaks a line


def scale_for(unit: str, value: float) -> Scale:
    """The scale that shows a value of this unit with the fewest zeros."""
    scales = SCALES.get(unit, [Scale(1, unit)])
    return next((scale for scale in scales if value >= scale.divisor), scales[-1])


def quantity(value: float, unit: str, ci95: Iterable[float] | None = None) -> str:
    """A value with its unit and, where there is one, its interval in that unit."""
    scale = scale_for(unit, value)
    return scale.show(value) + _interval(ci95, scale.divisor)


def times(comparison: Comparison) -> str:
    """A ratio with its interval: 0.42 × [0.40, 0.45]."""
    if comparison.ratio is None:
        return "no ratio (divided by 0)"
    return f"{digits(comparison.ratio)}{SPACE}×" + _interval(comparison.ci95, 1)


def share(comparison: Comparison) -> str:
    """A ratio as a percentage with its interval: 97 % [96, 98]."""
    if comparison.ratio is None:
        return "no share (of 0)"
    return f"{digits(comparison.ratio * 100)}{SPACE}%" + _interval(comparison.ci95, 0.01)


def _interval(ci95: Iterable[float] | None, divisor: float) -> str:
    if ci95 is None:
        return ""
    low, high = ci95
    return f" [{digits(low / divisor)}, {digits(high / divisor)}]"


def digits(value: float) -> str:
    """Three significant digits or all before the point, thousands set apart."""
    if abs(value) >= 100 or value == 0:
        return f"{value:,.0f}".replace(",", THIN_SPACE)
    return f"{value:#.3g}".rstrip(".")


def counted(number: int, word: str) -> str:
    """1 run; 2 runs."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def listed(names: Iterable[str]) -> str:
    """a; a and b; a, b and c."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
