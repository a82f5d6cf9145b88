# SPDX-License-Identifier: GPL-2.0-only
"""What a summary says, in words: the answer and the titles of charts.

Every sentence is made from the figures.  A difference is only called one where
the verdict says so; jobs are never compared with each other.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from triagelab.figures import (
    MORE_IS_BETTER,
    NAMES,
    SPACE,
    digits,
    listed,
    name_of,
    quantity,
    scale_for,
    share,
    times,
)
from triagelab.lookup import BASELINE, Record, View, describe, shown, varying
from triagelab.statistics import HIGHER, LOWER, NO_DIFFERENCE, NOT_ENOUGH, REPEATS_FOR_VERDICT


@dataclass(frozen=True)
class Answer:
    """One sentence, and what else belongs to it."""

    headline: str
    details: list[str]


def answer(view: View) -> Answer:
    """Who protects the protected job best and at what price; else who is best at what."""
    if view.judged_by:
        return _judged(view)
    if view.protected is None:
        return Answer(_job_by_job(view), _few_repeats(view))
    ranked = view.ranked(view.protected, "p99_us")
    if not ranked:
        return Answer(f"{view.protected} completed no request under any scheduler.", [])
    best = (view.protectors() or ranked)[0]
    nobody = _nobody_protects(view)
    headline = nobody or _protects(view, view.protected, best)
    others = [
        _against_baseline(view, view.protected, name)
        for name in view.schedulers
        if name != BASELINE and (nobody or name != best)
    ]
    return Answer(headline, [*others, *_few_repeats(view)])


def overall(found: list[View]) -> Answer | None:
    """How the protected job fares at the worst of several points, under each scheduler.

    None where there are not several, or no job to protect that completed anything.
    """
    if len(found) < 2 or found[0].protected is None or found[0].judged_by:
        return None
    names = dict.fromkeys(name for view in found for name in view.schedulers)
    worst = {name: bad for name in names if (bad := _worst(found, name))}
    ranked = sorted(worst, key=lambda name: worst[name].level)
    if not ranked:
        return None
    best = ranked[0]
    job, price = found[0].protected, _least_kept(found, best)
    headline = (
        f"At the worst of {len(found)} points {job}'s P99 latency under {best} is "
        f"{worst[best].text}"
    )
    if best != BASELINE and BASELINE in worst:
        headline += f", under {BASELINE} {worst[BASELINE].text}"
    headline += f"; under {best} {price}" if price else ""
    details = [
        f"{name}: {worst[name].text}, at {worst[name].where}{f'; {price}' if price else ''}."
        for name in ranked
        for price in [_least_kept(found, name)]
    ]
    return Answer(f"{headline}.", [*details, *_few_repeats(min(found, key=lambda v: v.repeats))])


def of_all(found: list[View]) -> Answer:
    """The answer of a whole matrix, in a sentence."""
    if len(found) == 1:
        return answer(found[0])
    if found[0].judged_by:
        return _judged_overall(found)
    return overall(found) or _at_the_last(found)


def _at_the_last(found: list[View]) -> Answer:
    """Where no job is protected and none judged: the matrix at its far end."""
    last = answer(found[-1])
    return Answer(f"At {describe(found[-1].point)}: {last.headline}", last.details)


#: Metrics that mean something by themselves; others are compared with the baseline's.
_ABSOLUTE = ("jain_index", "least_share", "longest_wait_us")


def _judged_overall(found: list[View]) -> Answer:
    """By the first metric that the experiment is judged by: each scheduler where it is worst."""
    metric = found[0].judged_by[0]
    relative = metric not in _ABSOLUTE and all(view.row(BASELINE, None, metric) for view in found)
    worst: dict[str, tuple[float, str, str]] = {}
    where = varying(found)
    for view in found:
        for name in view.ranked(None, metric):
            here = _figure(view, name, metric, relative)
            if here and (name not in worst or _worse(here[0], worst[name][0], metric)):
                worst[name] = (*here, where[view.point])
    more = metric in MORE_IS_BETTER
    ranked = sorted(worst, key=lambda name: worst[name][0], reverse=more)
    if relative:
        ranked = [name for name in ranked if name != BASELINE]
    if not ranked:
        return Answer(f"{name_of(metric)} was measured under {BASELINE} alone.", [])
    told = {name: f"{worst[name][1]} under {name}" for name in ranked}
    best = f"At the worst of {len(found)} points {name_of(metric)} is {told[ranked[0]]}"
    if len(ranked) > 1:
        best += f" and {told[ranked[-1]]}"
    details = [f"{name}: {worst[name][1]}, at {worst[name][2]}." for name in ranked]
    few = _few_repeats(min(found, key=lambda view: view.repeats))
    return Answer(f"{best}.", [*details, *few])


def _figure(view: View, name: str, metric: str, relative: bool) -> tuple[float, str] | None:
    """A metric of the whole run, as a number to rank by and as text."""
    row = view.row(name, None, metric)
    if row is None:
        return None
    if not relative or name == BASELINE:
        return row["mean"], quantity(row["mean"], row["unit"])
    compared = view.compare(name, BASELINE, None, metric)
    if compared is None or compared.ratio is None:
        return None
    return compared.ratio, f"{times(compared)} that of {BASELINE}"


def _worse(value: float, than: float, metric: str) -> bool:
    return value < than if metric in MORE_IS_BETTER else value > than


def _judged(view: View) -> Answer:
    """The experiment's own metrics: who is best and worst, and by the first each in a line."""
    headline = ". ".join(title(view, None, metric) for metric in view.judged_by)
    lines = [_over_baseline(view, name) for name in view.ranked(None, view.judged_by[0])]
    return Answer(f"{headline}.", [*filter(None, lines), *_few_repeats(view)])


