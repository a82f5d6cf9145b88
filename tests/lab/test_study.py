# SPDX-License-Identifier: GPL-2.0-only
"""Tests of study.toml: all its names exist, and a malformed file gives a clear error."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from triagelab.ask import devices, experiments, fiofile, study
from triagelab.ask.experiments import Experiment
from triagelab.base import metrics, settings, tools
from triagelab.base.errors import LabError
from triagelab.plan import plan
from triagelab.provision.guest import Base
from triagelab.provision.kernels import Kernel

from tests.lab.test_plan import Machine

WHOLE = study.load()
CHARTS = [chart for page in WHOLE.pages for chart in page.charts]

TOML = """\
[measure.a]
experiment = "bursts"
repeats = 3
vary = { pause_us = [1, 2] }
quick = { repeats = 1, vary = { pause_us = [2] } }
[measure.bursts]
quick = false
[[page]]
name = "p"
question = "Why?"
measures = ["a", "bursts"]
charts = [{ kind = "bars", measure = "a", metric = "iops" }]
"""


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Experiment]]:
    """Yield the experiment of each [measure.NAME] of the study, by NAME.

    fio checks the job files in test_experiments.py, not here.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fiofile, "check", lambda files: None)
        yield {measure.name: measure.found() for measure in WHOLE.measures}


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_quick_takes_what_it_says_and_leaves_out_the_rest(tmp_path: Path) -> None:
    path = written(tmp_path, TOML)
    whole, quick = study.load(path), study.load(path, quick=True)
    assert [(m.name, m.experiment, m.repeats) for m in whole.measures] == [
        ("a", "bursts", 3), ("bursts", "bursts", None)
    ]  # fmt: skip
    assert [(m.name, m.repeats, dict(m.vary)) for m in quick.measures] == [
        ("a", 1, {"pause_us": (2,)})
    ]
    assert quick.pages == whole.pages


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ("repeats", "repeat", "measure.a: not known: repeat;"),
        ('experiment = "bursts"', 'schedulers = "none"', 'schedulers must be a list, not "none"'),
        ('experiment = "bursts"', "schedulers = []", "schedulers must be a list of something"),
        (
            "repeats = 3",
            "repeats = 0",
            "measure.a.repeats must be a whole number, 1 or more, not 0",
        ),
        ("[2] } }", "2 } }", "measure.a.quick.vary.pause_us must be a list, not 2"),
        ('measures = ["a"', 'measures = ["b"', "page p: there is no [measure.b]"),
        ('measure = "a"', 'measure = "b"', "page p: there is no [measure.b]"),
        (
            "charts",
            'answer = { measure = "b", scheduler = "bfq", values_of = "x" }\ncharts',
            "page p: there is no [measure.b]",
        ),
        ("charts", 'answer = { measure = "a", scheduler = "bfq" }\ncharts', "missing: values_of"),
        ("charts", "answer = 5\ncharts", "page, item 1.answer must be a table, not 5"),
        ("charts", 'answer = { measure = "a", due = 0 }\ncharts', "answer.due must be a whole"),
        ("quick = false", "quick = true", "measure.bursts.quick must be a table, not true"),
        ('kind = "bars"', 'kind = "bar"', "no kind of chart is 'bar'; there are protection, "),
        (', metric = "iops"', "", "a chart of bars needs metric"),
        ("question", "ask", "page, item 1: missing: question"),
        ("[[page]]", "[page", "study.toml"),
    ],
)
def test_what_makes_no_sense_is_told(tmp_path: Path, was: str, becomes: str, told: str) -> None:
    assert was in TOML
    with pytest.raises(LabError) as error:
        study.load(written(tmp_path, TOML.replace(was, becomes)))
    assert told in str(error.value)


def test_pages_have_names_of_their_own_and_show_what_is_measured() -> None:
    measured = {measure.name for measure in WHOLE.measures}
    names = [page.name for page in WHOLE.pages]
    assert len(set(names)) == len(names)
    shown = {name for page in WHOLE.pages for name in page.measures}
    assert shown == measured, "each measure is on a page, and each page's is measured"
    for page in WHOLE.pages:
        assert page.question.endswith("?")
        assert {chart.measure for chart in page.charts} <= set(page.measures)


def test_quick_answers_every_question() -> None:
    quick = study.load(quick=True)
    measured = {measure.name for measure in quick.measures}
    assert [page.name for page in quick.pages if not measured & set(page.measures)] == []


