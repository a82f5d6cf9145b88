# SPDX-License-Identifier: GPL-2.0-only
"""Tests that sentences match the figures, and claim no difference without a verdict."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from triagelab.judge import choices, findings, lookup
from triagelab.judge.answers import Answer
from triagelab.judge.choices import Choice
from triagelab.judge.figures import digits, percent, share
from triagelab.judge.findings import title
from triagelab.judge.lookup import View
from triagelab.measure import samples, summary
from triagelab.measure.statistics import HIGHER, Comparison
from triagelab.run import records

from tests.lab import rundirs
from tests.lab.measured import case, plain
from tests.lab.rundirs import Bench, Load

STUDY = dataclasses.replace(rundirs.STUDY, seconds=1.0)


def view(tmp_path: Path, bench: Bench = STUDY) -> View:
    out = rundirs.make(tmp_path / "out", bench)
    environment = records.read_environment(out)
    result = summary.summarise(samples.collect(out), environment)
    (found,) = lookup.views(result, environment)
    return found


def test_headline_is_a_choice_and_its_price(tmp_path: Path) -> None:
    """prio-basic is chosen: bfq has a lower latency, but slows the backup down to a sixth."""
    answer = findings.answer(view(tmp_path))
    headline = plain(answer.headline)
    assert headline.startswith("Choose prio-basic: database_sim's P99 latency is ")
    assert "× what it is alone" in headline
    assert "what it is under none (" in headline
    assert "backup_sim keeps 58" in headline
    assert re.search(
        r"; also worth choosing: bfq \(\d+ µs, backup_sim keeps 1\d\.\d %\); none keeps ", headline
    )
    assert headline.endswith(" ms for database_sim.")
    others = {detail.split(":")[0]: detail for detail in answer.details}
    assert list(others) == ["mq-deadline", "kyber", "bfq"]
    assert "(higher)" in others["mq-deadline"]
    assert others["mq-deadline"].endswith("; not worth choosing beside none.")
    assert others["kyber"].endswith("; not worth choosing beside none.")
    assert "(lower)" in others["bfq"]
    assert "not worth" not in others["bfq"]


def choice(tmp_path: Path, **loads: tuple[float, float]) -> Choice | None:
    """Return the choice. `loads`: scheduler -> the database's latency in µs, the backup's IOPS."""
    made = {
        name: {"database_sim": Load(300, latency), "backup_sim": Load(kept, 3000, bs=131072)}
        for name, (latency, kept) in loads.items()
    }
    return choices.choose([view(tmp_path, dataclasses.replace(STUDY, loads=made))])


def test_a_scheduler_that_another_beats_is_not_worth_choosing(tmp_path: Path) -> None:
    found = choice(
        tmp_path,
        none=(3000, 9000),
        best=(200, 6000),
        beaten=(200, 3000),  # an equal latency at a higher cost
        cheap=(1000, 8000),
        pointless=(2900, 8900),  # hardly a gain: less than a tenth
        worse=(6000, 9000),
    )
    assert found
    assert found.best == ["best"]
    assert found.worth == ["best", "cheap", "none"]
    assert found.beaten == {"beaten": "best", "pointless": "cheap", "worse": "none"}


def test_equals_are_chosen_together(tmp_path: Path) -> None:
    found = choice(tmp_path, none=(3000, 9000), x=(200, 6000), y=(200, 6000))
    assert found and set(found.best) == set(found.worth[:2])
    assert set(found.best) == {"x", "y"}


def test_all_points_of_a_matrix_are_chosen_for_together(tmp_path: Path) -> None:
    """A scheduler must be good at all points to be chosen, or to beat another one.

    At the second point, prio-basic is slow, and bfq is slower than `late`.
    """

    def at(point: rundirs.Record, scheduler: str, job: str, load: Load) -> Load:
        if job == "database_sim" and point["n"] == 2:
            failing = {"prio-basic": 2500.0, "late": 80.0}
            return dataclasses.replace(load, median_us=failing.get(scheduler, load.median_us))
        return load

    loads = {name: STUDY.loads[name] for name in ("none", "bfq", "prio-basic")}
    bfq = STUDY.loads["bfq"]
    worse = dataclasses.replace(bfq["database_sim"], median_us=150.0)
    loads["late"] = bfq | {"database_sim": worse}  # bfq beats `late` only at the first point
    bench = dataclasses.replace(STUDY, loads=loads, at=at, points=({"n": 1}, {"n": 2}))
    views = case(tmp_path, bench).views
    first, both = choices.choose(views[:1]), choices.choose(views)
    assert first and first.best == ["prio-basic"]
    assert both and "prio-basic" not in both.best
    assert first.beaten["late"] == "bfq"
    assert "late" not in both.beaten
    answer = findings.overall(views)
    assert answer and answer.headline.startswith(f"Choose {' or '.join(both.best)}: at")


def test_comparisons_read_either_way(tmp_path: Path) -> None:
    found = view(tmp_path)
    forth = found.compare("bfq", "none", "database_sim", "p99_us")
    back = found.compare("none", "bfq", "database_sim", "p99_us")
    assert forth and back and forth.ratio and back.ratio
    assert (forth.verdict, back.verdict) == ("lower", "higher")
    assert forth.ratio < 1
    assert back.ratio == pytest.approx(1 / forth.ratio)


def test_nobody_protects(tmp_path: Path) -> None:
    loads = {name: STUDY.loads[name] for name in ("none", "mq-deadline")}
    answer = findings.answer(view(tmp_path, dataclasses.replace(STUDY, loads=loads)))
    assert answer.headline.startswith(
        "No scheduler was seen to be worth choosing over none for database_sim: under none its "
    )
    assert [detail.split(":")[0] for detail in answer.details] == ["mq-deadline"]


def test_starved_job_is_said_to_be(tmp_path: Path) -> None:
    starved = {"database_sim": Load(0, 100), "backup_sim": Load(9000, 3000)}
    loads = {"none": STUDY.loads["none"], "bad": starved, "bfq": STUDY.loads["bfq"]}
    answer = findings.answer(view(tmp_path, dataclasses.replace(STUDY, loads=loads)))
    assert answer.details[0].startswith(
        "bad: nothing completed in 5 of 5 repeats; backup_sim keeps"
    )


def test_who_starves_the_job_in_some_repeats_does_not_protect_it(tmp_path: Path) -> None:
    """bfq starves the job in 2 repeats. A lower P99 in the others does not count for bfq."""
    loads = {name: STUDY.loads[name] for name in ("none", "kyber", "bfq")}
    bench = dataclasses.replace(STUDY, loads=loads)
    starved = view(tmp_path, dataclasses.replace(bench, starved=(("bfq", 0), ("bfq", 3))))
    under = "nothing completed in 2 of 5 repeats"
    assert starved.ranked("database_sim", "p99_us")[-1] == "bfq"
    assert starved.ranked("database_sim", "iops")[0] == "bfq"
    assert starved.protectors() == []
    for metric in ("p99_us", "iops", "cpu_s"):
        seen = starved.compare("bfq", "none", "database_sim", metric)
        assert seen and (seen.ratio, seen.verdict) == (None, f"{under} under bfq")
    answer = findings.answer(starved)
    assert answer.headline.startswith("No scheduler was seen to be worth choosing over none")
    assert answer.details[1].startswith("bfq: P99 latency ")
    assert f"({under})" in answer.details[1]
    assert "of none (lower" not in answer.details[1]
    assert answer.details[1].endswith("; not worth choosing.")
    assert len(answer.details) == 2, "no remark on too few repeats: there are five"
    said = title(starved, "database_sim", "p99_us")
    assert re.search(rf"highest under bfq \(\d+\sµs; {under}\)$", said)
    assert under in title(starved, "database_sim", "iops")


def test_where_none_starves_the_job_the_headline_says_so(tmp_path: Path) -> None:
    loads = {name: STUDY.loads[name] for name in ("none", "bfq")}
    bench = dataclasses.replace(STUDY, loads=loads)
    answer = findings.answer(view(tmp_path, dataclasses.replace(bench, starved=(("none", 1),))))
    assert "(nothing completed in 1 of 5 repeats under none)" in answer.headline
    loads = {"none": STUDY.loads["none"]}
    bench = dataclasses.replace(bench, loads=loads, starved=(("none", 1),))
    answer = findings.answer(view(tmp_path / "one", bench))
    assert "] (nothing completed in 1 of 5 repeats), " in answer.headline


def test_a_background_that_starves_keeps_what_it_has(tmp_path: Path) -> None:
    """The headline says what share the background keeps, and in how many repeats it starved."""
    loads = {"none": STUDY.loads["none"], "bfq": STUDY.loads["bfq"]}
    bench = dataclasses.replace(
        STUDY, loads=loads, protected="backup_sim", background=("database_sim",), alone=None,
        starved=(("bfq", 2),),
    )  # fmt: skip
    found = view(tmp_path, bench)
    assert found.starved("bfq", "backup_sim")
    turned = dataclasses.replace(bench, protected="database_sim", background=("backup_sim",))
    out = tmp_path / "out"
    environment = records.read_environment(out)
    environment |= {"protected": turned.protected, "background": list(turned.background)}
    (other,) = lookup.views(summary.summarise(samples.collect(out), environment), environment)
    kept = other.kept("bfq", "backup_sim")
    row, base = (other.row(name, "backup_sim", "bytes_per_s") for name in ("bfq", "none"))
    assert row and base
    assert kept == row["mean"] / base["mean"]
    said = findings.answer(other).headline
    assert "% (nothing completed in 1 of 5 repeats under bfq)" in said


def test_a_percentile_of_too_few_requests_is_called_the_maximum(tmp_path: Path) -> None:
    """mq-deadline's 90 requests are too few for P99, so all schedulers are compared by maximum."""
    loads = {name: STUDY.loads[name] for name in ("none", "mq-deadline", "bfq")}
    few = view(tmp_path, dataclasses.replace(STUDY, loads=loads, seconds=0.5))
    assert few.tail("database_sim") == "max_us"
    assert few.tail("backup_sim") == "p99_us"
    assert few.row("mq-deadline", "database_sim", "p99_us") is None
    headline = findings.answer(few).headline
    assert headline.startswith("Choose bfq: database_sim's maximum latency is ")
    assert "P99" not in headline


