# SPDX-License-Identifier: GPL-2.0-only
"""Write sentences about a summary: the answers, and the titles of charts.

All figures come from the summary. A sentence that names the best and the worst scheduler ranks them
by their means. No sentence here compares jobs with each other.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from triagelab.base import metrics
from triagelab.base.metrics import TAIL
from triagelab.judge import choices, judged
from triagelab.judge.answers import Answer, few_repeats, preliminary
from triagelab.judge.choices import Choice
from triagelab.judge.figures import (
    NAME_OF_TAILS,
    SPACE,
    digits,
    listed,
    more_is_better,
    name_of,
    percent,
    quantity,
    share,
    times,
)
from triagelab.judge.lookup import BASELINE, Record, View, describe, missing, shown, varying
from triagelab.measure.statistics import NOT_ENOUGH


def answer(view: View) -> Answer:
    """Return the answer at one point: the scheduler to choose, and its cost to the background.

    An experiment may have no protected job and no judged metrics. The answer then names the best
    and the worst scheduler for each job.
    """
    if view.judged_by:
        return judged.answer([view])
    job = view.protected
    if job is None:
        return Answer(_job_by_job(view), few_repeats(view.repeats))
    ranked = view.ranked(job, view.tail(job))
    if not ranked:
        return Answer(f"{job} completed no request under any scheduler.", [])
    choice = choices.choose([view])
    names = choice.best if choice else ranked[:1]
    headline = _choose(view, job, choice) if choice else _unchosen(view, job, ranked[0])
    few = few_repeats(view.repeats)
    if choice.by_means if choice else few and len(view.schedulers) > 1:
        headline = preliminary(headline)
    others = [
        _against_baseline(view, job, name, choice)
        for name in view.schedulers
        if name != BASELINE and name not in names
    ]
    return Answer(headline, [*others, *few])


def _choose(view: View, job: str, choice: Choice) -> str:
    """Return the headline that names the chosen schedulers, with their figures."""
    under = view.row(BASELINE, job, view.tail(job))
    if choice.worth == [BASELINE]:
        assert under is not None  # a scheduler without a value is not worth choosing
        return (
            f"{choices.none_is_worth(choice)} for {job}: under "
            f"{BASELINE} its {_tail(view)} is {_told(view, under)}{_than_alone(view, under)}."
        )
    best = choice.best[0]
    row = view.row(best, job, view.tail(job))
    assert row is not None
    told = f"{job}'s {_tail(view)} is {_told(view, row)}{_than_alone(view, row)}"
    if best != BASELINE:
        told += _than_baseline(view, job, best) + _price(view, best)
    others = [f"{name} {_offer(view, job, name)}" for name in choice.others]
    also = f"; also worth choosing: {'; '.join(others)}" if others else ""
    baseline = _under_baseline(view, job) if choice.offers_baseline else ""
    return f"Choose {' or '.join(choice.best)}: {told}{also}{baseline}."


def _under_baseline(view: View, job: str) -> str:
    """Return a clause with what the baseline gives: all throughput, at this tail latency."""
    latency = f"{_tail(view)} of {view.mean(BASELINE, job, view.tail(job))} for {job}"
    if not view.background:
        return f"; {BASELINE} has a {latency}"
    return f"{_keeps_all(view.background)}, at a {latency}"


def _keeps_all(background: list[str]) -> str:
    """Return a clause that says that the baseline costs the background jobs nothing."""
    return f"; {BASELINE} keeps all of the throughput of {listed(background)}"


def _offer(view: View, job: str, name: str) -> str:
    """Return a scheduler's latency and the bandwidth that the background keeps, in brackets."""
    latency = view.mean(name, job, view.tail(job))
    kept = [
        f"{background} keeps {percent(ratio)}"
        for background in view.background
        if (ratio := view.kept(name, background)) is not None
    ]
    return f"({', '.join([latency, *kept])})"


