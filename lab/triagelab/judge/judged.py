# SPDX-License-Identifier: GPL-2.0-only
"""Write the answer for an experiment that is judged by metrics of whole runs (`judged_by`).

The answer names the schedulers to choose. Each figure in it is a scheduler's worst over all points,
except those after "at best": they are the best figures of the scheduler to choose.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from triagelab.base import metrics
from triagelab.judge import choices
from triagelab.judge.answers import Answer, few_repeats, preliminary
from triagelab.judge.choices import Choice
from triagelab.judge.figures import listed, more_is_better, name_of, quantity, scale_for, times
from triagelab.judge.lookup import BASELINE, View, missing, shown, varying


@dataclass(frozen=True)
class _Figure:
    """A scheduler's figure in one metric at one point.

    value  the figure, to compare
    text   the figure for people
    where  the point for people
    """

    value: float
    text: str
    where: str


def answer(found: Sequence[View]) -> Answer:
    """Return the answer: the schedulers to choose, or why there are none, and their figures.

    The figures are those of the metrics that the experiment is judged by. The baseline's may be
    missing.
    """
    few = few_repeats(min(view.repeats for view in found))
    choice = choices.choose_judged(found)
    names = [
        name
        for name in dict.fromkeys(name for view in found for name in view.schedulers)
        if any(view.row(name, None, metric) for view in found for metric in view.judged_by)
    ]
    headline = _choose(found, choice) if choice else _unchosen(found, names)
    if choice.by_means if choice else few and len(names) > 1:
        headline = preliminary(headline)
    chosen = choice.best[:1] if choice else []
    details = [_detail(found, name, choice) for name in names if name not in (BASELINE, *chosen)]
    return Answer(headline, [*details, *few])


def _choose(found: Sequence[View], choice: Choice) -> str:
    by = f" by the worst of {len(found)} points" if len(found) > 1 else ""
    base = _told(found, BASELINE)
    if choice.worth == [BASELINE]:
        under = f" ({base})" if base else ""
        losses = "; ".join(_losses(found, choice))
        return f"{choices.none_is_worth(choice)}{under}{by}: {losses}."
    told = _told(found, choice.best[0])
    parts = [told + _gained(found, choice.best[0])] if told else []
    if choice.others:
        parts.append(f"also worth choosing: {'; '.join(_each(found, choice.others))}")
    if BASELINE not in choice.best and base:
        parts.append(f"{BASELINE} has {base}")
    return f"Choose {' or '.join(choice.best)}{by}: {'; '.join(parts)}."


def _losses(found: Sequence[View], choice: Choice) -> list[str]:
    """Name the schedulers that are as good as the baseline, then the worse ones with figures."""
    same = choice.as_baseline
    worse = [name for name in choice.beaten if name not in same]
    one, many = ("seems", "seem") if choice.by_means else ("is", "are")
    said = [f"{listed(same)} {one if len(same) == 1 else many} as good"] if same else []
    told = "; ".join(_each(found, worse))
    return said + ([f"worse {one if len(worse) == 1 else many} {told}"] if worse else [])


def _gained(found: Sequence[View], name: str) -> str:
    """Return a clause with a scheduler's best figures over the points.

    Leave out a figure that hardly differs from the scheduler's worst one (_differs()).
    """
    if len(found) == 1:
        return ""
    worst, best = (_figures(found, name, best=best) for best in (False, True))
    told = [
        f"{name_of(metric)} {figure.text} at {figure.where}"
        for metric, figure in best.items()
        if _differs(metric, figure, worst[metric])
    ]
    return f"; at best {', '.join(told)}" if told else ""


def _differs(metric: str, a: _Figure, b: _Figure) -> bool:
    """Return True if two figures differ by more than a tenth.

    If the metric is `absolute`, the difference must also exceed the metric's `negligible`.
    """
    of = metrics.find(metric)
    low, high = sorted([a.value, b.value])
    return low * choices.ALIKE < high and not (of.absolute and high - low <= of.negligible)


def _each(found: Sequence[View], names: Sequence[str]) -> list[str]:
    """Return a phrase for each scheduler: its name, and its figures in brackets."""
    return [f"{name} ({told})" if (told := _told(found, name)) else name for name in names]


def _unchosen(found: Sequence[View], names: list[str]) -> str:
    """Return the headline that says why no scheduler can be chosen."""
    if len(names) == 1:
        told = f": {told}" if (told := _told(found, names[0])) else ""
        return f"Only {names[0]} was measured, so there is nothing to choose{told}."
    nothing = "Nothing tells which scheduler to choose, because"
    if BASELINE in names:
        return f"{nothing} figures are missing at some points, or each is beaten by another."
    metric = found[0].judged_by[0]
    ranked = sorted(
        (name for name in names if metric in _figures(found, name)),
        key=lambda name: _figures(found, name)[metric].value,
        reverse=more_is_better(metric),
    )
    best = f"; {ranked[0]} has {_told(found, ranked[0])}" if ranked else ""
    somewhere = any(BASELINE in view.schedulers for view in found)
    where = missing(list(found), BASELINE).removeprefix("; ") if somewhere else "not measured"
    return f"{nothing} {BASELINE} was {where}{best}."


def _told(found: Sequence[View], name: str) -> str:
    """Return a scheduler's figure in each metric, in one phrase."""
    return ", ".join(
        f"{name_of(metric)} {figure.text}" for metric, figure in _figures(found, name).items()
    )