@pytest.mark.parametrize("repeats", [1, 2, 4])
def test_few_repeats_choose_by_their_means_and_say_so(tmp_path: Path, repeats: int) -> None:
    """bfq has the lowest latency, but prio-basic leaves the backup more of its throughput."""
    found = view(tmp_path, dataclasses.replace(STUDY, repeats=repeats))
    answer = findings.answer(found)
    assert answer.headline.startswith("Too few repeats to tell; by the means: choose prio-basic: ")
    assert "; also worth choosing: bfq (" in answer.headline
    assert "too few to tell whether a difference is chance" in answer.details[-1]
    assert not found.protectors()


@pytest.mark.parametrize("starving", ["bfq", "none"])
def test_the_means_choose_nobody_who_starves_the_job(tmp_path: Path, starving: str) -> None:
    """With one repeat, the job has no mean latency under a scheduler that starves it."""
    stuck = STUDY.loads[starving] | {"database_sim": Load(0, 100)}
    bench = dataclasses.replace(STUDY, loads=STUDY.loads | {starving: stuck}, repeats=1)
    found = choices.choose([view(tmp_path, bench)])
    assert found and found.by_means
    assert found.best == ["prio-basic"]
    assert found.starving == [starving]
    assert starving not in found.worth


def test_a_run_that_failed_takes_no_verdict_from_the_others(tmp_path: Path) -> None:
    """kyber has four repeats of five. The others are judged, and kyber is not compared."""
    answer = findings.answer(view(tmp_path, dataclasses.replace(STUDY, failed=(("kyber", 0),))))
    assert answer.headline.startswith("Choose prio-basic: ")


