# SPDX-License-Identifier: GPL-2.0-only
"""Format figures and metrics for people."""

from collections.abc import Iterable
from dataclasses import dataclass

from triagelab.base import metrics
from triagelab.measure.statistics import Comparison, Ratio


def name_of(metric: str) -> str:
    """Return a metric's name for people."""
    return metrics.find(metric).label


#: The tail latency's name in sentences over several points, if some have too few requests for P99.
NAME_OF_TAILS = f"{name_of(metrics.TAIL)} (the maximum, where requests are too few)"


def more_is_better(metric: str) -> bool:
    """Return True if a higher value of the metric is better."""
    return metrics.find(metric).better is metrics.Better.MORE


@dataclass(frozen=True)
class Scale:
    """A unit for display, and the divisor that converts a value to it."""

    divisor: float
    unit: str

    def show(self, value: float) -> str:
        """Format a value in this unit, unit included."""
        return f"{digits(value / self.divisor)}{SPACE}{self.unit}".rstrip()


#: A ratio of at least this much is shown as a multiple, because 602 654 % is hard to read.
_MULTIPLE = 10

THIN_SPACE, SPACE = "\u202f", "\u00a0"  # a line does not break at either


def scale_for(unit: str, value: float) -> Scale:
    """Return the largest scale in which the value is at least 1, or else the smallest scale."""
    scales = [Scale(divisor, name) for divisor, name in metrics.unit(unit).scales]
    return next((scale for scale in scales if value >= scale.divisor), scales[-1])


def quantity(value: float, unit: str, ci95: Iterable[float] | None = None) -> str:
    """Format a value with its unit and, if there is one, its interval in the same unit."""
    scale = scale_for(unit, value)
    return scale.show(value) + _interval(ci95, scale.divisor)


def times(comparison: Comparison | Ratio) -> str:
    """Format a ratio with its interval: 0.420 × [0.401, 0.450]."""
    if comparison.ratio is None:
        return "no ratio (divided by 0)"
    return f"{digits(comparison.ratio)}{SPACE}×" + _interval(comparison.ci95, 1)


def share(comparison: Comparison | Ratio) -> str:
    """Format a ratio as percent() does, with its interval: 97.0 % [96.1, 98.2]."""
    if comparison.ratio is None:
        return "no share (of 0)"
    if comparison.ratio >= _MULTIPLE:
        return times(comparison)
    return percent(comparison.ratio) + _interval(comparison.ci95, 0.01)


def percent(ratio: float) -> str:
    """Format a ratio as a percentage, 97.0 %, or a large ratio as a multiple, 6 027 ×."""
    if ratio >= _MULTIPLE:
        return f"{digits(ratio)}{SPACE}×"
    return f"{digits(ratio * 100)}{SPACE}%"


def _interval(ci95: Iterable[float] | None, divisor: float) -> str:
    if ci95 is None:
        return ""
    low, high = ci95
    return f" [{digits(low / divisor)}, {digits(high / divisor)}]"


def digits(value: float) -> str:
    """Format a value with three significant digits.

    Format a value of 100 or more as a whole number, with its digits in groups of three.
    """
    if abs(value) >= 100 or value == 0:
        return f"{value:,.0f}".replace(",", THIN_SPACE)
    return f"{value:#.3g}".rstrip(".")


def counted(number: int, word: str) -> str:
    """Format a number and its noun: 1 run; 2 runs."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def listed(names: Iterable[str]) -> str:
    """Join names: a; a and b; a, b and c."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
