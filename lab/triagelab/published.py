# SPDX-License-Identifier: GPL-2.0-only
"""What others have published, beside what was measured here: agree, disagree, or why neither.

A finding expects that one scheduler's mean is lower (<) or higher (>) than another's,
not higher (<=) or not lower (>=), or about the same (=). It agrees if all it expects is
so: `<` and `>` where the verdict says so, `=` where no difference was seen or the means
are less than a tenth apart. It disagrees if any of it is not so.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from triagelab import bottleneck, experiments, figures
from triagelab.errors import LabError
from triagelab.lookup import View
from triagelab.settings import Value
from triagelab.statistics import HIGHER, LOWER, NO_DIFFERENCE, NOT_ENOUGH, Comparison

FILE = experiments.FOLDER / "published.toml"

AGREE = "agree"
DISAGREE = "disagree"
NOT_COMPARABLE = "not comparable"
NOT_MEASURED = "not measured"

_ALIKE = 1.1  # times: a tenth more or less is about the same

#: Whether what was seen is what was expected.
_HOLDS: Mapping[str, Callable[[Comparison], bool]] = {
    "<": lambda seen: seen.verdict == LOWER,
    ">": lambda seen: seen.verdict == HIGHER,
    "<=": lambda seen: seen.verdict != HIGHER,
    ">=": lambda seen: seen.verdict != LOWER,
    "=": lambda seen: (
        seen.verdict == NO_DIFFERENCE
        or (seen.ratio is not None and 1 / _ALIKE < seen.ratio < _ALIKE)
    ),
}
WORDS = {
    "<": "lower than",
    ">": "higher than",
    "<=": "not higher than",
    ">=": "not lower than",
    "=": "about the same as",
}


@dataclass(frozen=True)
class Source:
    """A publication, and what was measured in it."""

    title: str
    short: str
    setup: str


@dataclass(frozen=True)
class Expected:
    """How one scheduler should stand to another."""

    a: str
    relation: str
    b: str

    @staticmethod
    def parsed(text: str) -> "Expected":
        """`kyber < none`; ValueError where it is something else."""
        a, relation, b = text.split()
        if relation not in _HOLDS:
            raise ValueError(f"'{text}': expected one of {' '.join(_HOLDS)}")
        return Expected(a, relation, b)

    def __str__(self) -> str:
        return f"{self.a} {WORDS[self.relation]} {self.b}"


@dataclass(frozen=True)
class Finding:
    """A published finding; `measure` and what follows say where the study measures it.

    because     why ours differs, and what measures that; told where it does
    """

    source: Source
    where: str
    says: str
    figures: Mapping[str, float] = field(default_factory=dict)
    unit: str = ""
    not_comparable: str | None = None
    measure: str | None = None
    at: Mapping[str, Value] = field(default_factory=dict)
    job: str | None = None
    metric: str = ""
    expects: tuple[Expected, ...] = ()
    because: str = ""


@dataclass(frozen=True)
class Verdict:
    """A finding beside what was measured here."""

    finding: Finding
    verdict: str
    why: str
    theirs: str
    ours: str


def load(path: Path | None = None) -> list[Finding]:
    """The findings of our file, or another."""
    path = path or FILE
    try:
        given = tomllib.loads(path.read_text())
        sources = {name: Source(**values) for name, values in given["source"].items()}
        return [
            Finding(
                **values
                | {
                    "source": sources[values["source"]],
                    "expects": tuple(map(Expected.parsed, values.get("expects", ()))),
                }
            )
            for values in given["finding"]
        ]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise LabError(f"{path}: {error}") from error


def judge(finding: Finding, view: View | None) -> Verdict:
    """Whether what was measured at the finding's point is as was published."""
    theirs = ", ".join(f"{name} {value:g}" for name, value in finding.figures.items())
    if finding.unit and theirs:
        theirs += f" {finding.unit}"
    if finding.not_comparable:
        return Verdict(finding, NOT_COMPARABLE, finding.not_comparable, theirs, "")
    if view is None:
        return Verdict(finding, NOT_MEASURED, "", theirs, "")
    verdict, why = _verdict(finding, view)
    return Verdict(finding, verdict, why, theirs, _ours(finding, view))


def _verdict(finding: Finding, view: View) -> tuple[str, str]:
    seen = {
        expected: view.compare(expected.a, expected.b, finding.job, finding.metric)
        for expected in finding.expects
    }
    if missing := [str(expected) for expected, found in seen.items() if found is None]:
        return NOT_MEASURED, f"nothing to tell whether {figures.listed(missing)}"
    names = dict.fromkeys(name for expected in seen for name in (expected.a, expected.b))
    for name in names:
        if starved := view.starved(name, finding.job, finding.metric):
            return NOT_COMPARABLE, f"Under {name} {starved}: what it took had no end there."
    compared = {expected: found for expected, found in seen.items() if found is not None}
    wrong = [
        f"{expected.a} is {figures.times(found)} {expected.b}, not {WORDS[expected.relation]} it"
        for expected, found in compared.items()
        if found.verdict != NOT_ENOUGH and not _HOLDS[expected.relation](found)
    ]
    if wrong:
        return DISAGREE, f"{figures.listed(wrong)}. {finding.because}".rstrip()
    if any(found.verdict == NOT_ENOUGH for found in compared.values()):
        return NOT_COMPARABLE, "Too few repeats to tell."
    return AGREE, f"{figures.listed(map(str, compared))}."


def _ours(finding: Finding, view: View) -> str:
    """The figures of the schedulers that the finding is about, and what was the limit."""
    named = dict.fromkeys(name for expected in finding.expects for name in (expected.b, expected.a))
    shown = [
        f"{name} {mean}"
        for name in view.schedulers
        if name in named and (mean := view.mean(name, finding.job, finding.metric))
    ]
    limits = dict.fromkeys(bottleneck.named(view, name) for name in view.schedulers)
    return f"{', '.join(shown)}; bottleneck: {' or '.join(limits)}" if shown else ""