def test_a_failed_run_is_judged_by_no_verdict_that_the_baseline_starved(tmp_path: Path) -> None:
    """If `none` starves the job, comparisons with `none` say so in place of a verdict.

    The comparison of kyber, which lacks a repeat, says so too. The lab must not take this text for
    a verdict on kyber.
    """
    starved, failed = (("none", 2),), (("kyber", 0),)
    found = choices.choose([view(tmp_path, dataclasses.replace(STUDY, starved=starved))])
    assert found and not found.by_means and "kyber" in found.worth
    bench = dataclasses.replace(STUDY, starved=starved, failed=failed)
    less = choices.choose([view(tmp_path / "less", bench)])
    assert less and not less.by_means
    assert "kyber" not in (*less.worth, *less.beaten)
    assert less.best == found.best == ["prio-basic"]


def test_repeats_that_do_not_pair_are_too_few(tmp_path: Path) -> None:
    """Two schedulers have five repeats of six each, but only four repeats in common."""
    loads = {name: STUDY.loads[name] for name in ("none", "bfq")}
    bench = dataclasses.replace(STUDY, loads=loads, repeats=6, failed=(("none", 0), ("bfq", 1)))
    answer = findings.answer(view(tmp_path, bench))
    assert answer.headline.startswith("Too few repeats to tell; by the means: choose bfq: ")


def test_without_a_pair_a_choice_tells_both_figures_and_the_cost(tmp_path: Path) -> None:
    loads = {name: STUDY.loads[name] for name in ("none", "bfq")}
    bench = dataclasses.replace(STUDY, loads=loads, repeats=2, failed=(("none", 0), ("bfq", 1)))
    headline = plain(findings.answer(view(tmp_path, bench)).headline)
    assert re.search(
        rf", and {MS} under none; backup_sim keeps [\d.]+ % of its throughput", headline
    )


def test_over_points_one_scheduler_is_not_compared(tmp_path: Path) -> None:
    views = several(tmp_path, repeats=2, loads={"none": STUDY.loads["none"]})
    answer = findings.overall(views)
    assert answer
    assert answer.headline.startswith(
        "Only none was measured, so database_sim is not compared; at "
    )


def test_without_a_choice_the_best_is_one_that_every_point_has(tmp_path: Path) -> None:
    """bfq is quick where it was measured, but it was not measured at the hardest point."""
    views = several(tmp_path, loads={name: STUDY.loads[name] for name in ("none", "bfq")})
    views[2].schedulers.remove("bfq")
    del views[2].repeats_of["bfq"]
    answer = findings.overall(views)
    assert answer
    assert "P99 latency under none is " in answer.headline


def test_without_the_baselines_repeats_the_means_decide(tmp_path: Path) -> None:
    answer = findings.answer(view(tmp_path, dataclasses.replace(STUDY, failed=(("none", 0),))))
    assert answer.headline.startswith("Too few repeats to tell; by the means: choose prio-basic: ")


def test_repeats_without_a_pair_are_compared_by_their_means(tmp_path: Path) -> None:
    """bfq and none share no repeat. bfq slows the backup down to a sixth, so it is not chosen."""
    failed = (("bfq", 2), ("bfq", 3), ("none", 0), ("none", 1))
    bench = dataclasses.replace(STUDY, repeats=4, failed=failed)
    answer = findings.answer(view(tmp_path, bench))
    assert answer.headline.startswith("Too few repeats to tell; by the means: choose prio-basic: ")


