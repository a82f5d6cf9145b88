# SPDX-License-Identifier: GPL-2.0-only
"""Answer a question about the values of a varied setting, such as a scheduler's tunable.

The answer names the values that are worth choosing, and their cost to the background jobs.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from triagelab.judge import choices
from triagelab.judge.answers import Answer, few_repeats, preliminary
from triagelab.judge.figures import SPACE, digits, listed, name_of, percent, quantity
from triagelab.judge.lookup import BASELINE, View


@dataclass(frozen=True)
class _Value:
    """A value of the varied setting, and its effect.

    level  the protected job's tail latency; relative to the job alone, if that was measured
    kept   the background's bandwidth, as a share of its bandwidth under the baseline
    text   both figures for people
    """

    value: str
    level: float
    kept: float
    text: str


def answer(views: Sequence[View], scheduler: str, name: str) -> Answer | None:
    """Name the values of the setting `name` that no other value beats under `scheduler`.

    The value with the lowest tail latency comes first. A value beats another if it is better by
    more than a tenth in latency or in the background's bandwidth, and not worse by more than a
    tenth in either. Return None if fewer than two values were measured, or if no value has a finite
    latency.
    """
    found = [_value(view, scheduler, name) for view in views if scheduler in view.schedulers]
    if len(found) < 2 or all(math.isinf(one.level) for one in found):
        return None
    best = [one for one in found if not any(_beats(other, one) for other in found)]
    best.sort(key=lambda one: one.level)
    alike = {one.text: [other.value for other in best if other.text == one.text] for one in best}
    told = [f"{listed(names)} ({text})" for text, names in alike.items()]
    headline = (
        f"Worth choosing of {len(found)} values of {name} under {scheduler}: {'; '.join(told)}."
    )
    details = [
        f"{one.value}: {one.text}; not worth choosing beside {winner.value}."
        for one in found
        for winner in [next((other for other in found if _beats(other, one)), None)]
        if winner is not None
    ]
    few = few_repeats(
        min(
            view.repeats_of[name]
            for view in views
            for name in (scheduler, BASELINE)
            if name in view.schedulers
        )
    )
    return Answer(preliminary(headline) if few else headline, [*details, *few])


def _value(view: View, scheduler: str, name: str) -> _Value:
    job = view.protected
    level = choices.level([view], scheduler)
    shares = [
        (background, share)
        for background in view.background
        if (share := view.kept(scheduler, background)) is not None
    ]
    row = view.row(scheduler, job, view.tail(job))
    if math.isinf(level) or row is None:
        told = view.starved(scheduler, job) or "no figure"
    else:
        told = f"{job}'s {name_of(view.tail(job))} is {quantity(row['mean'], row['unit'])}"
        if view.alone(view.tail(job)):
            told += f", {digits(level)}{SPACE}× what it is alone"
    price = [f"{background} keeps {percent(kept)}" for background, kept in shares]
    value = str(json.loads(view.point)[name])
    return _Value(value, level, choices.kept([view], scheduler), ", ".join([told, *price]))


def _beats(a: _Value, b: _Value) -> bool:
    return (_less(a.level, b.level) or _less(b.kept, a.kept)) and not (
        _less(b.level, a.level) or _less(a.kept, b.kept)
    )


def _less(a: float, b: float) -> bool:
    """Return True if b is more than a tenth above a."""
    return a * choices.ALIKE < b
