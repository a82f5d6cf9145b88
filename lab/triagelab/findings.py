# SPDX-License-Identifier: GPL-2.0-only
"""What a summary says, in words: the answer, the titles of charts, the bottleneck.

Every sentence is made from the figures.  A difference is only called one where
the verdict says so; jobs are never compared with each other.
"""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from triagelab.samples import JOB_UNITS, part_metric, parts, point_key
from triagelab.statistics import (
    HIGHER,
    LOWER,
    NO_DIFFERENCE,
    NOT_ENOUGH,
    REPEATS_FOR_VERDICT,
    Comparison,
    Estimate,
)
from triagelab.summary import alone_key, is_alone

Record = dict[str, Any]

BASELINE = "none"  # what schedulers are compared with
SATURATED = 0.9  # share of its capacity from which a resource counts as the bottleneck

NAMES = {
    "iops": "throughput",
    "bytes_per_s": "bandwidth",
    "mean_us": "mean latency",
    "p50_us": "median latency",
    "p99_us": "P99 latency",
    "p999_us": "P99.9 latency",
    "max_us": "maximum latency",
    "cpu_s": "CPU time",
    "clat_p99_us": "P99 completion latency",
    "instructions_per_io": "instruction count per I/O",
    "contended_locks_per_io": "number of contended locks per I/O",
    "total_iops": "total throughput",
    "total_bytes_per_s": "total bandwidth",
    "jain_index": "fairness index",
    "least_share": "share of the job with least",
    "longest_wait_us": "longest wait",
    "late_share": "share of late requests",
    "context_switches": "context switches",
    "cpu_utilisation": "CPU utilisation",
    "device_utilisation": "device utilisation",
    "device_busy": "time with a request in flight",
}
MORE_IS_BETTER = (
    "iops",
    "bytes_per_s",
    "total_iops",
    "total_bytes_per_s",
    "jain_index",
    "least_share",
)


def name_of(metric: str) -> str:
    """A metric for people; what is not in NAMES is of a part of the device."""
    return NAMES.get(metric) or metric.replace("_", " ")


# ---- figures as text ------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """A unit to show values in, and what to divide them by."""

    divisor: float
    unit: str

    def show(self, value: float) -> str:
        """The value in this unit, with the unit."""
        return f"{digits(value / self.divisor)}{SPACE}{self.unit}".rstrip()


SCALES = {
    "µs": [Scale(1e6, "s"), Scale(1e3, "ms"), Scale(1, "µs")],
    "B/s": [Scale(1e9, "GB/s"), Scale(1e6, "MB/s"), Scale(1e3, "kB/s"), Scale(1, "B/s")],
    "s": [Scale(1, "s"), Scale(1e-3, "ms")],
    "1": [Scale(0.01, "%")],
    # The metric's name says these.
    "instructions": [Scale(1, "")],
    "switches": [Scale(1, "")],
    "locks": [Scale(1, "")],
    "index": [Scale(1, "")],
}
THIN_SPACE, SPACE = "\u202f", "\u00a0"  # neither breaks a line


def scale_for(unit: str, value: float) -> Scale:
    """The scale that shows a value of this unit with the fewest zeros."""
    scales = SCALES.get(unit, [Scale(1, unit)])
    return next((scale for scale in scales if value >= scale.divisor), scales[-1])


def quantity(value: float, unit: str, ci95: Iterable[float] | None = None) -> str:
    """A value with its unit and, where there is one, its interval in that unit."""
    scale = scale_for(unit, value)
    return scale.show(value) + _interval(ci95, scale.divisor)


def times(comparison: Comparison) -> str:
    """A ratio with its interval: 0.42 × [0.40, 0.45]."""
    if comparison.ratio is None:
        return "no ratio (divided by 0)"
    return f"{digits(comparison.ratio)}{SPACE}×" + _interval(comparison.ci95, 1)


def share(comparison: Comparison) -> str:
    """A ratio as a percentage with its interval: 97 % [96, 98]."""
    if comparison.ratio is None:
        return "no share (of 0)"
    return f"{digits(comparison.ratio * 100)}{SPACE}%" + _interval(comparison.ci95, 0.01)