def test_if_no_scheduler_is_worth_it_few_repeats_only_seem_to_say_so(tmp_path: Path) -> None:
    loads = {name: STUDY.loads[name] for name in ("none", "kyber")}
    few = findings.answer(
        view(tmp_path / "few", dataclasses.replace(STUDY, loads=loads, repeats=2))
    )
    assert few.headline.startswith(
        "Too few repeats to tell; by the means: no scheduler seems worth choosing over none for "
    )
    many = findings.answer(view(tmp_path / "many", dataclasses.replace(STUDY, loads=loads)))
    assert many.headline.startswith("No scheduler was seen to be worth choosing over none for ")


def test_a_winner_that_is_worth_choosing_is_named(tmp_path: Path) -> None:
    found = choice(
        tmp_path, none=(3000, 9000), poor=(900, 5000), fair=(600, 6000), good=(300, 7000)
    )
    assert found and found.worth[0] == "good"
    assert found.beaten == {"poor": "good", "fair": "good"}


def test_a_scheduler_that_a_point_lacks_is_said_to_be_missing_there(tmp_path: Path) -> None:
    views = several(tmp_path)
    views[1].schedulers.remove("mq-deadline")
    answer = findings.overall(views)
    assert answer
    (told,) = (detail for detail in answer.details if detail.startswith("mq-deadline: "))
    assert "; not measured at t_apps = 4" in told


def test_a_share_of_many_times_is_no_percentage() -> None:
    assert plain(percent(0.0041)) == "0.410 %"
    assert plain(percent(9.99)) == "999 %"
    assert plain(percent(6026.54)) == "6 027 ×"
    assert plain(share(Comparison(20.0, (10.0, 40.0), 5, HIGHER))) == "20.0 × [10.0, 40.0]"


def test_without_a_protected_job_each_job_is_summed_up(tmp_path: Path) -> None:
    bench = dataclasses.replace(STUDY, protected=None, background=(), alone=None)
    headline = plain(findings.answer(view(tmp_path, bench)).headline)
    assert "database_sim: P99 latency is lowest under bfq" in headline
    assert "backup_sim: P99 latency is lowest under " in headline


def test_one_scheduler_is_not_compared(tmp_path: Path) -> None:
    loads = {"kyber": STUDY.loads["kyber"]}
    answer = findings.answer(view(tmp_path, dataclasses.replace(STUDY, loads=loads, alone=None)))
    assert answer.headline.startswith("Only kyber was measured")
    assert answer.details == []


def test_titles_call_equal_what_no_verdict_parts(tmp_path: Path) -> None:
    loads = dict.fromkeys(("none", "kyber"), STUDY.loads["kyber"])
    bench = dataclasses.replace(STUDY, loads=loads, noise=0.3)
    assert "no difference between schedulers" in title(
        view(tmp_path, bench), "backup_sim", "p99_us"
    )


# ---- several points -------------------------------------------------------------


def several(tmp_path: Path, **changes: Any) -> list[View]:
    bench = dataclasses.replace(
        STUDY,
        points=({"t_apps": 1}, {"t_apps": 4}, {"t_apps": 16}),
        **{
            "loads": {name: STUDY.loads[name] for name in ("none", "mq-deadline", "bfq")},
            "at": rundirs.beside,
            **changes,
        },
    )
    out = rundirs.make(tmp_path / "out", bench)
    environment = records.read_environment(out)
    return lookup.views(summary.summarise(samples.collect(out), environment), environment)


def test_overall_answer_is_the_worst_point(tmp_path: Path) -> None:
    views = several(tmp_path)
    answer = findings.overall(views)
    assert answer
    ratios = []
    for found in views:
        row, alone = found.row("bfq", "database_sim", "p99_us"), found.alone("p99_us")
        assert row and alone
        ratios.append(row["mean"] / alone["mean"])
    headline = plain(answer.headline)
    assert headline.startswith(
        "Choose bfq: at the worst of 3 points database_sim's P99 latency under bfq is "
        f"{plain(digits(max(ratios)))} × what it is alone, under none "
    )
    kept = [found.compare("bfq", "none", "backup_sim", "bytes_per_s") for found in views]
    least = min(compared.ratio for compared in kept if compared and compared.ratio)
    assert f"under bfq backup_sim keeps at least {digits(100 * least)} % of its" in headline
    assert [detail.split(":")[0] for detail in answer.details] == ["bfq", "none", "mq-deadline"]
    assert "at t_apps = 16" in answer.details[1]
    assert "keeps" not in answer.details[1]  # a line about none: shares are relative to none


def slow_at_last(point: dict[str, Any], scheduler: str, job: str, load: Load) -> Load:
    """At t_apps = 16 mq-deadline completes 60 requests of the database, too few for a P99."""
    if point["t_apps"] == 16 and (scheduler, job) == ("mq-deadline", "database_sim"):
        load = dataclasses.replace(load, iops=20)
    return rundirs.beside(point, scheduler, job, load)