def _figures(found: Sequence[View], name: str, *, best: bool = False) -> dict[str, _Figure]:
    """Return a scheduler's worst figure over the points, or its `best`, for each judged metric.

    A figure is the value if the metric is `absolute` or the baseline was not measured at the point.
    Otherwise it is the ratio to the baseline. If there is no ratio, as for the baseline itself, the
    figure is the value in an experiment of one point, and is left out with several points.
    """
    where = varying(list(found))
    chosen: dict[str, _Figure] = {}
    for metric in found[0].judged_by:
        here = [each for view in found if (each := _figure(view, name, metric, where, len(found)))]
        if here:
            pick = max if more_is_better(metric) == best else min
            chosen[metric] = pick(here, key=lambda figure: figure.value)
    return chosen


def _figure(
    view: View, name: str, metric: str, where: dict[str, str], points: int
) -> _Figure | None:
    row = view.row(name, None, metric)
    if row is None:
        return None
    own = _Figure(row["mean"], quantity(row["mean"], row["unit"]), where[view.point])
    if metrics.find(metric).absolute or BASELINE not in view.schedulers:
        return own
    if name == BASELINE:
        return own if points == 1 else None
    compared = view.compare(name, BASELINE, None, metric)
    if compared is None or compared.ratio is None:
        return own if points == 1 else None
    return _Figure(compared.ratio, f"{times(compared)} that of {BASELINE}", where[view.point])


def _detail(found: Sequence[View], name: str, choice: Choice | None) -> str:
    """Return the line about a scheduler: its figures, and the scheduler that beats it."""
    beaten = choice.beaten.get(name) if choice else None
    beside = f"; not worth choosing beside {beaten}" if beaten else ""
    if len(found) > 1:
        figures = _figures(found, name).items()
        told = [f"{name_of(metric)} {each.text}, at {each.where}" for metric, each in figures]
    else:
        told = [text for metric in found[0].judged_by if (text := _over(found[0], name, metric))]
    return f"{name}: {'; '.join(told)}{missing(list(found), name)}{beside}."


def _over(view: View, name: str, metric: str) -> str:
    """Return a phrase that compares a scheduler with the baseline in one metric at one point."""
    row, base = view.row(name, None, metric), view.row(BASELINE, None, metric)
    if row is None:
        return ""
    told = f"{name_of(metric)} {shown(row)}"
    against = view.compare(name, BASELINE, None, metric)
    if base is None or against is None:
        return told
    more = row["mean"] - base["mean"]
    scale = scale_for(row["unit"], max(row["mean"], base["mean"]))
    sign = "−" if more < 0 else "+"
    ratio = f", {times(against)}" if against.ratio is not None else ""
    return f"{told}, {sign}{scale.show(abs(more))} over {BASELINE}{ratio} ({against.words})"