def _interval(ci95: Iterable[float] | None, divisor: float) -> str:
    if ci95 is None:
        return ""
    low, high = ci95
    return f" [{digits(low / divisor)}, {digits(high / divisor)}]"


def digits(value: float) -> str:
    """Three significant digits or all before the point, thousands set apart."""
    if abs(value) >= 100 or value == 0:
        return f"{value:,.0f}".replace(",", THIN_SPACE)
    return f"{value:#.3g}".rstrip(".")


def counted(number: int, word: str) -> str:
    """1 run; 2 runs."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def listed(names: Iterable[str]) -> str:
    """a; a and b; a, b and c."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


# ---- the summary, looked up -----------------------------------------------------


class View:
    """A summary at one point of the matrix."""

    def __init__(self, summary: Record, environment: Record, point: str) -> None:
        found = [point_key(row["point"]) for row in summary["rows"]]
        self._alone_key = alone_key(point, found)
        self._rows = {
            (point_key(row["point"]), row["scheduler"], row["job"], row["metric"]): row
            for row in summary["rows"]
        }
        self._verdicts = {
            (verdict["a"], verdict["b"], verdict["job"], verdict["metric"]): verdict
            for verdict in summary["verdicts"]
            if point_key(verdict["point"]) == point
        }
        here = [row for row in summary["rows"] if point_key(row["point"]) == point]
        seen = {row["scheduler"] for row in here}
        self.point = point
        self.schedulers = [name for name in environment["schedulers"] if name in seen]
        self.jobs = list(dict.fromkeys(row["job"] for row in here if row["job"] is not None))
        protected = environment.get("protected")
        self.protected: str | None = protected if protected in self.jobs else None
        self.background = [name for name in environment.get("background", []) if name in self.jobs]
        self.repeats = min((row["n"] for row in here), default=0)
        self.metrics = list(dict.fromkeys(row["metric"] for row in here))
        judged_by = environment.get("judged_by", [])
        self.judged_by = [name for name in judged_by if name in self.metrics]
        self.parts = [name for name in parts(environment) if part_metric(name) in self.metrics]

    def row(self, scheduler: str, job: str | None, metric: str) -> Record | None:
        """A row of the summary; job None for a metric of the whole run."""
        return self._rows.get((self.point, scheduler, job, metric))

    def alone(self, metric: str) -> Record | None:
        """The protected job alone on the device."""
        if self._alone_key is None or self.protected is None:
            return None
        return self._rows.get((self._alone_key, BASELINE, self.protected, metric))

    def alone_run(self, metric: str) -> Record | None:
        """A metric of the whole run of the baseline."""
        if self._alone_key is None:
            return None
        return self._rows.get((self._alone_key, BASELINE, None, metric))

    def starved(self, scheduler: str, job: str | None, metric: str) -> str:
        """In how many repeats a job completed nothing, and so has no latency; empty if in none."""
        every, seen = self.row(scheduler, job, "iops"), self.row(scheduler, job, "p99_us")
        if every is None or JOB_UNITS.get(metric) != "µs":
            return ""
        nothing = every["n"] - (seen["n"] if seen else 0)
        return f"nothing completed in {nothing} of {every['n']} repeats" if nothing else ""

    def compare(self, a: str, b: str, job: str | None, metric: str) -> Comparison | None:
        """a over b, whichever way round the summary holds it."""
        if verdict := self._verdicts.get((a, b, job, metric)):
            return _comparison(verdict)
        if verdict := self._verdicts.get((b, a, job, metric)):
            return _comparison(verdict).inverse()
        return None

    def ranked(self, job: str | None, metric: str) -> list[str]:
        """Schedulers by their mean, the best first; without those that have none.

        Last are those under which the job starved in some repeats: latency had no end there.
        """
        means = {
            name: (bool(self.starved(name, job, metric)), row["mean"])
            for name in self.schedulers
            if (row := self.row(name, job, metric)) is not None
        }
        return sorted(means, key=lambda name: means[name], reverse=metric in MORE_IS_BETTER)

    def equals(self, best: str, job: str | None, metric: str) -> list[str]:
        """Schedulers that were not seen to differ from the best."""
        others = [
            name
            for name in self.ranked(job, metric)
            if name != best and not self.starved(name, job, metric)
        ]
        return [
            name
            for name in others
            if (seen := self.compare(name, best, job, metric)) and seen.verdict == NO_DIFFERENCE
        ]

    def protectors(self) -> list[str]:
        """Schedulers seen to lower the protected job's P99, the best first."""
        if self.protected is None:
            return []
        return [
            name
            for name in self.ranked(self.protected, "p99_us")
            if (seen := self.compare(name, BASELINE, self.protected, "p99_us"))
            and seen.verdict == LOWER
            and not self.starved(name, self.protected, "p99_us")
        ]


