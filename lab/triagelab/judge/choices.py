# SPDX-License-Identifier: GPL-2.0-only
"""Choose schedulers: find the Pareto set of an experiment's goals.

A goal is a figure that should be low or high. If an experiment is judged by metrics of whole runs
(`judged_by`), these metrics are the goals. Otherwise the goals are the protected job's tail latency
and the background's bandwidth.

A scheduler is visibly better than another in a goal if the verdict says so, the difference is at
least a tenth, and the difference exceeds the metric's `negligible`. A scheduler beats another if it
is visibly better in some goal at some point, and not visibly worse in any goal at any point. A
scheduler is worth choosing if no other beats it and, without `judged_by`, if it never starves the
protected job. Changing schedulers has a cost. So a scheduler other than the baseline must also be
visibly better than the baseline in some goal at some point.

If the baseline or all others have too few repeats for a verdict, mean ratios replace all verdicts,
and the choice is preliminary. Otherwise mean ratios decide only for pairs without a verdict.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from triagelab.base import metrics
from triagelab.judge.figures import more_is_better
from triagelab.judge.lookup import BASELINE, View
from triagelab.measure.statistics import (
    HIGHER,
    LOWER,
    NOT_ENOUGH,
    REPEATS_FOR_VERDICT,
    Comparison,
)

#: Two values are about the same if their ratio is between 1 / ALIKE and ALIKE.
ALIKE = 1.1

_KEPT = "background_bytes_per_s"

#: A figure to choose by: a job and a metric. The job is None for a metric of whole runs.
Goal = tuple[str | None, str]


def protection(view: View) -> list[Goal]:
    """Return the goals of an experiment that protects a job."""
    return [(view.protected, view.tail(view.protected)), (None, _KEPT)]


def judged(view: View) -> list[Goal]:
    """Return the goals of an experiment that is judged by metrics of whole runs."""
    return [(None, metric) for metric in view.judged_by]


@dataclass(frozen=True)
class Choice:
    """The schedulers that are worth choosing, and the best of them.

    best         the scheduler in `worth` with the highest power, then the schedulers in `worth`
                 that do not visibly differ from it. Power is throughput over latency (L. Kleinrock,
                 Power and Deterministic Rules of Thumb, 1979): the background's bandwidth over the
                 protected job's tail latency. With `judged_by`, power is the product of the gains
                 over the baseline in the judged metrics
    worth        the schedulers worth choosing, the best in the first goal first. The baseline is
                 in this list if no scheduler beats it
    beaten       loser -> a scheduler that beats the loser, from `worth` if possible. The baseline
                 also beats each scheduler that is nowhere visibly better than the baseline
    starving     schedulers under which the protected job completed nothing in some repeat; empty
                 with `judged_by`
    as_baseline  schedulers that do not visibly differ from the baseline
    by_means     there are too few repeats for verdicts, so mean ratios decide
    """

    best: list[str]
    worth: list[str]
    beaten: dict[str, str]
    starving: list[str]
    as_baseline: list[str]
    by_means: bool

    @property
    def others(self) -> list[str]:
        """Return the schedulers that are also worth choosing, in the order of `worth`.

        The baseline is not among them: to keep it is no choice of a scheduler.
        """
        return [name for name in self.worth if name not in (*self.best, BASELINE)]

    @property
    def offers_baseline(self) -> bool:
        """Return True if the baseline is not the best, but no scheduler beats it either."""
        return BASELINE in self.worth and BASELINE not in self.best


@dataclass(frozen=True)
class _Field:
    """The points and goals in which schedulers are compared."""

    views: Sequence[View]
    goals: Callable[[View], list[Goal]]

    @cached_property
    def judged(self) -> list[str]:
        """The schedulers with enough repeats for a verdict against the baseline at every point."""
        return [
            name
            for name in self.views[0].schedulers
            if all(self._is_judged(view, name) for view in self.views)
        ]

    def _is_judged(self, view: View, name: str) -> bool:
        if view.repeats_of.get(name, 0) < REPEATS_FOR_VERDICT:
            return False
        seen = view.compare(name, BASELINE, *self.goals(view)[0])
        return name == BASELINE or (seen is not None and seen.verdict != NOT_ENOUGH)

    @property
    def by_means(self) -> bool:
        """Return True if the baseline or all others have too few repeats for a verdict.

        Mean ratios then decide.
        """
        return BASELINE not in self.judged or len(self.judged) < 2

    def better(self, view: View, a: str, b: str) -> bool:
        """Return True if a is visibly better than b in some goal at the point of `view`."""
        return any(self._better_in(view, a, b, *goal) for goal in self.goals(view))

    def _better_in(self, view: View, a: str, b: str, job: str | None, metric: str) -> bool:
        more = more_is_better(metric)
        if _is_negligible(view, a, b, job, metric):
            return False
        seen = view.compare(a, b, job, metric)
        if not self.by_means and seen is not None and seen.verdict != NOT_ENOUGH:
            return _seen(seen, HIGHER if more else LOWER)
        ratio = view.ratio(a, b, job, metric)
        if ratio is None:
            return more and _has_nothing(view, b, job, metric) and _has_some(view, a, job, metric)
        return ratio > ALIKE if more else ratio * ALIKE < 1

    def beats(self, a: str, b: str) -> bool:
        """Return True if a is visibly better than b in a goal at some point, and never worse."""
        return self.gains(a, b) and not self.gains(b, a)

    def gains(self, a: str, b: str) -> bool:
        """Return True if a is visibly better than b in some goal at some point."""
        return any(self.better(view, a, b) for view in self.views)

    def alike(self, a: str, b: str) -> bool:
        """Return True if neither scheduler is visibly better in any goal at any point."""
        return not self.gains(a, b) and not self.gains(b, a)

    def known(self, name: str) -> bool:
        """Return True if a scheduler can be compared in the first goal at every point."""
        if self.by_means:
            return all(self._is_measured(view, name) for view in self.views)
        return name in self.judged

    def _is_measured(self, view: View, name: str) -> bool:
        job, metric = self.goals(view)[0]
        return name in view.schedulers and (
            view.row(name, job, metric) is not None or view.starved(name, job) != ""
        )


def none_is_worth(choice: Choice) -> str:
    """Return the words that begin an answer if no scheduler is worth choosing over the baseline."""
    seen = "seems" if choice.by_means else "was seen to be"
    return f"No scheduler {seen} worth choosing over {BASELINE}"


def choose(views: Sequence[View]) -> Choice | None:
    """Choose by the goals of an experiment that protects a job, over all points together.

    Return None if the baseline was not measured at some point, if no other scheduler can be
    compared at every point, or if no scheduler is worth choosing.
    """
    starving = [
        name
        for name in views[0].schedulers
        if any(view.starved(name, view.protected) for view in views)
    ]
    field = _Field(views, protection)
    return _choose(field, starving, lambda n: level(views, n), lambda n: _power(views, n))


def choose_judged(views: Sequence[View]) -> Choice | None:
    """Choose by the metrics that an experiment is judged by, over all points together.

    Return None in the same cases as choose(), and if none of these metrics was measured at a point.
    """
    if not all(view.judged_by for view in views):
        return None
    field = _Field(views, judged)
    return _choose(field, [], lambda n: _first(views, n), lambda n: _gained(views, n))


def _choose(
    field: _Field,
    starving: list[str],
    first: Callable[[str], float],
    power: Callable[[str], float],
) -> Choice | None:
    """Return the choice.

    first  returns a scheduler's figure in the first goal; a lower one is better
    power  returns a scheduler's power; a higher one is better
    """
    names = [name for name in field.views[0].schedulers if field.known(name)]
    if BASELINE not in names or len(names) < 2:
        return None
    fit = [name for name in names if name not in starving]
    winners = {name: [other for other in fit if field.beats(other, name)] for name in fit}
    for name in fit:
        if name != BASELINE and BASELINE in fit and not field.gains(name, BASELINE):
            winners[name].append(BASELINE)
    worth = sorted((name for name in fit if not winners[name]), key=first)
    if not worth:
        return None
    beaten = {
        name: next((other for other in others if other in worth), others[0])
        for name, others in winners.items()
        if others
    }
    highest = max(worth, key=power)
    best = [highest, *(name for name in worth if name != highest and field.alike(name, highest))]
    alike = [name for name in fit if name != BASELINE and field.alike(name, BASELINE)]
    starved = [name for name in names if name in starving]
    return Choice(best, worth, beaten, starved, alike, field.by_means)


def _first(views: Sequence[View], name: str) -> float:
    """Return a scheduler's worst figure in the first judged metric, negated if more is better."""
    metric = views[0].judged_by[0]
    rows = [row for view in views if (row := view.row(name, None, metric))]
    sign = -1 if more_is_better(metric) else 1
    return max((sign * row["mean"] for row in rows), default=math.inf)