def test_only_a_point_of_few_requests_is_compared_by_the_maximum(tmp_path: Path) -> None:
    views = several(tmp_path, at=slow_at_last)
    assert [found.tail("database_sim") for found in views] == ["p99_us", "p99_us", "max_us"]
    answer = findings.overall(views)
    assert answer
    levels = []
    for found in views:
        tail = found.tail("database_sim")
        row, alone = found.row("none", "database_sim", tail), found.alone(tail)
        assert row and alone
        levels.append(row["mean"] / alone["mean"])
    headline = plain(answer.headline)
    assert "P99 latency (the maximum, where requests are too few) under bfq" in headline
    assert f"under none {plain(digits(max(levels)))} × what it is alone" in headline


def test_without_the_job_alone_all_points_are_compared_by_the_maximum(tmp_path: Path) -> None:
    answer = findings.overall(several(tmp_path, at=slow_at_last, alone=None))
    assert answer
    assert "database_sim's maximum latency under bfq is" in plain(answer.headline)


def test_over_points_too_few_repeats_choose_by_their_means(tmp_path: Path) -> None:
    answer = findings.overall(several(tmp_path, repeats=2))
    assert answer
    assert answer.headline.startswith(
        "Too few repeats to tell; by the means: choose bfq: at the worst of 3 points database_sim's"
    )
    assert answer.details[-1] == FEW


def test_overall_answer_has_starvation_last(tmp_path: Path) -> None:
    def starved(point: rundirs.Record, scheduler: str, job: str, load: Load) -> Load:
        stuck = (scheduler, job, point.get("t_apps")) == ("bfq", "database_sim", 4)
        return Load(0, 100) if stuck else load

    answer = findings.overall(several(tmp_path, at=starved, alone=None))
    assert answer
    assert answer.details[-1].startswith(
        "bfq: endless (nothing completed in 5 of 5 repeats), at t_apps = 4; backup_sim keeps at"
    )
    # Without a run of the job alone, the answer gives latency in ms instead of a ratio.
    headline = plain(answer.headline)
    assert re.search(r"at the worst .* under none is [\d.]+ ms, and at most, under bfq, ", headline)
    assert headline.endswith("endless (nothing completed in 5 of 5 repeats).")


def test_who_starves_in_some_repeats_is_as_bad_as_endless(tmp_path: Path) -> None:
    answer = findings.overall(several(tmp_path, starved=(("bfq", 2),)))
    assert answer
    assert answer.details[-1].startswith("bfq: endless (nothing completed in 1 of 5 repeats), at ")


def test_a_matrix_of_one_point_is_answered_like_the_point(tmp_path: Path) -> None:
    found = view(tmp_path)
    assert findings.of_all([found]) == findings.answer(found)


def test_where_no_scheduler_completes_a_request_nothing_more_is_said(tmp_path: Path) -> None:
    idle = {name: {**jobs, "database_sim": Load(0, 100)} for name, jobs in STUDY.loads.items()}
    found = findings.answer(view(tmp_path, dataclasses.replace(STUDY, loads=idle)))
    assert found.headline == "database_sim completed no request under any scheduler."
    assert found.details == []


def test_without_a_protected_job_the_last_point_answers_with_its_details(tmp_path: Path) -> None:
    views = several(tmp_path, protected=None, background=(), alone=None, repeats=2)
    found = findings.of_all(views)
    last = findings.answer(views[-1])
    assert found.headline == f"At t_apps = 16: {last.headline}"
    assert found.details == last.details != []


def test_one_point_has_no_overall_answer(tmp_path: Path) -> None:
    assert findings.overall([view(tmp_path)]) is None
    assert findings.overall([]) is None


# ---- complete sentences -------------------------------------------------------------

MS, US = r"[\d.]+ ms", r"[\d.]+ µs"
INTERVAL = r"\[[\d.]+, [\d.]+\]"
TIMES, SHARE = rf"[\d.]+ × {INTERVAL}", rf"[\d.]+ % {INTERVAL}"
FEW = (
    "Some figures rest on fewer than 5 repeats: too few to tell whether a difference is chance. "
    "Use --repeats 5 or more."
)


def matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, plain(text)) is not None


def test_the_answer_is_whole(tmp_path: Path) -> None:
    answer = findings.answer(view(tmp_path))
    assert matches(
        rf"Choose prio-basic: database_sim's P99 latency is {US} {INTERVAL}, [\d.]+ × what it is "
        rf"alone and {TIMES} what it is under none \({MS}\); backup_sim keeps {SHARE} of its "
        rf"throughput under none; also worth choosing: bfq \({US}, backup_sim keeps [\d.]+ %\); "
        rf"none keeps all of the throughput of backup_sim, at a P99 latency of {MS} for "
        rf"database_sim\.",
        answer.headline,
    )
    kept = rf"; backup_sim keeps {SHARE} of its throughput under none"
    for detail, name, verdict, end in zip(
        answer.details,
        ("mq-deadline", "kyber", "bfq"),
        ("higher", "no difference seen", "lower"),
        ("; not worth choosing beside none", "; not worth choosing beside none", ""),
        strict=True,
    ):
        told = rf"{name}: P99 latency {TIMES} that of none \({verdict}\){kept}{end}\."
        assert matches(told, detail), detail