def _unchosen(view: View, job: str, first: str) -> str:
    """Return the headline that says that no scheduler can be chosen.

    A cause may be that the baseline was not measured. `first` is the scheduler with the lowest tail
    latency.
    """
    row = view.row(first, job, view.tail(job))
    assert row is not None
    told = f"its {_tail(view)} is {_told(view, row)}{_than_alone(view, row)}"
    if len(view.schedulers) == 1:
        return f"Only {first} was measured, so {job} is not compared: {told}."
    return (
        f"Nothing tells which scheduler to choose; {job} fared best under {first}: {told}"
        f"{_than_baseline(view, job, first)}{_price(view, first)}."
    )


def overall(found: list[View]) -> Answer | None:
    """Return the answer over all points: compare the schedulers, each at its worst point.

    Return None if there is only one point, or if the experiment has no protected job and no judged
    metrics.
    """
    if len(found) < 2:
        return None
    if found[0].judged_by:
        return judged.answer(found)
    if found[0].protected is None:
        return None
    names = dict.fromkeys(name for view in found for name in view.schedulers)
    worst = {name: bad for name in names if (bad := _worst(found, name))}
    ranked = sorted(worst, key=lambda name: worst[name].level)
    if not ranked:
        return None
    choice = choices.choose(found)
    everywhere = [name for name in ranked if all(name in view.schedulers for view in found)]
    best = choice.best[0] if choice else (everywhere or ranked)[0]
    job, price = found[0].protected, _least_kept(found, best)
    if len(ranked) == 1:
        headline = f"Only {best} was measured, so {job} is not compared; at"
    elif choice is None:
        headline = "Nothing tells which scheduler to choose; at"
    elif choice.worth == [BASELINE]:
        headline = f"{choices.none_is_worth(choice)}: at"
    else:
        headline = f"Choose {' or '.join(choice.best)}: at"
    headline += (
        f" the worst of {len(found)} points {job}'s {_name_of_tails(found)} under {best} is "
        f"{worst[best].text}"
    )
    if best != BASELINE and BASELINE in worst:
        headline += f", under {BASELINE} {worst[BASELINE].text}"
    elif best != ranked[-1]:
        headline += f", and at most, under {ranked[-1]}, {worst[ranked[-1]].text}"
    headline += f"; under {best} {price}" if price else ""
    if choice and choice.others:
        offers = [
            f"{name} ({', '.join([worst[name].text, *_least_of_each(found, name)])})"
            for name in choice.others
        ]
        headline += f"; also worth choosing: {'; '.join(offers)}"
    background = list(dict.fromkeys(job for view in found for job in view.background))
    if choice and choice.offers_baseline and background:
        headline += _keeps_all(background)  # the headline has the latency under the baseline
    few = few_repeats(min(view.repeats for view in found))
    if choice.by_means if choice else few and len(ranked) > 1:
        headline = preliminary(headline)
    details = [
        f"{name}: {worst[name].text}, at {worst[name].where}{f'; {price}' if price else ''}"
        f"{missing(found, name)}{_beaten(name, choice)}."
        for name in ranked
        for price in [_least_kept(found, name)]
    ]
    return Answer(f"{headline}.", [*details, *few])


def of_all(found: list[View]) -> Answer:
    """Return one answer for a matrix: the answer over all points, or else at the last point."""
    if len(found) == 1:
        return answer(found[0])
    return overall(found) or _at_the_last(found)


def _at_the_last(found: list[View]) -> Answer:
    """Return the answer at the last point, for a matrix for which overall() returns None."""
    last = answer(found[-1])
    return Answer(f"At {describe(found[-1].point)}: {last.headline}", last.details)


@dataclass(frozen=True)
class _Worst:
    """A scheduler's worst point.

    level  the protected job's tail latency there; relative to the job alone, if the job alone was
           measured at all points. Infinite if the job starved or was not measured there
    text   the level for people
    where  the point for people
    """

    level: float
    text: str
    where: str


