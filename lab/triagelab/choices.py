# SPDX-License-Identifier: GPL-2.0-only
"""The schedulers worth choosing: the Pareto set of protection and cost.

Protection is the protected job's longest latencies, cost is what the background loses
of its bandwidth under the baseline.  One scheduler beats another if it is seen to be
better at one of them and is not seen to be worse at the other, at every point; less
than a tenth counts as nothing.  Nobody changes a scheduler for nothing: one that is
not better than the baseline at anything is not worth choosing either.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from triagelab.lookup import BASELINE, View
from triagelab.statistics import HIGHER, LOWER, NOT_ENOUGH, Comparison

#: Times: a tenth more or less is about the same.
ALIKE = 1.1

_KEPT = "background_bytes_per_s"


@dataclass(frozen=True)
class Choice:
    """The schedulers that a user can choose from, and the one that gives most for its cost.

    best      has the highest power, the background's throughput over the latency
              (L. Kleinrock, Power and Deterministic Rules of Thumb, 1979), and its equals
    worth     the Pareto set, the best protection first
    beaten    each other scheduler -> the one that beats it, or the baseline it does not beat
    starving  those under which the protected job completed nothing in some repeat
    """

    best: list[str]
    worth: list[str]
    beaten: dict[str, str]
    starving: list[str]


def choose(views: Sequence[View]) -> Choice | None:
    """Choose by all points together; None where too few repeats or schedulers are compared."""
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
    """The protected job's longest latencies where they are worst, over those alone if known."""
    return max(_level(view, name) for view in views)


def _level(view: View, name: str) -> float:
    tail = view.tail(view.protected)
    row, alone = view.row(name, view.protected, tail), view.alone(tail)
    if row is None or view.starved(name, view.protected):
        return math.inf
    return float(row["mean"] / alone["mean"] if alone and alone["mean"] else row["mean"])


def kept(views: Sequence[View], name: str) -> float:
    """The share of its bandwidth that the background keeps where it keeps least."""
    return min((_kept(view, name) for view in views), default=1.0)


def _kept(view: View, name: str) -> float:
    seen = _background(view, name, BASELINE)
    return 1.0 if seen is None or seen.ratio is None else seen.ratio


def _power(views: Sequence[View], name: str) -> float:
    return kept(views, name) / level(views, name)


def _too_few(view: View, name: str) -> bool:
    """Whether too few repeats tell how a scheduler stands to the baseline."""
    if name == BASELINE:
        return False
    seen = _latency(view, name, BASELINE)
    return seen is None or seen.verdict == NOT_ENOUGH


def _latency(view: View, a: str, b: str) -> Comparison | None:
    return view.compare(a, b, view.protected, view.tail(view.protected))


def _background(view: View, a: str, b: str) -> Comparison | None:
    return view.compare(a, b, None, _KEPT)


def _seen(compared: Comparison | None, verdict: str) -> bool:
    """Whether a difference was seen, and is more than a tenth."""
    if compared is None or compared.verdict != verdict:
        return False
    ratio = compared.ratio
    return ratio is None or not 1 / ALIKE < ratio < ALIKE


def _better(view: View, a: str, b: str) -> bool:
    """Whether a is seen to be better than b at something."""
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
