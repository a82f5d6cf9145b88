# SPDX-License-Identifier: GPL-2.0-only
"""Answer a question about shares: which schedulers give one job its fair share of bandwidth?

The fair share is a multiple (`due`) of another job's bandwidth. Only this answer compares jobs with
each other.
"""

import math
from collections.abc import Sequence

from triagelab.judge import choices
from triagelab.judge.answers import BY_MEANS, Answer, few_repeats
from triagelab.judge.figures import SPACE, digits, listed
from triagelab.judge.lookup import View


def answer(views: Sequence[View], more: str, less: str, due: float) -> Answer | None:
    """Name the schedulers under which `more` has `due` times the bandwidth of `less`.

    A difference below a tenth does not count. Each scheduler is judged at its worst point. A point
    where a job has no bandwidth counts as the worst. Return None if neither job has bandwidth at
    any point under any scheduler.
    """
    worst: dict[str, float] = {}
    seen: list[float] = []
    for view in views:
        for name in view.schedulers:
            above, below = (view.row(name, job, "bytes_per_s") for job in (more, less))
            if not (above and below):
                continue
            ratio = _ratio(above["mean"], below["mean"])
            seen.append(ratio)
            if name not in worst or _off(ratio, due) > _off(worst[name], due):
                worst[name] = ratio
    if all(math.isnan(ratio) for ratio in seen):
        return None
    ranked = sorted(worst, key=lambda name: _off(worst[name], due))
    keep = [name for name in ranked if _off(worst[name], due) < choices.ALIKE]
    told = {name: _told(worst[name], more, less) for name in ranked}
    where = f"under {listed(f'{name} ({told[name]})' for name in keep)}" if keep else "nowhere"
    headline = f"{more} has its due, {digits(due)}{SPACE}× the bandwidth of {less}, {where}"
    others = [f"{name} ({told[name]})" for name in ranked if name not in keep]
    headline += f"; not under {listed(others)}" if others else ""
    few = few_repeats(min(view.repeats for view in views))
    return Answer(f"{BY_MEANS if few else ''}{headline}.", few)


def _ratio(above: float, below: float) -> float:
    """Return above / below; infinity if only `below` is 0, NaN if both are."""
    if below:
        return above / below
    return math.inf if above else math.nan


def _told(ratio: float, more: str, less: str) -> str:
    """Return the ratio of the bandwidths of `more` and `less` as text for people."""
    if math.isnan(ratio):
        return "both have nothing"
    if 0 < ratio < math.inf:
        return f"{digits(ratio)}{SPACE}×"
    return f"{less if ratio else more} has nothing"


def _off(ratio: float, due: float) -> float:
    """Return the factor between a ratio and `due`; 1 if they are equal, otherwise more."""
    return max(ratio / due, due / ratio) if 0 < ratio < math.inf else math.inf