def _over_baseline(view: View, scheduler: str) -> str:
    metric = view.judged_by[0]
    row, base = view.row(scheduler, None, metric), view.row(BASELINE, None, metric)
    against = view.compare(scheduler, BASELINE, None, metric)
    if scheduler == BASELINE or row is None or base is None or against is None:
        return ""
    more = row["mean"] - base["mean"]
    scale = scale_for(row["unit"], max(row["mean"], base["mean"]))
    sign = "−" if more < 0 else "+"
    return f"{scheduler}: {sign}{scale.show(abs(more))} over {BASELINE}, {times(against)}."


@dataclass(frozen=True)
class _Worst:
    """The highest P99 of the protected job under a scheduler: infinite where it starved."""

    level: float
    text: str
    where: str


def _worst(found: list[View], scheduler: str) -> _Worst | None:
    """None when the scheduler was measured nowhere."""
    relative = all(view.alone("p99_us") for view in found)
    where = varying(found)
    seen = [
        _level(view, scheduler, relative, where[view.point])
        for view in found
        if scheduler in view.schedulers
    ]
    return max(seen, key=lambda bad: bad.level, default=None)


def _level(view: View, scheduler: str, relative: bool, where: str) -> _Worst:
    row = view.row(scheduler, view.protected, "p99_us")
    alone = view.alone("p99_us")
    if row is None:
        return _Worst(math.inf, "endless (it completed no request)", where)
    if starved := view.starved(scheduler, view.protected, "p99_us"):
        return _Worst(math.inf, f"endless ({starved})", where)
    if relative and alone and alone["mean"]:
        level = row["mean"] / alone["mean"]
        return _Worst(level, f"{digits(level)}{SPACE}× what it is alone", where)
    return _Worst(row["mean"], quantity(row["mean"], row["unit"]), where)


def _least_kept(found: list[View], scheduler: str) -> str:
    """What each background job keeps where it keeps least."""
    if scheduler == BASELINE:
        return ""
    kept = []
    for job in dict.fromkeys(job for view in found for job in view.background):
        ratios = [
            compared.ratio
            for view in found
            if (compared := view.compare(scheduler, BASELINE, job, "bytes_per_s"))
            and compared.ratio is not None
        ]
        if ratios:
            kept.append(f"{job} keeps at least {digits(100 * min(ratios))}{SPACE}%")
    return f"{listed(kept)} of its throughput under {BASELINE}" if kept else ""


def _nobody_protects(view: View) -> str:
    """The headline when the repeats suffice and no scheduler beats the baseline, else empty."""
    job = view.protected
    under = view.row(BASELINE, job, "p99_us")
    enough = view.repeats >= REPEATS_FOR_VERDICT
    if job is None or under is None or not enough or len(view.schedulers) == 1 or view.protectors():
        return ""
    return (
        f"No scheduler was seen to protect {job} better than {BASELINE} does: under {BASELINE} "
        f"its P99 latency is {_p99(view, under)}{_than_alone(view, under)}."
    )


