# SPDX-License-Identifier: GPL-2.0-only
"""Read the study's file: the experiments that the study measures, and the pages of its report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from triagelab.ask import experiments
from triagelab.ask.experiments import Changes, Experiment
from triagelab.base import tomlfile
from triagelab.base.settings import Value
from triagelab.base.tomlfile import Count

FILE = experiments.FOLDER / "study.toml"

#: A kind of chart -> the fields that it needs besides `kind` and `measure`.
KINDS: Mapping[str, frozenset[str]] = {
    "protection": frozenset(),
    "bars": frozenset({"metric"}),
    "cdf": frozenset({"job"}),
    "lines": frozenset({"metric", "x"}),
    "heat": frozenset({"job", "x"}),
    "grid": frozenset({"metric", "x", "y", "scheduler"}),
}


@dataclass(frozen=True)
class Measure:
    """An experiment as the study measures it. The results are in a folder called `name`.

    schedulers  None: as in the experiment
    repeats     None: as in the experiment
    vary        varied name -> the values that replace the experiment's
    """

    name: str
    experiment: str
    schedulers: tuple[str, ...] | None = None
    repeats: int | None = None
    vary: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    def found(self) -> Experiment:
        """Return the experiment with `vary` applied, but not `schedulers` and `repeats`."""
        return experiments.find(self.experiment, self.vary)


@dataclass(frozen=True)
class Chart:
    """A chart on a page.

    job   the job whose metric is shown; None: the metric is of the whole run
    at    varied name -> the one value for which the chart shows results
    """

    kind: str
    measure: str
    job: str | None = None
    metric: str | None = None
    x: str | None = None
    y: str | None = None
    scheduler: str | None = None
    at: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no kind of chart is '{self.kind}'; there are {', '.join(KINDS)}")
        if missing := [name for name in sorted(KINDS[self.kind]) if getattr(self, name) is None]:
            raise ValueError(f"a chart of {self.kind} needs {', '.join(missing)}")


@dataclass(frozen=True)
class Values:
    """A page's question: under `scheduler`, which value of the varied name `values_of` is best?"""

    measure: str
    scheduler: str
    values_of: str


@dataclass(frozen=True)
class Shares:
    """A page's question: does the job `of` get `due` times the bandwidth of the job `over`?"""

    measure: str
    of: str
    over: str
    due: Count


_Answer = Values | Shares | None
tomlfile.choose(
    _Answer, lambda given: Shares if isinstance(given, dict) and "due" in given else Values
)


@dataclass(frozen=True)
class Page:
    """A page of the report: a question, and the measures and charts that answer it.

    reproduces  the published figure or promise behind the question
    answer      a special question about one measure. For the other measures, the page judges the
                protected job, or the `judged_by` metrics
    """

    name: str
    question: str
    measures: tuple[str, ...]
    charts: tuple[Chart, ...] = ()
    reproduces: str | None = None
    answer: _Answer = None


@dataclass(frozen=True)
class Study:
    """All measures and all pages, in order."""

    measures: tuple[Measure, ...]
    pages: tuple[Page, ...]


@dataclass(frozen=True)
class _Written(Changes):
    """A measure as the study's file has it.

    The quick study applies the changes in `quick`. If `quick` is false, it omits the measure.
    """

    experiment: str | None = None
    quick: Changes | Literal[False] = field(default_factory=Changes)

    def measure(self, where: str, name: str, quick: bool) -> Measure | None:
        if quick and self.quick is False:
            return None
        fewer = self.quick if quick and self.quick else Changes()
        return Measure(
            name,
            self.experiment or name,
            fewer.schedulers or self.schedulers,
            fewer.repeats or self.repeats,
            experiments.to_vary(f"{where}: measure.{name}", fewer.vary or self.vary),
        )


tomlfile.choose(
    Changes | Literal[False], lambda given: Literal[False] if given is False else Changes
)


@dataclass(frozen=True)
class _File:
    measure: Mapping[str, _Written]
    page: tuple[Page, ...]

    def __post_init__(self) -> None:
        for page in self.page:
            asked = [page.answer] if page.answer else []
            shown = [of.measure for of in (*asked, *page.charts)]
            for name in (*page.measures, *shown):
                if name not in self.measure:
                    raise ValueError(f"page {page.name}: there is no [measure.{name}]")


def load(path: Path | None = None, *, quick: bool = False) -> Study:
    """Return the study in the file `path`; if `path` is None, the lab's own study.

    If `quick` is True, apply the changes in each measure's `quick`, and omit each measure whose
    `quick` is false.
    """
    path = path or FILE
    given = tomlfile.read(path, _File)
    found = [of.measure(str(path), name, quick) for name, of in given.measure.items()]
    return Study(tuple(measure for measure in found if measure), given.page)
