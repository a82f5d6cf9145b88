# SPDX-License-Identifier: GPL-2.0-only
"""Guards: sentences say what the figures say, and claim no difference without a verdict."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from triagelab import findings, lookup, samples, summary
from triagelab.figures import digits
from triagelab.findings import title
from triagelab.lookup import View

from tests.lab import rundirs
from tests.lab.measured import case, plain
from tests.lab.rundirs import Bench, Load

STUDY = dataclasses.replace(rundirs.STUDY, seconds=0.5)


def view(tmp_path: Path, bench: Bench = STUDY) -> View:
    out = rundirs.make(tmp_path / "out", bench)
    environment = samples.read_environment(out)
    result = summary.summarise(samples.collect(out), environment)
    (found,) = lookup.views(result, environment)
    return found


def test_headline_names_protector_and_price(tmp_path: Path) -> None:
    answer = findings.answer(view(tmp_path))
    headline = plain(answer.headline)
    assert headline.startswith("bfq protects database_sim best: its P99 latency is ")
    assert "× what it is alone" in headline
    assert "what it is under none (" in headline
    assert "backup_sim keeps 1" in headline
    others = [detail.split(":")[0] for detail in answer.details]
    assert others == ["mq-deadline", "kyber", "prio-basic"]
    assert "(higher)" in answer.details[0]
    assert "(lower)" in answer.details[2]


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
        "No scheduler was seen to protect database_sim better than none"
    )
    assert [detail.split(":")[0] for detail in answer.details] == ["mq-deadline"]


def test_equals_are_named(tmp_path: Path) -> None:
    loads = {"none": STUDY.loads["none"], "x": STUDY.loads["bfq"], "y": STUDY.loads["bfq"]}
    bench = dataclasses.replace(STUDY, loads=loads, noise=0.0)
    for scheduler in ("x", "y"):  # the same figures for both
        loads[scheduler] = {name: dataclasses.replace(load, spread=0.0)
                            for name, load in loads[scheduler].items()}  # fmt: skip
    headline = findings.answer(view(tmp_path, bench)).headline
    assert headline.startswith("x protects database_sim best (no difference seen to y)")


def test_starved_job_is_said_to_be(tmp_path: Path) -> None:
    starved = {"database_sim": Load(0, 100), "backup_sim": Load(9000, 3000)}
    loads = {"none": STUDY.loads["none"], "bad": starved, "bfq": STUDY.loads["bfq"]}
    answer = findings.answer(view(tmp_path, dataclasses.replace(STUDY, loads=loads)))
    assert answer.details[0].startswith("bad: database_sim completed no request at all")


def test_who_starves_the_job_in_some_repeats_does_not_protect_it(tmp_path: Path) -> None:
    """Though in the others its P99 is the lowest; iops has all repeats in its mean."""
    loads = {name: STUDY.loads[name] for name in ("none", "kyber", "bfq")}
    bench = dataclasses.replace(STUDY, loads=loads, seconds=0.2)
    starved = view(tmp_path, dataclasses.replace(bench, starved=(("bfq", 0), ("bfq", 3))))
    under = "nothing completed in 2 of 5 repeats"
    assert starved.ranked("database_sim", "p99_us")[-1] == "bfq"
    assert starved.ranked("database_sim", "iops")[0] == "bfq"
    assert starved.protectors() == []
    answer = findings.answer(starved)
    assert answer.headline.startswith("No scheduler was seen to protect database_sim")
    assert answer.details[1].startswith("bfq: P99 latency 0.0")
    assert f" that of none (lower; {under})" in answer.details[1]
    said = title(starved, "database_sim", "p99_us")
    assert re.search(rf"highest under bfq \(\d+\sµs; {under}\)$", said)
    assert under not in title(starved, "database_sim", "iops")


def test_where_none_starves_the_job_the_headline_says_so(tmp_path: Path) -> None:
    loads = {name: STUDY.loads[name] for name in ("none", "bfq")}
    bench = dataclasses.replace(STUDY, loads=loads, seconds=0.2)
    answer = findings.answer(view(tmp_path, dataclasses.replace(bench, starved=(("none", 1),))))
    assert answer.headline.startswith("bfq protects database_sim best")
    assert "ms; nothing completed in 1 of 5 repeats)" in answer.headline
    loads = {"none": STUDY.loads["none"]}
    bench = dataclasses.replace(bench, loads=loads, starved=(("none", 1),))
    answer = findings.answer(view(tmp_path / "one", bench))
    assert "] (nothing completed in 1 of 5 repeats), " in answer.headline


@pytest.mark.parametrize("repeats", [1, 2])
def test_few_repeats_claim_nothing(tmp_path: Path, repeats: int) -> None:
    found = view(tmp_path, dataclasses.replace(STUDY, repeats=repeats))
    answer = findings.answer(found)
    assert "protects" not in answer.headline
    assert "fared best under bfq" in answer.headline
    assert "no difference between them is claimed" in answer.details[-1]
    assert not found.protectors()


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
        loads={name: STUDY.loads[name] for name in ("none", "mq-deadline", "bfq")},
        points=({"t_apps": 1}, {"t_apps": 4}, {"t_apps": 16}),
        seconds=0.2,
        **{"at": rundirs.beside, **changes},
    )
    out = rundirs.make(tmp_path / "out", bench)
    environment = samples.read_environment(out)
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
        "At the worst of 3 points database_sim's P99 latency under bfq is "
        f"{plain(digits(max(ratios)))} × what it is alone, under none "
    )
    kept = [found.compare("bfq", "none", "backup_sim", "bytes_per_s") for found in views]
    least = min(compared.ratio for compared in kept if compared and compared.ratio)
    assert f"under bfq backup_sim keeps at least {digits(100 * least)} % of its" in headline
    assert [detail.split(":")[0] for detail in answer.details] == ["bfq", "none", "mq-deadline"]
    assert "at t_apps = 16" in answer.details[1]
    assert "keeps" not in answer.details[1]  # none is what others are compared to


def test_overall_answer_has_starvation_last(tmp_path: Path) -> None:
    def starved(point: rundirs.Record, scheduler: str, job: str, load: Load) -> Load:
        stuck = (scheduler, job, point.get("t_apps")) == ("bfq", "database_sim", 4)
        return Load(0, 100) if stuck else load

    answer = findings.overall(several(tmp_path, at=starved, alone=None))
    assert answer
    assert answer.details[-1].startswith(
        "bfq: endless (it completed no request), at t_apps = 4; backup_sim keeps at least "
    )
    # Without the job alone latency is in its own unit.
    assert re.match(r"At the worst .* under none is [\d.]+ ms\.$", plain(answer.headline))


def test_who_starves_in_some_repeats_is_as_bad_as_endless(tmp_path: Path) -> None:
    answer = findings.overall(several(tmp_path, starved=(("bfq", 2),)))
    assert answer
    assert answer.details[-1].startswith("bfq: endless (nothing completed in 1 of 5 repeats), at ")


def test_one_point_has_no_overall_answer(tmp_path: Path) -> None:
    assert findings.overall([view(tmp_path)]) is None
    assert findings.overall([]) is None


def test_an_experiment_is_judged_by_its_own_metric(tmp_path: Path) -> None:
    out = rundirs.make(tmp_path / "out", STUDY)
    environment = samples.read_environment(out) | {"judged_by": ["instructions_per_io"]}
    result = summary.summarise(samples.collect(out), environment)
    (found,) = lookup.views(result, environment)
    answer = findings.answer(found)
    best, *_, worst = found.ranked(None, "instructions_per_io")
    assert answer.headline.startswith(f"Instruction count per I/O is lowest under {best}")
    assert f"highest under {worst}" in answer.headline
    more = {row["scheduler"]: row["mean"] for row in result["rows"]
            if row["metric"] == "instructions_per_io" and not row["point"]}  # fmt: skip
    said = f"bfq: +{plain(digits(more['bfq'] - more['none']))} over none, "
    assert any(plain(detail).startswith(said) for detail in answer.details)


def judged(folder: Path, metric: str, slower: float) -> findings.Answer:
    """The answer of two points, at the second of which kyber completes `slower` times less."""

    def at(point: rundirs.Record, scheduler: str, job: str, load: Load) -> Load:
        hard = point["step"] == 2 and scheduler == "kyber"
        return dataclasses.replace(load, iops=load.iops / slower) if hard else load

    loads = {name: {"job": Load(1000, 100)} for name in ("none", "kyber")}
    bench = Bench(
        loads, at=at, seconds=0.3, repeats=3, protected=None, background=(), noise=0.001,
        judged_by=(metric,), points=({"step": 1, "fixed": "x"}, {"step": 2, "fixed": "x"}),
    )  # fmt: skip
    return findings.of_all(case(folder, bench).views)


def test_a_matrix_is_judged_where_each_scheduler_is_worst(tmp_path: Path) -> None:
    told = judged(tmp_path, "total_iops", 4)
    assert told.headline.startswith("At the worst of 2 points total throughput is 0.25")
    assert told.headline.endswith("that of none under kyber.")
    assert told.details[0].endswith("that of none, at step = 2."), "what all have is left out"


def test_what_means_something_by_itself_is_not_a_ratio(tmp_path: Path) -> None:
    told = judged(tmp_path, "jain_index", 4)
    assert "fairness index is 1.00 under none and 1.00 under kyber" in told.headline
