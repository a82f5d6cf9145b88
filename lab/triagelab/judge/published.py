# SPDX-License-Identifier: GPL-2.0-only
"""Judge published findings by our measurements: agree, disagree, not comparable or not measured.

A finding expects one scheduler's figure to be lower (<) or higher (>) than another's, not
higher (<=), not lower (>=), or the same within a tenth (=).

A finding agrees if all its expectations hold. `<` and `>` need a verdict. The others need the
interval of the ratio: `<=` needs an upper end below 1.1, `>=` a lower end above 1/1.1, and `=`
both. A finding disagrees if a verdict or an interval contradicts an expectation. If a finding
neither agrees nor disagrees, it is not comparable, because a difference may exist although no
verdict shows it. A finding is also not comparable if the job starved or completed too few requests,
or if the file of findings gives another reason (`not_comparable`). A finding is not measured if the
study has no results at its point, or does not compare its schedulers there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from triagelab.ask import experiments
from triagelab.base import tomlfile
from triagelab.base.settings import Value
from triagelab.judge import bottleneck, figures
from triagelab.judge.choices import ALIKE
from triagelab.judge.lookup import View
from triagelab.measure.statistics import HIGHER, LOWER, NOT_ENOUGH, Comparison

FILE = experiments.FOLDER / "published.toml"

AGREE = "agree"
DISAGREE = "disagree"
NOT_COMPARABLE = "not comparable"
NOT_MEASURED = "not measured"


def _above(seen: Comparison, limit: float) -> bool:
    """Return True if the whole interval of a ratio is above a limit.

    If there is no interval, compare the ratio itself. A ratio of None is above every limit, because
    its divisor is 0.
    """
    low = seen.ci95[0] if seen.ci95 else seen.ratio
    return low is None or low > limit


def _below(seen: Comparison, limit: float) -> bool:
    high = seen.ci95[1] if seen.ci95 else seen.ratio
    return high is not None and high < limit


def _higher(seen: Comparison) -> bool:
    """Return True if the verdict is HIGHER and the ratio is at least a tenth above 1."""
    return seen.verdict == HIGHER and (seen.ratio is None or seen.ratio >= ALIKE)


def _lower(seen: Comparison) -> bool:
    return seen.verdict == LOWER and seen.ratio is not None and seen.ratio <= 1 / ALIKE


#: Relation -> function that returns True if a comparison confirms the relation. In _CONTRADICTS,
#: the function returns True if the comparison contradicts the relation.
_AGREES: Mapping[str, Callable[[Comparison], bool]] = {
    "<": lambda seen: seen.verdict == LOWER,
    ">": lambda seen: seen.verdict == HIGHER,
    "<=": lambda seen: _below(seen, ALIKE),
    ">=": lambda seen: _above(seen, 1 / ALIKE),
    "=": lambda seen: _below(seen, ALIKE) and _above(seen, 1 / ALIKE),
}
_CONTRADICTS: Mapping[str, Callable[[Comparison], bool]] = {
    "<": lambda seen: seen.verdict != LOWER and _above(seen, 1 / ALIKE),
    ">": lambda seen: seen.verdict != HIGHER and _below(seen, ALIKE),
    "<=": _higher,
    ">=": _lower,
    "=": lambda seen: _higher(seen) or _lower(seen),
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
    """A publication, and the setup of its measurements."""

    title: str
    short: str
    setup: str


@dataclass(frozen=True)
class Expected:
    """The expected relation between two schedulers."""

    a: str
    relation: str
    b: str

    @staticmethod
    def parsed(text: str) -> "Expected":
        """Parse a text such as `kyber < none`. Raise ValueError for a text of another form."""
        words = text.split()
        if len(words) != 3 or words[1] not in _AGREES:
            raise ValueError(f"'{text}': expected A {' or '.join(_AGREES)} B")
        a, relation, b = words
        return Expected(a, relation, b)

    def __str__(self) -> str:
        return f"{self.a} {WORDS[self.relation]} {self.b}"


@dataclass(frozen=True)
class Finding:
    """A published finding, and the place in our study that measures it.

    source          the publication's key in the file
    where           the place of the finding in the publication
    not_comparable  the reason why the study cannot check the finding; None if the study can
    measure         the experiment of the study that checks the finding, by `metric` of `job` at the
                    point `at`
    because         the reason why our result differs, with a source; shown after "disagree"
    """

    source: str
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
    """The verdict on a published finding, with the reason, the published figures, and ours."""

    finding: Finding
    verdict: str
    why: str
    theirs: str
    ours: str


@dataclass(frozen=True)
class Published:
    """The content of a file of findings: publications by key, and the findings."""

    source: Mapping[str, Source]
    finding: tuple[Finding, ...]

    def __post_init__(self) -> None:
        for finding in self.finding:
            if finding.source not in self.source:
                raise ValueError(f"there is no [source.{finding.source}]")


tomlfile.build(Expected, str, Expected.parsed)


def load(path: Path | None = None) -> Published:
    """Load the findings from `path`, or by default from the lab's own file."""
    return tomlfile.read(path or FILE, Published)


def judge(finding: Finding, view: View | None) -> Verdict:
    """Return the verdict on a finding.

    `view` is the view of the finding's point; None means that the point was not measured.
    """
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
    names = dict.fromkeys(name for expected in finding.expects for name in (expected.a, expected.b))
    for name in names:
        if starved := view.starved(name, finding.job):
            return NOT_COMPARABLE, f"Under {name} {starved}: what it took had no end there."
    if (told := view.told(finding.job, finding.metric)) != finding.metric:
        few = f"Too few requests for {figures.name_of(finding.metric)}"
        return NOT_COMPARABLE, f"{few}: only the {figures.name_of(told)} is known."
    seen = {
        expected: view.compare(expected.a, expected.b, finding.job, finding.metric)
        for expected in finding.expects
    }
    if missing := [str(expected) for expected, found in seen.items() if found is None]:
        return NOT_MEASURED, f"nothing to tell whether {figures.listed(missing)}"
    compared = {expected: found for expected, found in seen.items() if found is not None}
    wrong = [
        f"{expected.a} is {figures.times(found)} {expected.b}, not {WORDS[expected.relation]} it"
        for expected, found in compared.items()
        if found.verdict != NOT_ENOUGH and _CONTRADICTS[expected.relation](found)
    ]
    if wrong:
        return DISAGREE, f"{figures.listed(wrong)}. {finding.because}".rstrip()
    if any(found.verdict == NOT_ENOUGH for found in compared.values()):
        return NOT_COMPARABLE, "Too few repeats to tell."
    if open_ := [
        f"{expected.a} is {figures.times(found)} {expected.b}"
        for expected, found in compared.items()
        if not _AGREES[expected.relation](found)
    ]:
        return NOT_COMPARABLE, f"The repeats do not tell: {figures.listed(open_)}."
    return AGREE, f"{figures.listed(map(str, compared))}."


def _ours(finding: Finding, view: View) -> str:
    """Return our figures for the finding's schedulers, and the bottlenecks."""
    named = dict.fromkeys(name for expected in finding.expects for name in (expected.b, expected.a))
    shown = [
        f"{name} {mean}"
        for name in view.schedulers
        if name in named and (mean := view.mean(name, finding.job, finding.metric))
    ]
    limits = dict.fromkeys(bottleneck.named(view, name) for name in view.schedulers)
    return f"{', '.join(shown)}; bottleneck: {' or '.join(limits)}" if shown else ""
