# SPDX-License-Identifier: GPL-2.0-only
"""The study: which experiments it measures, and the pages that show the results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triagelab.ask import experiments
from triagelab.ask.experiments import Experiment
from triagelab.base import tomlfile
from triagelab.base.errors import RequestError
from triagelab.base.settings import Value
from triagelab.base.tomlfile import keys, list_of, setting, table_of, text

FILE = experiments.FOLDER / "study.toml"

#: The fields that each kind of chart needs besides its measure.
KINDS: Mapping[str, frozenset[str]] = {
    "protection": frozenset(),
    "bars": frozenset({"metric"}),
    "cdf": frozenset({"job"}),
    "lines": frozenset({"metric", "x"}),
    "heat": frozenset({"job", "x"}),
    "grid": frozenset({"metric", "x", "y", "scheduler"}),
}


def _quick(where: str, given: Any) -> None:
    """The quick study's values in place of the measure's own; false: it omits the measure."""
    if given is not False:
        keys({}, experiments.CHANGES)(where, given)


_MEASURE = keys({}, {"experiment": text, **experiments.CHANGES, "quick": _quick})
_CHART = keys(
    {"kind": text, "measure": text},
    {**dict.fromkeys(("job", "metric", "x", "y", "scheduler"), text), "at": table_of(setting)},
)
#: A measure whose answer is not about its protected job or its metrics.
_VALUES = {"measure": text, "scheduler": text, "values_of": text}
_SHARES = {"measure": text, "of": text, "over": text, "due": tomlfile.count}


def _answer(where: str, given: Any) -> None:
    """An answer of one of the two kinds."""
    shares = isinstance(given, dict) and "due" in given
    keys(_SHARES if shares else _VALUES, {})(where, given)


_PAGE = keys(
    {"name": text, "question": text, "measures": list_of(text)},
    {"reproduces": text, "charts": list_of(_CHART), "answer": _answer},
)


@dataclass(frozen=True)
class Measure:
    """An experiment as the study measures it, in a folder called `name`.

    schedulers  None: as in the experiment
    repeats     None: as in the experiment
    vary        values that replace the experiment's
    """

    name: str
    experiment: str
    schedulers: tuple[str, ...] | None = None
    repeats: int | None = None
    vary: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    def found(self) -> Experiment:
        """Return the experiment, with this measure's values."""
        return experiments.find(self.experiment, self.vary)


@dataclass(frozen=True)
class Chart:
    """A chart on a page.

    job   None: a metric of the whole run
    at    varied names and the values that the chart shows, if not all of them
    """

    kind: str
    measure: str
    job: str | None = None
    metric: str | None = None
    x: str | None = None
    y: str | None = None
    scheduler: str | None = None
    at: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Values:
    """A question about the values of a varied name, under one scheduler: which to choose."""

    measure: str
    scheduler: str
    values_of: str


@dataclass(frozen=True)
class Shares:
    """A question about shares: has job `of` its `due` multiple of the bandwidth of job `over`?"""

    measure: str
    of: str
    over: str
    due: int


@dataclass(frozen=True)
class Page:
    """A question, its measures and charts, and the published figure or promise behind it.

    answer  None: each measure's answer is about its protected job or its metrics
    """

    name: str
    question: str
    measures: tuple[str, ...]
    charts: tuple[Chart, ...]
    reproduces: str | None = None
    answer: Values | Shares | None = None


@dataclass(frozen=True)
class Study:
    """All measures and all pages, in order."""

    measures: tuple[Measure, ...]
    pages: tuple[Page, ...]


def load(path: Path | None = None, *, quick: bool = False) -> Study:
    """Load our study, or one from a file; `quick` applies its reductions."""
    path = path or FILE
    given = tomlfile.read(path, {"measure": table_of(_MEASURE), "page": list_of(_PAGE)}, {})
    found = [_measure(path, name, values, quick) for name, values in given["measure"].items()]
    try:
        pages = tuple(_page(values, set(given["measure"])) for values in given["page"])
    except ValueError as error:
        raise RequestError(f"{path}: {error}") from error
    return Study(tuple(measure for measure in found if measure), pages)


def _measure(where: Path, name: str, given: Mapping[str, Any], quick: bool) -> Measure | None:
    values = {key: value for key, value in given.items() if key != "quick"}
    if quick:
        changes = given.get("quick", {})
        if changes is False:
            return None
        values |= changes
    schedulers = values.get("schedulers")
    return Measure(
        name,
        values.get("experiment", name),
        tuple(schedulers) if schedulers else None,
        values.get("repeats"),
        experiments.to_vary(f"{where}: measure.{name}", values.get("vary", {})),
    )


def _page(given: Mapping[str, Any], measures: set[str]) -> Page:
    where = f"page {given['name']}"
    page = Page(
        given["name"],
        given["question"],
        tuple(given["measures"]),
        tuple(_chart(values, where) for values in given.get("charts", [])),
        given.get("reproduces"),
        _asked(given["answer"]) if "answer" in given else None,
    )
    asked = [page.answer.measure] if page.answer else []
    for name in (*page.measures, *asked, *(chart.measure for chart in page.charts)):
        if name not in measures:
            raise ValueError(f"{where}: there is no [measure.{name}]")
    return page


def _asked(given: Mapping[str, Any]) -> Values | Shares:
    return Shares(**given) if "due" in given else Values(**given)


def _chart(given: Mapping[str, Any], where: str) -> Chart:
    kind = given["kind"]
    if kind not in KINDS:
        raise ValueError(f"{where}: no kind of chart is '{kind}'; there are {', '.join(KINDS)}")
    if missing := KINDS[kind] - given.keys():
        raise ValueError(f"{where}: a chart of {kind} needs {', '.join(sorted(missing))}")
    return Chart(**given)