def views(summary: Record, environment: Record) -> list[View]:
    """A view of each point but the baselines."""
    points = dict.fromkeys(
        point_key(row["point"]) for row in summary["rows"] if not is_alone(row["point"])
    )
    return [View(summary, environment, point) for point in points]


def _comparison(verdict: Record) -> Comparison:
    ci95 = tuple(verdict["ci95"]) if verdict["ci95"] else None
    return Comparison(verdict["ratio"], ci95, verdict["n"], verdict["verdict"])


def estimate(row: Record) -> Estimate:
    """A row of the summary as an estimate."""
    return Estimate(row["mean"], tuple(row["ci95"]) if row["ci95"] else None, row["n"])


def describe(point: str) -> str:
    """A point for people: t_apps = 8, bs = 4k; empty for the only one."""
    return ", ".join(f"{name} = {value}" for name, value in json.loads(point).items())


def varying(found: list[View]) -> dict[str, str]:
    """What sets each point apart from the others, for people, by point."""
    points = {view.point: json.loads(view.point) for view in found}
    common = set.intersection(*(set(point.items()) for point in points.values()))
    return {key: describe(point_key(dict(point.items() - common))) for key, point in points.items()}


def shown(row: Record) -> str:
    """A row's mean and interval with its unit."""
    return quantity(row["mean"], row["unit"], row["ci95"])


@dataclass(frozen=True)
class Sweep:
    """Points of the matrix that differ in one number alone, in its order."""

    key: str  # the number's name
    fixed: str  # the rest of the point, for people; empty when there is no rest
    steps: list[tuple[float, View]]


def sweeps(found: list[View]) -> list[Sweep]:
    """The matrix along the one number that varies; none unless exactly one does."""
    points: list[Record] = [json.loads(view.point) for view in found]
    names = dict.fromkeys(name for point in points for name in point)
    varying = [name for name in names if _varies_in_number([p.get(name) for p in points])]
    if len(varying) != 1:
        return []
    key = varying[0]
    groups: dict[str, list[tuple[float, View]]] = {}
    for point, view in zip(points, found, strict=True):
        rest = {name: value for name, value in point.items() if name != key}
        groups.setdefault(describe(point_key(rest)), []).append((point[key], view))
    return [
        Sweep(key, fixed, sorted(steps, key=lambda step: step[0]))
        for fixed, steps in groups.items()
        if len(steps) > 1
    ]


def _varies_in_number(values: list[Any]) -> bool:
    # A bool is an int to Python, and is a choice, not a number, here.
    numbers = all(isinstance(value, int | float) and value is not True for value in values)
    return numbers and len(set(values)) > 1


# ---- the answer -----------------------------------------------------------------


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
    return f" ({_mean(view, BASELINE, job, 'p99_us')})" if view.row(BASELINE, job, "p99_us") else ""


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
        lambda scheduler: _mean(view, scheduler, job, metric),
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


def _mean(view: View, scheduler: str, job: str | None, metric: str) -> str:
    row = view.row(scheduler, job, metric)
    assert row is not None  # ranked() names only those that have it
    starved = view.starved(scheduler, job, metric)
    return "; ".join(filter(None, [quantity(row["mean"], row["unit"]), starved]))


# ---- the bottleneck -------------------------------------------------------------


