# SPDX-License-Identifier: GPL-2.0-only
"""The schedulers worth choosing: the Pareto set of protection and cost.

Protection is the protected job's tail latency. Cost is the share of its baseline
bandwidth that the background loses.  One scheduler beats another if it is visibly
better in one of the two and not visibly worse in the other, at every point. A
difference below a tenth does not count. A scheduler that is not better than the
baseline in anything is not worth choosing either: changing schedulers has a cost.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from triagelab.judge.lookup import BASELINE, View
from triagelab.measure.statistics import HIGHER, LOWER, NOT_ENOUGH, Comparison

#: A ratio: a difference below a tenth counts as about the same.
ALIKE = 1.1

_KEPT = "background_bytes_per_s"


@dataclass(frozen=True)
class Choice:
    """The schedulers that a user can choose from, and the one with the most value for its cost.

    best      highest power, that is background throughput over latency
              (L. Kleinrock, Power and Deterministic Rules of Thumb, 1979), and its equals
    worth     the Pareto set, best protection first
    beaten    each other scheduler -> the one that beats it, or the baseline that it fails to beat
    starving  schedulers under which the protected job completed nothing in some repeat
    """

    best: list[str]
    worth: list[str]
    beaten: dict[str, str]
    starving: list[str]


def choose(views: Sequence[View]) -> Choice | None:
    """Choose over all points together; None if too few repeats or schedulers are comparable."""
    names = [name for name in views[0].schedulers if all(name in view.schedulers for view in views)]
    names = [name for name in names if not any(_too_few(view, name) for view in views)]
    if BASELINE not in names or len(names) < 2:
        return None
    starving = [name for name in names if any(v.starved(name, v.protected) for v in views)]
    fit = [name for name in names if name not in starving]
    beaten: dict[str, str] = {}
    for name in fit:
        if winner := next((other for other in fit if _beats(views, other, name)), None):
            beaten[name] = winner
        elif name != BASELINE and BASELINE in fit and not _gains(views, name):
            beaten[name] = BASELINE
    worth = sorted(
        (name for name in fit if name not in beaten), key=lambda name: level(views, name)
    )
    if not worth:
        return None
    first = max(worth, key=lambda name: _power(views, name))
    best = [name for name in worth if name == first or _alike(views, name, first)]
    return Choice(best, worth, beaten, starving)


def level(views: Sequence[View], name: str) -> float:
    """Return the protected job's tail latency at its worst point, relative to alone if known."""
    return max(_level(view, name) for view in views)


def _level(view: View, name: str) -> float:
    tail = view.tail(view.protected)
    row, alone = view.row(name, view.protected, tail), view.alone(tail)
    if row is None or view.starved(name, view.protected):
        return math.inf
    return float(row["mean"] / alone["mean"] if alone and alone["mean"] else row["mean"])


def kept(views: Sequence[View], name: str) -> float:
    """Return the share of its bandwidth that the background keeps at its worst point."""
    return min((_kept(view, name) for view in views), default=1.0)


def share_kept(view: View, name: str) -> float:
    """Return the mean of the background's bandwidth over its baseline's; 1 if it is unknown."""
    row, base = view.row(name, None, _KEPT), view.row(BASELINE, None, _KEPT)
    return float(row["mean"] / base["mean"]) if row and base and base["mean"] else 1.0


def _kept(view: View, name: str) -> float:
    seen = _background(view, name, BASELINE)
    return 1.0 if seen is None or seen.ratio is None else seen.ratio


def _power(views: Sequence[View], name: str) -> float:
    return kept(views, name) / level(views, name)


def _too_few(view: View, name: str) -> bool:
    """Return True if there are too few repeats to compare a scheduler with the baseline."""
    if name == BASELINE:
        return False
    seen = _latency(view, name, BASELINE)
    return seen is None or seen.verdict == NOT_ENOUGH


def _latency(view: View, a: str, b: str) -> Comparison | None:
    return view.compare(a, b, view.protected, view.tail(view.protected))


def _background(view: View, a: str, b: str) -> Comparison | None:
    return view.compare(a, b, None, _KEPT)


def _seen(compared: Comparison | None, verdict: str) -> bool:
    """Return True for a visible difference of more than a tenth."""
    if compared is None or compared.verdict != verdict:
        return False
    ratio = compared.ratio
    return ratio is None or not 1 / ALIKE < ratio < ALIKE


def _better(view: View, a: str, b: str) -> bool:
    """Return True if a is visibly better than b in protection or cost."""
    return _seen(_latency(view, a, b), LOWER) or _seen(_background(view, a, b), HIGHER)


def _beats(views: Sequence[View], a: str, b: str) -> bool:
    if a == b:
        return False
    return any(_better(view, a, b) for view in views) and not any(
        _better(view, b, a) for view in views
    )


def _gains(views: Sequence[View], name: str) -> bool:
    return any(_better(view, name, BASELINE) for view in views)


def _alike(views: Sequence[View], a: str, b: str) -> bool:
    return not any(_better(view, a, b) or _better(view, b, a) for view in views)