def _gained(views: Sequence[View], name: str) -> float:
    """Return the product of a scheduler's gains in the judged metrics, each at its worst point."""
    gains = [
        min((_gain(view, name, metric) for view in views), default=1.0)
        for metric in views[0].judged_by
    ]
    return 0.0 if 0 in gains else math.prod(gains)


def _gain(view: View, name: str, metric: str) -> float:
    """Return the factor by which a whole-run metric is better than under the baseline.

    If the metric is a share that should be low, compare 1 minus the share: for late requests, the
    share of requests in time. Add the metric's negligible difference to both
    figures, so that figures near 0 give no large gain. Return 1 if a figure is missing.
    """
    row, base = view.row(name, None, metric), view.row(BASELINE, None, metric)
    if row is None or base is None:
        return 1.0
    here, there = float(row["mean"]), float(base["mean"])
    if more_is_better(metric):
        above, below = here, there
    elif metrics.find(metric).is_share:
        above, below = 1 - here, 1 - there
    else:
        above, below = there, here
    above, below = (value + metrics.find(metric).negligible for value in (above, below))
    if below == 0:
        return 1.0 if above == 0 else math.inf
    return above / below


def level(views: Sequence[View], name: str) -> float:
    """Return the protected job's tail latency at the worst point.

    If the job was also measured alone at all points, return the ratio to its latency alone.
    Otherwise return the latency in µs. Return infinity if the job starved, or has no figure, at
    some point.
    """
    relative = all(_alone(view) for view in views)
    return max(_level(view, name, relative) for view in views)