def bottleneck(view: View, scheduler: str) -> str:
    """device, CPU, both, neither, or unknown where the device's capacity is."""
    cpu = view.row(scheduler, None, "cpu_utilisation")
    device = view.row(scheduler, None, "device_utilisation")
    if cpu is None:
        return "not measured"
    busy = [
        name
        for name, row in (("device", device), ("CPU", cpu))
        if row is not None and row["mean"] >= SATURATED
    ]
    if busy:
        return listed(busy)
    return "neither" if device is not None else "not the CPU"


def bottlenecks(view: View, machine: str) -> list[str]:
    """Sentences on what limited the runs, and what that means for the figures."""
    processor = "CPU" if machine == "host" else "virtual CPU"
    groups: dict[tuple[str, str], list[str]] = {}
    for scheduler in view.schedulers:
        kind, part = bottleneck(view, scheduler), fullest_part(view, scheduler)
        groups.setdefault((kind, part), []).append(scheduler)
    return [
        _limit(kind, f"device (its {part})" if part else "device", names, view, processor)
        for (kind, part), names in groups.items()
    ]


def fullest_part(view: View, scheduler: str) -> str:
    """The part of the device that was used most; empty where parts are not known."""
    used = {
        part: row["mean"]
        for part in view.parts
        if (row := view.row(scheduler, None, part_metric(part))) is not None
    }
    return max(used, key=lambda part: used[part], default="")


def _limit(kind: str, named: str, names: list[str], view: View, processor: str) -> str:
    who = everyone(names, view)
    cpu = _range(view, names, "cpu_utilisation")
    device = _range(view, names, "device_utilisation")
    busy = _range(view, names, "device_busy")
    return {
        "device": f"Under {who} the {named} was the bottleneck: it ran at {device} of what it can "
        f"do, the {processor} at {cpu}.",
        "CPU": f"Under {who} the {processor} was the bottleneck ({cpu} busy"
        + (f", the {named} at {device} of what it can do" if device else "")
        + "): the figures show the cost of the code, not how well the device is shared.",
        "device and CPU": f"Under {who} both the {named} ({device} of what it can do) and the "
        f"{processor} ({cpu}) were saturated: the two limits cannot be told apart.",
        "neither": f"Under {who} neither was saturated: the {named} ran at {device} of what it can "
        f"do, the {processor} at {cpu}. Either the scheduler held requests back or the jobs "
        "asked for no more.",
        "not the CPU": f"Under {who} the {processor} was not the bottleneck ({cpu} busy). What the "
        f"device can do is not known, so it cannot be said whether it was saturated; a request "
        f"was in flight {busy} of the time.",
        "not measured": f"Under {who} the runs were too short to measure utilisation.",
    }[kind]


def saturation(view: View) -> str:
    """Under which schedulers the device was saturated, and how much of it was used."""
    ranked = [name for name in view.schedulers if view.row(name, None, "device_utilisation")]
    full = [name for name in ranked if "device" in bottleneck(view, name).split()]
    rest = [name for name in ranked if name not in full]
    limiting = dict.fromkeys(part for name in full or rest if (part := fullest_part(view, name)))
    device = f"device (its {listed(limiting)})" if limiting else "device"
    used = _range(view, ranked, "device_utilisation")
    if not rest:
        return f"The {device} was saturated under {everyone(full, view)} ({used} used)"
    if not full:
        return f"The {device} was not saturated under {everyone(rest, view)} ({used} used)"
    return (
        f"The {device} was saturated under {listed(full)} "
        f"({_range(view, full, 'device_utilisation')} used), not under {listed(rest)} "
        f"({_range(view, rest, 'device_utilisation')})"
    )


def everyone(names: list[str], view: View) -> str:
    """The schedulers' names, or a word for all of them."""
    return "every scheduler" if names == view.schedulers and len(names) > 1 else listed(names)


def _range(view: View, names: list[str], metric: str) -> str:
    means = [
        row["mean"] * 100 for name in names if (row := view.row(name, None, metric)) is not None
    ]
    if not means:
        return ""
    low, high = f"{min(means):.0f}", f"{max(means):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"