def _worst(found: list[View], scheduler: str) -> _Worst | None:
    """Return a scheduler's worst point; None if no point has the scheduler."""
    tails, relative = _tails(found), _is_relative(found)
    where = varying(found)
    seen = [
        _level(view, scheduler, tails[view.point], relative, where[view.point])
        for view in found
        if scheduler in view.schedulers
    ]
    return max(seen, key=lambda bad: bad.level, default=None)


def _is_relative(found: list[View]) -> bool:
    """Return whether the protected job alone was measured at all points, in each point's tail."""
    return all(view.alone(view.tail(view.protected)) for view in found)


def _tails(found: list[View]) -> dict[str, str]:
    """Return point -> tail metric: P99, or the maximum if the point has too few requests.

    If the job alone was not measured, the latencies themselves are compared across points. Then all
    points have the maximum if any point has too few requests.
    """
    tails = {view.point: view.tail(view.protected) for view in found}
    if _is_relative(found) or set(tails.values()) == {TAIL}:
        return tails
    return dict.fromkeys(tails, metrics.MAXIMUM)


def _name_of_tails(found: list[View]) -> str:
    tails = set(_tails(found).values())
    if len(tails) == 1:
        return name_of(*tails)
    return NAME_OF_TAILS


def _level(view: View, scheduler: str, tail: str, relative: bool, where: str) -> _Worst:
    row = view.row(scheduler, view.protected, tail)
    alone = view.alone(tail)
    if starved := view.starved(scheduler, view.protected):
        return _Worst(math.inf, f"endless ({starved})", where)
    if row is None:
        return _Worst(math.inf, "not measured", where)
    if relative and alone and alone["mean"]:
        level = row["mean"] / alone["mean"]
        return _Worst(level, f"{digits(level)}{SPACE}× what it is alone", where)
    return _Worst(row["mean"], quantity(row["mean"], row["unit"]), where)


def _least_kept(found: list[View], scheduler: str) -> str:
    """Describe each background job's throughput relative to the baseline, at its worst point."""
    kept = _least_of_each(found, scheduler)
    return f"{listed(kept)} of its throughput under {BASELINE}" if kept else ""


def _least_of_each(found: list[View], scheduler: str) -> list[str]:
    """Return a phrase for each background job: its least throughput relative to the baseline.

    Return [] for the baseline itself.
    """
    if scheduler == BASELINE:
        return []
    kept = []
    for job in dict.fromkeys(job for view in found for job in view.background):
        ratios = [ratio for view in found if (ratio := view.kept(scheduler, job)) is not None]
        if ratios:
            kept.append(f"{job} keeps at least {percent(min(ratios))}")
    return kept


def _tail(view: View) -> str:
    """Return the name of the protected job's tail metric: P99 or maximum latency."""
    return name_of(view.tail(view.protected))


def _told(view: View, row: Record) -> str:
    """Format a row's figure and, if the job starved, the number of repeats in which it starved."""
    starved = view.starved(row["scheduler"], row["job"])
    return f"{shown(row)} ({starved})" if starved else shown(row)


def _than_alone(view: View, row: Record) -> str:
    alone = view.alone(row["metric"])
    if not alone or not alone["mean"]:
        return ""
    return f", {digits(row['mean'] / alone['mean'])}{SPACE}× what it is alone"


def _than_baseline(view: View, job: str, scheduler: str) -> str:
    tail = view.tail(job)
    against = view.compare(scheduler, BASELINE, job, tail)
    under = view.mean(BASELINE, job, tail)
    if against is None or against.ratio is None:
        if against is not None and against.verdict != NOT_ENOUGH:
            return f" ({against.words})"
        return f", and {under} under {BASELINE}" if under else ""
    return f" and {times(against)} what it is under {BASELINE}{f' ({under})' if under else ''}"


def _price(view: View, scheduler: str) -> str:
    """Describe each background job's throughput relative to the baseline."""
    kept = [
        f"{job} keeps {text}" for job in view.background if (text := _kept(view, scheduler, job))
    ]
    return f"; {listed(kept)} of its throughput under {BASELINE}" if kept else ""