def _level(view: View, name: str, relative: bool) -> float:
    row = view.row(name, view.protected, view.tail(view.protected))
    if row is None or view.starved(name, view.protected):
        return math.inf
    return float(row["mean"]) / (_alone(view) if relative else 1.0)


def _alone(view: View) -> float:
    """Return the tail latency of the protected job when it runs alone, in µs; 0 if unknown."""
    row = view.alone(view.tail(view.protected))
    return float(row["mean"]) if row else 0.0


def kept(views: Sequence[View], name: str) -> float:
    """Return the background's bandwidth relative to the baseline: the least ratio of all points.

    Where the ratio is unknown, it counts as 1.
    """
    return min((_kept(view, name) for view in views), default=1.0)


def _kept(view: View, name: str) -> float:
    ratio = view.ratio(name, BASELINE, None, _KEPT)
    return 1.0 if ratio is None else ratio


def _power(views: Sequence[View], name: str) -> float:
    return kept(views, name) / level(views, name)


def _is_negligible(view: View, a: str, b: str, job: str | None, metric: str) -> bool:
    here, there = (view.row(name, job, metric) for name in (a, b))
    if here is None or there is None:
        return False
    return bool(abs(here["mean"] - there["mean"]) <= metrics.find(metric).negligible)


def _has_nothing(view: View, name: str, job: str | None, metric: str) -> bool:
    row = view.row(name, job, metric)
    return row is not None and row["mean"] == 0


def _has_some(view: View, name: str, job: str | None, metric: str) -> bool:
    row = view.row(name, job, metric)
    return row is not None and row["mean"] > 0


def _seen(compared: Comparison | None, verdict: str) -> bool:
    """Return True if the comparison has this verdict and the difference is at least a tenth."""
    if compared is None or compared.verdict != verdict:
        return False
    ratio = compared.ratio
    return ratio is None or not 1 / ALIKE < ratio < ALIKE