@pytest.mark.parametrize("measure", study.load(quick=True).measures, ids=lambda m: m.name)
def test_quick_is_part_of_the_whole(measure: study.Measure, found: dict[str, Experiment]) -> None:
    """Each point of the quick study is in the whole study, so a chart means the same in both."""
    points = found[measure.name].points
    assert all(point in points for point in measure.found().points)


@pytest.mark.parametrize(
    "page",
    [page for page in WHOLE.pages if isinstance(page.answer, study.Values)],
    ids=lambda p: p.name,
)
def test_an_answer_is_about_values_that_both_studies_measure(
    page: study.Page, found: dict[str, Experiment]
) -> None:
    asked = page.answer
    assert isinstance(asked, study.Values) and asked.measure in page.measures
    assert found[asked.measure].protected and found[asked.measure].background
    for whole in (study.load(), study.load(quick=True)):
        (measure,) = [of for of in whole.measures if of.name == asked.measure]
        points = measure.found().points
        assert len({point[asked.values_of] for point in points}) == len(points) > 1
        assert asked.scheduler in (measure.schedulers or experiments.all_schedulers())


def test_an_answer_about_shares_is_about_jobs_that_are_measured(
    found: dict[str, Experiment],
) -> None:
    (page,) = (page for page in WHOLE.pages if isinstance(page.answer, study.Shares))
    asked = page.answer
    assert isinstance(asked, study.Shares) and asked.measure in page.measures
    experiment = found[asked.measure]
    assert {asked.of, asked.over} <= {
        job for point in experiment.points for job in experiment.jobs_at(point)
    }


@pytest.mark.parametrize("chart", CHARTS, ids=lambda c: f"{c.kind}-{c.measure}")
def test_a_chart_is_of_points_that_are_measured(
    chart: study.Chart, found: dict[str, Experiment]
) -> None:
    experiment = found[chart.measure]
    points = [point for point in experiment.points if chart.at.items() <= point.items()]
    assert points, "no point has these values"
    along = {chart.x, chart.y} - {None}
    rest = [{key: value for key, value in p.items() if key not in along} for p in points]
    assert all(point == rest[0] for point in rest), "`at` leaves more than one point"
    assert all(name in points[0] for name in along)
    jobs = {job for point in points for job in experiment.jobs_at(point)}
    assert chart.job is None or chart.job in jobs
    assert chart.metric is None or metrics.known(chart.metric)
    assert chart.scheduler is None or chart.scheduler in experiments.all_schedulers()
    if chart.kind == "protection":
        assert experiment.protected and experiment.background


@pytest.fixture
def planned(
    found: object, monkeypatch: pytest.MonkeyPatch
) -> Callable[[bool], dict[str, list[plan.Run]]]:
    """Return a function that plans the runs of each measure, for the quick or the whole study."""
    monkeypatch.setattr(tools, "qemu_version", lambda: "QEMU 1")
    return _planned


def _planned(quick: bool) -> dict[str, list[plan.Run]]:
    base = Base(Kernel("6.12", Path("vmlinuz"), Path("/"), None), Path("key"))
    runs = {}
    for measure in study.load(quick=quick).measures:
        experiment = measure.found()
        points = []
        for where in experiment.points:
            at = settings.split(experiment.values_at(where))
            cpus = str(at.cpus)
            machine = Machine(experiment.machine, base, at.cpus or 1, (cpus,), (), {}, 1, "")
            device = devices.find(experiment.device, at.device)
            points.append(plan.Point(where, machine, device, at.tunables))
        schedulers = measure.schedulers or experiment.schedulers
        repeats = measure.repeats or experiment.repeats
        image = Path("made-of/image") if experiment.application else None
        setup = plan.Setup(experiment, schedulers, repeats, points, {}, 1, image=image)
        runs[measure.name] = plan.runs(setup)
    return runs


@pytest.mark.parametrize(("quick", "most"), [(True, 150), (False, 1400)], ids=["quick", "whole"])
def test_it_has_no_more_runs_than_there_is_time_for(
    quick: bool, most: int, planned: Callable[[bool], dict[str, list[plan.Run]]]
) -> None:
    """The quick study may take 28 minutes on two cores; one of its runs takes 22 s of one core.

    The whole study may take 4 1/2 hours; one of its runs takes 23 s.
    """
    assert sum(map(len, planned(quick).values())) <= most


def test_every_run_of_the_quick_study_is_one_of_the_whole(
    planned: Callable[[bool], dict[str, list[plan.Run]]],
) -> None:
    """The whole study has each run of the quick one, and can take over its measurements."""
    whole = planned(False)
    for name, runs in planned(True).items():
        assert {run.content for run in runs} <= {run.content for run in whole[name]}, name
