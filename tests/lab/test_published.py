# SPDX-License-Identifier: GPL-2.0-only
"""Tests of published findings: verdicts follow a rule, and published.toml fits the study."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from triagelab.ask import experiments, study
from triagelab.base import metrics
from triagelab.base.errors import LabError
from triagelab.judge import figures, published
from triagelab.judge.lookup import View
from triagelab.judge.published import (
    AGREE,
    DISAGREE,
    NOT_COMPARABLE,
    NOT_MEASURED,
    Expected,
    Finding,
)
from triagelab.measure.statistics import REPEATS_FOR_VERDICT, Comparison, compare, judged

OURS = published.load().finding


def seen(*ratios: float) -> Comparison:
    """Return a comparison with these ratios of repeats, judged as the only one of its report."""
    ratio = compare(dict(enumerate(ratios)), dict.fromkeys(range(len(ratios)), 1.0))
    assert ratio
    (found,) = judged([ratio])
    return found


LOW, HIGH, SAME = (
    seen(*(value + repeat / 1000 for repeat in range(5))) for value in (0.5, 2.0, 1.05)
)
WIDE = seen(0.5, 1.0, 2.0, 0.8, 1.2)
FEW = seen(0.5, 0.5)


class Seen:
    """A stand-in for a View. Each of its comparisons is `found`."""

    schedulers = ("a", "b")

    def __init__(self, found: Comparison | None, nothing: str = "", metric: str = "") -> None:
        self.found = found
        self.nothing = nothing
        self.metric = metric

    def compare(self, *_: object) -> Comparison | None:
        return self.found

    def row(self, name: str, job: str | None, metric: str) -> dict[str, Any] | None:
        if metric in ("cpu_utilisation", "device_utilisation"):
            return {"mean": 0.95, "unit": "1"}
        return {"mean": 2000.0, "unit": "µs"}

    def mean(self, name: str, job: str | None, metric: str) -> str:
        return figures.quantity(2000.0, "µs")

    def starved(self, name: str, job: str | None) -> str:
        return self.nothing if name == "b" else ""

    def told(self, job: str | None, metric: str) -> str:
        return self.metric or metric


def finding(*expects: str) -> Finding:
    figures = {"a": 1.5, "b": 20}
    wanted = tuple(map(Expected.parsed, expects))
    return Finding(
        "source", "figure 1", "so", figures, "µs", None, "m", {}, "job", "p99_us", wanted
    )


def verdict(relation: str, found: Comparison | None) -> str:
    view = cast(View, Seen(found))
    return published.judge(finding(f"a {relation} b"), view).verdict


@pytest.mark.parametrize(
    ("relation", "low", "high", "same"),
    [
        ("<", AGREE, DISAGREE, DISAGREE),
        (">", DISAGREE, AGREE, AGREE),  # SAME is 5 % higher in each repeat: a visible difference
        ("<=", AGREE, DISAGREE, AGREE),  # a difference of 5 % counts as about equal
        (">=", DISAGREE, AGREE, AGREE),
        ("=", DISAGREE, DISAGREE, AGREE),
    ],
)
def test_the_rule(relation: str, low: str, high: str, same: str) -> None:
    assert [verdict(relation, found) for found in (LOW, HIGH, SAME)] == [low, high, same]
    assert verdict(relation, FEW) == NOT_COMPARABLE, "two repeats are too few to compare"
    assert verdict(relation, WIDE) == NOT_COMPARABLE, (
        "a difference that is not seen may still be there"
    )
    assert verdict(relation, None) == NOT_MEASURED


def test_a_verdict_says_why_and_shows_both_sides() -> None:
    verdict = published.judge(finding("a = b", "a < b"), cast(View, Seen(HIGH)))
    assert verdict.verdict == DISAGREE
    assert verdict.why.startswith("a is 2.00\u00a0× [")
    assert verdict.why.endswith("b, not lower than it.")
    assert verdict.theirs == "a 1.5, b 20 µs"
    assert verdict.ours == "a 2.00\u00a0ms, b 2.00\u00a0ms; bottleneck: device and CPU"


def test_a_disagreement_says_the_reason_where_one_is_known() -> None:
    made = replace(finding("a < b"), because="The lab has one CPU.")
    assert published.judge(made, cast(View, Seen(HIGH))).why.endswith("it. The lab has one CPU.")
    assert "one CPU" not in published.judge(made, cast(View, Seen(LOW))).why


def test_latencies_of_some_repeats_alone_are_not_compared() -> None:
    nothing = "nothing completed in 2 of 5 repeats"
    verdict = published.judge(finding("a < b"), cast(View, Seen(LOW, nothing)))
    assert verdict.verdict == NOT_COMPARABLE
    assert f"Under b {nothing}" in verdict.why


def test_a_percentile_of_too_few_requests_is_not_compared() -> None:
    verdict = published.judge(finding("a < b"), cast(View, Seen(LOW, metric="max_us")))
    assert verdict.verdict == NOT_COMPARABLE
    assert verdict.why == "Too few requests for P99 latency: only the maximum latency is known."


def test_what_cannot_be_compared_says_so() -> None:
    made = replace(finding("a < b"), not_comparable="another kernel")
    verdict = published.judge(made, cast(View, Seen(LOW)))
    assert (verdict.verdict, verdict.why) == (NOT_COMPARABLE, "another kernel")
    assert published.judge(finding("a < b"), None).verdict == NOT_MEASURED


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('expects=["a ~ b"]', "expects, item 1, 'a ~ b': expected A < or > or <= or >= or = B"),
        ('expects=["a <"]', "'a <': expected A <"),
        ("expects=[5]", "finding, item 1.expects, item 1, must be a text, not 5"),
        ('figures={none="1"}', 'finding, item 1.figures.none must be a number, not "1"'),
        ("figures={none=true}", "finding, item 1.figures.none must be a number, not true"),
        ("unit=1\nmetric=2", "finding, item 1.metric must be a text, not 2"),
        ("[[finding]]", "finding, item 2: missing: says, source, where"),
        ('[[finding]]\nsource="r"\nwhere="w"\nsays="x"', "there is no [source.r]"),
    ],
)
def test_a_finding_that_makes_no_sense_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "published.toml"
    path.write_text(
        f'[source.s]\ntitle="t"\nshort="s"\nsetup="u"\n'
        f'[[finding]]\nsource="s"\nwhere="w"\nsays="x"\n{text}\n'
    )
    with pytest.raises(LabError) as error:
        published.load(path)
    assert told in str(error.value)


@pytest.mark.parametrize("finding", OURS, ids=lambda f: f"{f.where}-{f.metric}")
def test_our_findings_are_about_what_the_study_measures(finding: Finding) -> None:
    if finding.measure is None:
        assert not finding.expects
        return
    measures = {measure.name: measure for measure in study.load().measures}
    assert finding.measure in measures
    measure = measures[finding.measure]
    assert (measure.repeats or measure.found().repeats) >= REPEATS_FOR_VERDICT
    assert finding.expects
    assert metrics.known(finding.metric)
    varied = measure.vary
    for name, value in finding.at.items():
        assert value in varied.get(name, [value])
    named = {name for expected in finding.expects for name in (expected.a, expected.b)}
    assert named <= set(experiments.all_schedulers())


@pytest.mark.parametrize("finding", OURS, ids=lambda f: f"{f.where}-{f.metric}")
def test_our_findings_expect_what_their_figures_say(finding: Finding) -> None:
    for expected in finding.expects:
        if not {expected.a, expected.b} <= finding.figures.keys():
            continue
        ratio = finding.figures[expected.a] / finding.figures[expected.b]
        if finding.metric == "total_iops" or finding.unit in ("µs", "% of CPU time"):
            holds = {"<": ratio < 1, ">": ratio > 1, "=": 0.9 < ratio < 1.1}
            assert holds[expected.relation], str(expected)