def test_an_answer_without_a_choice_is_whole(tmp_path: Path) -> None:
    loads = {name: STUDY.loads[name] for name in ("kyber", "bfq")}
    bench = dataclasses.replace(STUDY, loads=loads, alone=None)
    answer = findings.answer(view(tmp_path / "no-baseline", bench))
    assert matches(
        rf"Nothing tells which scheduler to choose; database_sim fared best under bfq: its P99 "
        rf"latency is {US} {INTERVAL}\.",
        answer.headline,
    )
    assert matches(rf"kyber: P99 latency {MS} {INTERVAL}\.", *answer.details)
    bench = dataclasses.replace(bench, loads={"kyber": STUDY.loads["kyber"]})
    assert matches(
        rf"Only kyber was measured, so database_sim is not compared: its P99 latency is {MS} "
        rf"{INTERVAL}\.",
        findings.answer(view(tmp_path / "one", bench)).headline,
    )


def test_an_answer_over_points_is_whole(tmp_path: Path) -> None:
    answer = findings.overall(several(tmp_path))
    assert answer
    times = r"[\d. ]+ × what it is alone"
    assert matches(
        rf"Choose bfq: at the worst of 3 points database_sim's P99 latency under bfq is {times}, "
        rf"under none {times}; under bfq backup_sim keeps at least [\d.]+ % of its throughput "
        rf"under none; none keeps all of the throughput of backup_sim\.",
        answer.headline,
    )
    kept = r"backup_sim keeps at least [\d.]+ % of its throughput under none"
    for detail, pattern in zip(
        answer.details,
        (
            rf"bfq: {times}, at t_apps = \d+; {kept}\.",
            rf"none: {times}, at t_apps = 16\.",
            rf"mq-deadline: {times}, at t_apps = 16; {kept}; not worth choosing beside none\.",
        ),
        strict=True,
    ):
        assert matches(pattern, detail), detail


def test_without_a_protected_job_the_sentence_is_whole(tmp_path: Path) -> None:
    loads = {name: STUDY.loads[name] for name in ("none", "bfq")}
    bench = dataclasses.replace(STUDY, loads=loads, protected=None, background=(), alone=None)
    told = findings.answer(view(tmp_path, bench)).headline
    parts = []
    for job, latency, iops in (
        ("database_sim", ("bfq", "none"), ("bfq", "none")),
        ("backup_sim", ("none", "bfq"), ("none", "bfq")),
    ):
        parts.append(
            rf"{job}: P99 latency is lowest under {latency[0]} \([\d.]+ .s\), highest under "
            rf"{latency[1]} \([\d.]+ .s\); throughput is highest under {iops[0]} \([\d ]+ IOPS\), "
            rf"lowest under {iops[1]} \([\d ]+ IOPS\)\."
        )
    assert matches(" ".join(parts), told.replace("\u202f", " ")), told


@pytest.mark.parametrize(
    ("ranked", "equals", "uncertain", "more", "told"),
    [
        ("", "", "", False, "no speed, for nothing was completed"),
        ("a", "", "", False, "speed is 1 under a"),
        ("ab", "", "", False, "speed is lowest under a (1), highest under b (2)"),
        ("ba", "", "", True, "speed is highest under b (2), lowest under a (1)"),
        ("ab", "b", "", False, "speed shows no difference between schedulers (about 1)"),
        ("ac", "", "", False, "speed shows no difference between schedulers (about 1)"),
        ("abd", "b", "", False, "speed is lowest under a and b (about 1), highest under d (4)"),
        ("dba", "b", "", True, "speed is highest under d and b (about 4), lowest under a (1)"),
        # d varies so much that it does not visibly differ from the best.
        (
            "abd",
            "d",
            "",
            False,
            "speed is lowest under a (1), highest under d (4); no difference between these two was "
            "seen",
        ),
        # The interval of d's ratio excludes 1, but there are too many comparisons for a verdict.
        (
            "abd",
            "b",
            "d",
            False,
            "speed is lowest under a and b (about 1), highest under d (4); d's difference to a is "
            "not certain",
        ),
        (
            "abd",
            "",
            "b",
            False,
            "speed is lowest under a (1; not certain against b), highest under d (4)",
        ),
        (
            "acbd",
            "c",
            "bd",
            False,
            "speed is lowest under a and c (about 1; not certain against b), highest under d (4); "
            "d's difference to a is not certain",
        ),
    ],
)
def test_best_and_worst_in_words(
    ranked: str, equals: str, uncertain: str, more: bool, told: str
) -> None:
    show = {"a": "1", "b": "2", "c": "1", "d": "4"}.__getitem__
    names = list(ranked), list(equals), list(uncertain)
    assert findings.ends("speed", *names, show, more_is_better=more) == told


# ---- experiments that are judged by metrics of whole runs ------------------------


def judged(folder: Path, *metrics: str, **changes: Any) -> Answer:
    """Return the answer to an experiment that is judged by these metrics."""
    bench = dataclasses.replace(STUDY, alone=None, judged_by=metrics, **changes)
    return findings.of_all(case(folder, bench).views)