def _protects(view: View, job: str, best: str) -> str:
    """The headline when there is a job to protect."""
    row = view.row(best, job, "p99_us")
    assert row is not None  # the best is one of those that have it
    latency = f"its P99 latency is {_p99(view, row)}{_than_alone(view, row)}"
    if len(view.schedulers) == 1:
        return f"Only {best} was measured, so {job} is not compared: {latency}."
    if view.repeats < REPEATS_FOR_VERDICT:
        subject = f"{job} fared best under {best}"
    else:
        subject = f"{best} protects {job} best"
    if equals := view.equals(best, job, "p99_us"):
        subject += f" (no difference seen to {listed(equals)})"
    if against := view.compare(best, BASELINE, job, "p99_us"):
        latency += f" and {times(against)} what it is under {BASELINE}{_in_brackets(view, job)}"
    price = _price(view, best)
    return f"{subject}: {latency}{price}{f' of its throughput under {BASELINE}' if price else ''}."


def _p99(view: View, row: Record) -> str:
    """The P99 in a row, and where it is not of all repeats."""
    starved = view.starved(row["scheduler"], row["job"], "p99_us")
    return f"{shown(row)} ({starved})" if starved else shown(row)


def _than_alone(view: View, row: Record) -> str:
    alone = view.alone("p99_us")
    if not alone or not alone["mean"]:
        return ""
    return f", {digits(row['mean'] / alone['mean'])} × what it is alone"


def _in_brackets(view: View, job: str) -> str:
    return f" ({view.mean(BASELINE, job, 'p99_us')})" if view.row(BASELINE, job, "p99_us") else ""


def _price(view: View, scheduler: str) -> str:
    """What the background keeps of its throughput under the baseline."""
    kept = [
        f"{job} keeps {share(compared)}"
        for job in view.background
        if (compared := view.compare(scheduler, BASELINE, job, "bytes_per_s"))
    ]
    return f"; {listed(kept)}" if kept else ""


def _against_baseline(view: View, job: str, scheduler: str) -> str:
    """One scheduler against the baseline, in a line."""
    row = view.row(scheduler, job, "p99_us")
    if row is None:
        return f"{scheduler}: {job} completed no request at all{_price(view, scheduler)}."
    against = view.compare(scheduler, BASELINE, job, "p99_us")
    if against is None:
        return f"{scheduler}: P99 latency {_p99(view, row)}{_than_alone(view, row)}."
    found = {
        LOWER: "lower",
        HIGHER: "higher",
        NO_DIFFERENCE: "no difference seen",
        NOT_ENOUGH: "not enough repeats to tell",
    }[against.verdict]
    found = "; ".join(filter(None, [found, view.starved(scheduler, job, "p99_us")]))
    return (
        f"{scheduler}: P99 latency {times(against)} that of {BASELINE} ({found})"
        f"{_price(view, scheduler)}."
    )


def _job_by_job(view: View) -> str:
    """The headline when no job is known to need protection."""
    return " ".join(
        f"{job}: {extreme(view, job, 'p99_us')}; {extreme(view, job, 'iops')}." for job in view.jobs
    )


def _few_repeats(view: View) -> list[str]:
    if view.repeats >= REPEATS_FOR_VERDICT:
        return []
    warning = (
        f"Some figures rest on fewer than {REPEATS_FOR_VERDICT} repeats: no difference "
        "between them is claimed, and any may be chance. Five repeats or more are advised."
    )
    return [warning]


def title(view: View, job: str | None, metric: str) -> str:
    """The title of a metric's chart: what it shows, and of which job."""
    found = extreme(view, job, metric)
    return f"{job}: {found}" if job else found[0].upper() + found[1:]


def extreme(view: View, job: str | None, metric: str) -> str:
    """Under which scheduler a metric is best and worst."""
    ranked = view.ranked(job, metric)
    equals = view.equals(ranked[0], job, metric) if ranked else []
    return ends(
        NAMES[metric],
        ranked,
        equals,
        lambda scheduler: view.mean(scheduler, job, metric),
        more_is_better=metric in MORE_IS_BETTER,
    )


def ends(
    name: str,
    ranked: list[str],
    equals: list[str],
    show: Callable[[str], str],
    *,
    more_is_better: bool,
) -> str:
    """The best and the worst of something, in words.

    ranked  the schedulers, the best first
    equals  those that were not seen to differ from the best
    show    a scheduler's value as text
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
    if equals:
        group = listed([best, *equals])
        return f"{name} is {word} under {group} (about {low}), {opposite} under {worst} ({high})"
    return f"{name} is {word} under {best} ({low}), {opposite} under {worst} ({high})"