def _kept(view: View, scheduler: str, job: str) -> str:
    compared, ratio = (
        view.compare(scheduler, BASELINE, job, "bytes_per_s"),
        view.kept(scheduler, job),
    )
    if ratio is None:
        return ""
    if compared is None:
        return percent(ratio)
    if compared.ratio is not None:
        return share(compared)
    return f"{percent(ratio)} ({compared.words})"


def _against_baseline(view: View, job: str, scheduler: str, choice: Choice | None) -> str:
    """Return a line that compares a scheduler with the baseline."""
    price = _price(view, scheduler)
    tail = view.tail(job)
    row = view.row(scheduler, job, tail)
    if row is None:
        return f"{scheduler}: {view.starved(scheduler, job) or f'{job} was not measured'}{price}."
    against = view.compare(scheduler, BASELINE, job, tail)
    if against is None or against.ratio is None:
        told = f"{_tail(view)} {_told(view, row)}{_than_alone(view, row)}"
    else:
        told = f"{_tail(view)} {times(against)} that of {BASELINE} ({against.words})"
    return f"{scheduler}: {told}{price}{_beaten(scheduler, choice)}."


def _beaten(name: str, choice: Choice | None) -> str:
    """Return "; not worth choosing …" for a scheduler that is not worth choosing, else ""."""
    if choice is None or name == BASELINE or name in choice.worth:
        return ""
    if name in choice.starving:
        return "; not worth choosing"
    return f"; not worth choosing beside {choice.beaten[name]}" if name in choice.beaten else ""


def _job_by_job(view: View) -> str:
    """Return the headline if no job is protected: each job's best and worst scheduler."""
    return " ".join(
        f"{job}: {extreme(view, job, view.tail(job))}; {extreme(view, job, 'iops')}."
        for job in view.jobs
    )


def title(view: View, job: str | None, metric: str) -> str:
    """Return the title of a metric's chart: the job, and the best and the worst scheduler."""
    found = extreme(view, job, metric)
    return f"{job}: {found}" if job else found[0].upper() + found[1:]


def extreme(view: View, job: str | None, metric: str) -> str:
    """Name the schedulers under which a metric is best and worst."""
    ranked = view.ranked(job, metric)
    best = next(iter(ranked), "")
    return ends(
        name_of(metric),
        ranked,
        view.equals(best, job, metric),
        view.uncertain(best, job, metric),
        lambda scheduler: view.mean(scheduler, job, metric),
        more_is_better=more_is_better(metric),
    )


def ends(
    name: str,
    ranked: list[str],
    equals: list[str],
    uncertain: list[str],
    show: Callable[[str], str],
    *,
    more_is_better: bool,
) -> str:
    """Describe the best and the worst of a ranking in words.

    ranked     the schedulers, the best first
    equals     schedulers of which no difference to the best was seen
    uncertain  schedulers whose difference to the best is not certain
    show       formats a scheduler's value
    """
    if not ranked:
        return f"no {name}, for nothing was completed"
    best, worst = ranked[0], ranked[-1]
    low, high = show(best), show(worst)
    if len(ranked) == 1:
        return f"{name} is {low} under {best}"
    if len(equals) == len(ranked) - 1 or low == high:
        return f"{name} shows no difference between schedulers (about {low})"
    word, opposite = ("highest", "lowest") if more_is_better else ("lowest", "highest")
    if worst in equals:
        # The worst scheduler's figures vary so much that it does not visibly differ from the best.
        return (
            f"{name} is {word} under {best} ({low}), {opposite} under {worst} ({high}); "
            "no difference between these two was seen"
        )
    group, value = (listed([best, *equals]), f"about {low}") if equals else (best, low)
    doubted = [scheduler for scheduler in uncertain if scheduler != worst]
    value += f"; not certain against {listed(doubted)}" if doubted else ""
    doubt = f"; {worst}'s difference to {best} is not certain" if worst in uncertain else ""
    return f"{name} is {word} under {group} ({value}), {opposite} under {worst} ({high}){doubt}"