def test_a_scheduler_that_only_costs_is_told_with_its_cost(tmp_path: Path) -> None:
    """All runs take equal CPU time. bfq completes the fewest requests, so each costs the most."""
    told = judged(tmp_path, "instructions_per_io")
    headline = plain(told.headline)
    assert headline.startswith("No scheduler was seen to be worth choosing over none (instruction ")
    assert re.search(
        r"worse is bfq \(instruction count per I/O [\d.]+ × \[.*\] that of none", headline
    )
    (bfq,) = (plain(detail) for detail in told.details if detail.startswith("bfq: "))
    assert re.search(r"\], \+[\d ]+ over none, [\d.]+ × \[.*\] \(higher\)", bfq)
    assert bfq.endswith("; not worth choosing beside none.")


def greedy(**mbps: float) -> dict[str, dict[str, Load]]:
    """Return the loads of a single job. `mbps`: scheduler -> bandwidth in MiB/s."""
    return {name: {"job": Load(rate * 8, 100, bs=131072)} for name, rate in mbps.items()}


def test_the_title_of_a_whole_runs_chart_is_a_sentence(tmp_path: Path) -> None:
    said = plain(title(view(tmp_path), None, "instructions_per_io"))
    assert said.startswith("Instruction count per I/O is lowest under none, "), said


def test_a_schedulers_line_is_whole(tmp_path: Path) -> None:
    loads = greedy(none=300, bfq=900, kyber=100)
    metrics = ("total_bytes_per_s", "instructions_per_io")
    told = judged(tmp_path, *metrics, loads=loads, protected=None, background=())
    lines = {line.split(":")[0]: plain(line) for line in told.details}
    assert matches(
        rf"kyber: total bandwidth [\d.]+ MB/s {INTERVAL}, −[\d.]+ MB/s over none, "
        rf"{TIMES} \(lower\); "
        r"instruction count per I/O [\d ]+ \[[\d ]+, [\d ]+\], [+−][\d ]+ over none, "
        rf"{TIMES} \(\w+\); not worth choosing beside \w+\.",
        lines["kyber"],
    ), lines["kyber"]


def test_schedulers_that_keep_the_throughput_are_as_good(tmp_path: Path) -> None:
    loads = greedy(none=1000, kyber=960, bfq=300)
    told = judged(tmp_path, "total_bytes_per_s", loads=loads, protected=None, background=())
    assert re.fullmatch(
        r"No scheduler was seen to be worth choosing over none \(total bandwidth [\d.]+ .B/s\): "
        r"kyber is as good; worse is bfq \(total bandwidth 0\.\d+ × \[.*\] that of none\)\.",
        plain(told.headline),
    )


def test_a_scheduler_with_more_throughput_is_the_one_to_choose(tmp_path: Path) -> None:
    loads = greedy(none=300, kyber=310, bfq=1000)
    told = judged(tmp_path, "total_bytes_per_s", loads=loads, protected=None, background=())
    assert re.fullmatch(
        r"Choose bfq: total bandwidth 3\.\d+ × \[.*\] that of none; "
        r"none has total bandwidth [\d.]+ .B/s\.",
        plain(told.headline),
    )
    (kyber,) = told.details
    assert kyber.endswith("; not worth choosing beside bfq.")


#: Loads of an urgent job that asks for the whole device, and of a job in a lower priority class.
STARVING = {
    "none": {"urgent": Load(3000, 900), "low": Load(3000, 900)},
    "mq-deadline": {"urgent": Load(6000, 400), "low": Load(10, 90000)},
    "triage": {"urgent": Load(4500, 200), "low": Load(1300, 3000)},
    "bfq": {"urgent": Load(30, 190), "low": Load(9, 3000)},
}


def test_starvation_is_answered_by_what_each_scheduler_gains_and_costs(tmp_path: Path) -> None:
    """triage is chosen: bfq gives the low class a share, but costs 99 % of the bandwidth."""
    loads = {name: STARVING[name] for name in ("mq-deadline", "triage", "bfq")}
    loads["none"] = STARVING["mq-deadline"]
    told = judged(
        tmp_path, "longest_wait_us", "least_share", "total_bytes_per_s",
        loads=dict(sorted(loads.items())), protected=None, background=(),
    )  # fmt: skip
    headline = plain(told.headline)
    assert re.match(
        r"Choose triage: longest wait [\d.]+ ms, share of the job with least 22\.\d %, "
        r"total bandwidth 0\.9\d+ × \[.*?\] that of none; ",
        headline,
    )
    assert re.search(
        r"; none has longest wait \d\d\d ms, share of the job with least 0\.1", headline
    )
    lines = {detail.split(":")[0]: detail for detail in told.details}
    assert lines["mq-deadline"].endswith("; not worth choosing beside triage.")
    assert "total bandwidth" in lines["bfq"]


