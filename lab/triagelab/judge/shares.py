# SPDX-License-Identifier: GPL-2.0-only
"""The answer to a question about shares: which schedulers give one job its due against another.

The due is a multiple of the other job's bandwidth. No other answer compares jobs with each other.
"""

from collections.abc import Sequence

from triagelab.judge import choices
from triagelab.judge.answers import Answer, few_repeats
from triagelab.judge.figures import SPACE, digits, listed
from triagelab.judge.lookup import View


def answer(views: Sequence[View], more: str, less: str, due: float) -> Answer | None:
    """Name the schedulers under which `more` has `due` times the bandwidth of `less`.

    A difference below a tenth does not count. Each scheduler is judged at its worst point.
    Return None if no scheduler has bandwidth of both.
    """
    worst: dict[str, float] = {}
    for view in views:
        for name in view.schedulers:
            above, below = (view.row(name, job, "bytes_per_s") for job in (more, less))
            if not (above and below and above["mean"] and below["mean"]):
                continue
            ratio = float(above["mean"] / below["mean"])
            if name not in worst or _off(ratio, due) > _off(worst[name], due):
                worst[name] = ratio
    if not worst:
        return None
    ranked = sorted(worst, key=lambda name: _off(worst[name], due))
    keep = [name for name in ranked if _off(worst[name], due) < choices.ALIKE]
    told = {name: f"{digits(worst[name])}{SPACE}×" for name in ranked}
    where = f"under {listed(f'{name} ({told[name]})' for name in keep)}" if keep else "nowhere"
    headline = f"{more} has its due, {digits(due)}{SPACE}× the bandwidth of {less}, {where}"
    others = [f"{name} ({told[name]})" for name in ranked if name not in keep]
    headline += f"; not under {listed(others)}" if others else ""
    return Answer(f"{headline}.", few_repeats(min(views, key=lambda view: view.repeats)))


def _off(ratio: float, due: float) -> float:
    """Return the factor by which a ratio misses what is due, 1 or more."""
    return max(ratio / due, due / ratio)