def test_late_frames_are_answered_by_frames_in_time(tmp_path: Path) -> None:
    loads = {
        "none": {"video": Load(300, 50000, 0.5), "reader": Load(9000, 3000)},
        "bfq": {"video": Load(300, 8000, 0.3), "reader": Load(60, 3000)},
        "triage": {"video": Load(300, 11000, 0.5), "reader": Load(7000, 3000)},
    }
    out = rundirs.make(tmp_path / "out", dataclasses.replace(STUDY, alone=None, loads=loads))
    environment = records.read_environment(out) | {
        "judged_by": ["late_share", "total_bytes_per_s"],
        "deadlines": {"video": 40000},
    }
    (out / "environment.json").write_text(json.dumps(environment))
    told = findings.of_all(
        lookup.views(summary.summarise(samples.collect(out), environment), environment)
    )
    assert re.match(
        r"Choose triage: share of late requests [\d.]+ %, total bandwidth 0\.7.* that of none; "
        r"none has share of late requests 6",
        plain(told.headline),
    )
    assert told.details[-1].endswith("; not worth choosing beside triage."), (
        "bfq has too little bandwidth"
    )


def stepped(folder: Path, metric: str, slower: float, repeats: int = 5, *names: str) -> Answer:
    """Return the answer for two points; `slower` divides kyber's throughput at the second point."""
    return findings.of_all(steps(folder, metric, slower, repeats, *names))


def steps(
    folder: Path, metric: str, slower: float, repeats: int = 5, *names: str
) -> list[lookup.View]:
    """Return the views of the two points of stepped()."""

    def at(point: rundirs.Record, scheduler: str, job: str, load: Load) -> Load:
        hard = point["step"] == 2 and scheduler == "kyber"
        return dataclasses.replace(load, iops=load.iops / slower) if hard else load

    loads = {name: {"job": Load(1000, 100)} for name in names or ("none", "kyber")}
    bench = Bench(
        loads, at=at, seconds=0.3, repeats=repeats, protected=None, background=(), noise=0.001,
        judged_by=(metric,), points=({"step": 1, "fixed": "x"}, {"step": 2, "fixed": "x"}),
    )  # fmt: skip
    return case(folder, bench).views


def test_a_matrix_is_judged_where_each_scheduler_is_worst(tmp_path: Path) -> None:
    told = stepped(tmp_path, "total_iops", 4)
    assert re.fullmatch(
        r"No scheduler was seen to be worth choosing over none by the worst of 2 points: "
        r"worse is kyber \(total throughput 0\.25\d × \[.*\] that of none\)\.",
        plain(told.headline),
    )
    (kyber,) = told.details
    assert kyber.endswith("that of none, at step = 2; not worth choosing beside none."), (
        "what all points have is left out"
    )


def test_what_means_something_by_itself_is_not_a_ratio(tmp_path: Path) -> None:
    told = stepped(tmp_path, "jain_index", 4)
    assert told.headline == (
        "No scheduler was seen to be worth choosing over none (fairness index 1.00) by the worst "
        "of 2 points: kyber is as good."
    )


@pytest.mark.parametrize("repeats", [1, 4])
def test_too_few_repeats_are_judged_by_their_means_and_say_so(tmp_path: Path, repeats: int) -> None:
    told = stepped(tmp_path, "total_iops", 0.25, repeats)
    assert told.headline.startswith("Too few repeats to tell; by the means: choose kyber by the ")
    assert "too few to tell whether a difference is chance" in told.details[-1]
    same = stepped(tmp_path / "same", "total_iops", 1.05, repeats)
    assert same.headline.endswith("points: kyber seems as good.")


def test_a_matrix_of_the_baseline_alone_has_nothing_to_choose(tmp_path: Path) -> None:
    told = stepped(tmp_path, "total_iops", 4, 5, "none")
    assert told == Answer("Only none was measured, so there is nothing to choose.", [])


def test_a_scheduler_that_only_a_later_point_has_is_told_of(tmp_path: Path) -> None:
    views = steps(tmp_path, "total_iops", 4, 5, "none", "bfq", "kyber")
    views[0].schedulers.remove("kyber")
    told = findings.of_all(views)
    (kyber,) = (detail for detail in told.details if detail.startswith("kyber: "))
    assert "; not measured at step = 1" in kyber


def test_without_some_figures_of_the_only_rival_nothing_is_chosen(tmp_path: Path) -> None:
    views = steps(tmp_path, "total_iops", 4, 1)
    of = views[1]
    del of._rows[(of.point, "kyber", None, "total_iops")]
    assert findings.of_all(views).headline == (
        "Too few repeats to tell; by the means: "
        "nothing tells which scheduler to choose, because figures are missing at some points, "
        "or each is beaten by another."
    )


def test_a_judged_experiment_without_a_baseline_or_a_rival_chooses_nothing(tmp_path: Path) -> None:
    told = stepped(tmp_path, "total_iops", 4, 5, "kyber", "bfq")
    assert re.fullmatch(
        r"Nothing tells which scheduler to choose, because none was not measured; "
        r"bfq has total throughput [\d ,.]+ IOPS\.",
        plain(told.headline),
    )
    told = stepped(tmp_path / "one", "total_iops", 4, 5, "kyber")
    assert re.fullmatch(
        r"Only kyber was measured, so there is nothing to choose: total throughput 2\d\d IOPS\.",
        plain(told.headline),
    )
