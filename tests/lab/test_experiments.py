# SPDX-License-Identifier: GPL-2.0-only
"""Tests of experiments: the lab's are valid, matrices are complete, and a job file is one too."""

import re
from pathlib import Path

import pytest
from triagelab import cli
from triagelab.ask import devices, drives, experiments
from triagelab.base import settings
from triagelab.base.errors import RequestError

TWO = "[{}]\nrw=read\nprioclass=2\nprio={}\n[{}]\nrw=read\nprioclass=2\nprio={}\n"
DEPTHS = "[a]\nrw=read\niodepth=${DEPTH}\n"

TOML = """\
title = "A title"
question = "A question?"
protected = "urgent"
background = ["bulk"]
[vary]
apps = [0, 1, 8]
device.depth = [4, 8]
[vary.prio]
set = { level = 1 }
unset = {}
"""
WORKLOAD = "[urgent]\nrw=read\nprio=${level}\n[bulk]\nrw=read\nnumjobs=${apps}\n"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder of an experiment called `made`."""
    monkeypatch.setattr(experiments, "FOLDER", tmp_path)
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "experiment.toml").write_text(TOML.replace("device.depth", '"device.depth"'))
    (folder / "workload.fio").write_text(WORKLOAD)
    return folder


@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_loads_and_can_be_set_up(name: str) -> None:
    experiment = experiments.find(name)  # find() lets fio check the job file of every point
    assert experiment.question.endswith("?")
    assert experiment.repeats >= 5
    for point in experiment.points:
        devices.find(
            experiment.device_at(point), settings.split(experiment.values_at(point)).device
        )


def test_a_matrix_is_every_combination(made: Path) -> None:
    points = experiments.find("made").points
    assert len(points) == 3 * 2 * 2
    assert points[0] == {"apps": 0, "device.depth": 4, "prio": "set"}


def test_a_case_that_does_not_set_a_name_leaves_its_option_out(made: Path) -> None:
    experiment = experiments.find("made")
    prios = {
        point["prio"]: job.options.get("prio")
        for point in experiment.points
        for job in experiment.workload_at(point).jobs
        if job.name == "urgent"
    }
    assert prios == {"set": "1", "unset": None}


def on_devices(folder: Path) -> None:
    """Vary the experiment over two devices, with more time on hdd; give it a quick variant."""
    text = TOML.replace("device.depth = [4, 8]\n", "").replace("[0, 1, 8]", "[8]")
    text += "[vary.device]\nflash = {}\nhdd = { seconds = 20 }\n[set]\nseconds = 3\n"
    text += '[quick]\nrepeats = 2\nschedulers = ["bfq"]\nvary = { prio = ["set"] }\n'
    (folder / "experiment.toml").write_text(text)
    (folder / "workload.fio").write_text(WORKLOAD + "runtime=${seconds}\n")


def test_devices_vary_and_others_can_be_had(made: Path) -> None:
    on_devices(made)
    experiment = experiments.find("made", {"prio": ("set",)})
    told = [
        (experiment.device_at(point), experiment.workload_at(point).jobs[-1].options["runtime"])
        for point in experiment.points
    ]
    assert told == [("flash", "3"), ("hdd", "20")]
    for other in (
        experiments.find("made", {"prio": ("set",), "device": ("sata-s4610",)}),
        experiment.on("sata-s4610"),
    ):
        (point,) = other.points
        assert other.device_at(point) == "sata-s4610"
        assert other.workload_at(point).jobs[-1].options["runtime"] == "3"
    (point,) = experiment.on("hdd").points
    assert experiment.on("hdd").workload_at(point).jobs[-1].options["runtime"] == "20"
    hardware, _ = experiment.on_hardware()
    assert [dict(point) for point in hardware.points] == [{"apps": 8, "prio": "set"}]


def test_quick_takes_less_and_a_user_takes_precedence(made: Path) -> None:
    with pytest.raises(RequestError, match="made has no quick variant"):
        experiments.find("made", quick=True)
    on_devices(made)
    quick = experiments.find("made", quick=True)
    assert (quick.repeats, quick.schedulers) == (2, ("bfq",))
    assert [point["prio"] for point in quick.points] == ["set", "set"]
    assert experiments.find("made", {"prio": ("unset",)}, quick=True).points[0]["prio"] == "unset"
    (made / "experiment.toml").write_text(
        (made / "experiment.toml").read_text().replace("repeats = 2", "repeat = 2")
    )
    with pytest.raises(RequestError, match="quick: not known: repeat; there are"):
        experiments.find("made")


def test_the_matrix_of_drives_has_every_drive_that_is_shipped() -> None:
    matrix = experiments.find("drives-matrix").vary["device"]
    assert list(matrix) and {str(name) for name in matrix} >= set(drives.names())


def test_another_device_has_the_time_of_a_drive_like_it() -> None:
    experiment = experiments.find("drives-matrix", {"device": ("hdd", "null")})
    times = {
        experiment.device_at(point): experiment.values_at(point)["seconds"]
        for point in experiment.points
    }
    assert times == {"hdd": 20, "null": 3}


def test_no_process_is_no_job(made: Path) -> None:
    experiment = experiments.find("made")
    jobs = {
        point["apps"]: [job.name for job in experiment.workload_at(point).jobs]
        for point in experiment.points
    }
    assert jobs == {0: ["urgent"], 1: ["urgent", "bulk"], 8: ["urgent", "bulk"]}


def test_a_user_takes_some_points_or_others(made: Path) -> None:
    vary = {"apps": (8, 16), "prio": ("unset",), "kyber.read_lat_nsec": (1, 2)}
    points = experiments.find("made", vary).points
    assert {point["apps"] for point in points} == {8, 16}
    assert {point["prio"] for point in points} == {"unset"}
    assert {point["device.depth"] for point in points} == {4, 8}
    assert {point["kyber.read_lat_nsec"] for point in points} == {1, 2}


def test_on_hardware_nothing_is_set_that_only_models_have(made: Path) -> None:
    path = made / "experiment.toml"
    fixed = '[set]\ncpus = 2\n"kyber.x" = 1\n'
    path.write_text(path.read_text().replace("[vary]\n", f"{fixed}[vary]\n"))
    experiment, left_out = experiments.find("made").on_hardware()
    assert left_out == ["cpus", "device.depth"]
    assert experiment.fixed == {"kyber.x": 1}
    assert len(experiment.points) == 3 * 2
    assert experiment.points[0] == {"apps": 0, "prio": "set"}


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({"prio": ("sett",)}, "unknown value of prio 'sett': did you mean 'set'"),
        ({"aps": (1,)}, "unknown name to vary 'aps': did you mean 'apps'"),
        ({"apps": ("many",)}, "is not a plain number"),
    ],
)
def test_a_point_that_makes_no_sense(
    made: Path, vary: dict[str, tuple[settings.Value, ...]], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        experiments.find("made", vary)


def test_the_names_of_a_job_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.fio"
    path.write_text(DEPTHS + "# not ${THIS}\nbs=${SIZE} # nor ${THAT}\n")
    told = r"has \$\{DEPTH\}, \$\{SIZE\} without a value: add --vary DEPTH=… --vary SIZE=…$"
    with pytest.raises(RequestError, match=told):
        experiments.find(str(path))
    path.write_text(DEPTHS)
    told = r"did you mean 'DEPTH'\? There are: DEPTH, SCHEDULER\.TUNABLE, cpus"
    with pytest.raises(RequestError, match=told):
        experiments.find(str(path), {"DEPTHS": (1, 4)})
    assert len(experiments.find(str(path), {"DEPTH": (1, 4)}).points) == 2


def test_a_mistake_in_an_experiment_is_named(made: Path) -> None:
    path = made / "experiment.toml"
    path.write_text(path.read_text().replace('["bulk"]', '["blk"]'))
    with pytest.raises(RequestError, match=r"no job 'blk', it has: urgent, bulk"):
        experiments.find("made")
    path.write_text('quest = "?"\n' + path.read_text())
    with pytest.raises(RequestError, match="not known: quest"):
        experiments.find("made")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('repeats = "5"', 'repeats must be a whole number, 1 or more, not "5"'),
        ("repeats = 0", "repeats must be a whole number, 1 or more, not 0"),
        ("repeats = true", "repeats must be a whole number, 1 or more, not true"),
        ("repeats = 2026-01-01", 'repeats must be a whole number, 1 or more, not "2026-01-01"'),
        ("repeats = " + "9" * 5000, "4300 digits"),
        ("protected = 5", "protected must be a text, not 5"),
        ('background = "bulk"', 'background must be a list, not "bulk"'),
        ("schedulers = [5]", "schedulers, item 1, must be a text, not 5"),
        ('deadlines.urgent = "soon"', "deadlines.urgent must be a whole number"),
        ("set = 5", "set must be a table, not 5"),
        ("set.device.depth = 4", 'set.device must be a whole number or a text, not {"depth": 4}'),
        ("vary = 5", "vary must be a table, not 5"),
        ("vary.apps = 0", "vary.apps must be a list, not 0"),
        ("vary.apps = []", "vary.apps has no value"),
        ("vary.apps = {}", "vary.apps has no value"),
        ("vary.apps = [1, 2.5]", "vary.apps, item 2, must be a whole number or a text, not 2.5"),
        ("vary.prio.set = 5", "vary.prio.set must be a table, not 5"),
        ("vary.prio.set.level = [1]", "vary.prio.set.level must be a whole number or a text"),
        ("x = 5", "not known: x; there are application, background"),
        ("x =", "Invalid value"),
        ("title = \xe4", "'utf-8' codec can't decode"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_file_and_its_key(
    made: Path, text: str, message: str
) -> None:
    path = made / "experiment.toml"
    path.write_bytes(b'title = "A title"\nquestion = "A question?"\n' + text.encode("latin-1"))
    for look in (experiments.title, experiments.find):
        with pytest.raises(RequestError, match=rf"{re.escape(str(path))}: .*{re.escape(message)}"):
            look("made")


def test_all_mistakes_of_a_file_are_told_at_once(made: Path) -> None:
    path = made / "experiment.toml"
    path.write_text('title = 5\nquest = "?"\nrepeats = 0\n[quick]\nrepeat = 1\nvary.x = []\n')
    with pytest.raises(RequestError) as error:
        experiments.title("made")
    assert sorted(line.removeprefix(f"{path}: ") for line in str(error.value).split("\n")) == [
        "missing: question",
        "not known: quest; there are application, background, deadlines, device, judged_by, "
        "machine, protected, question, quick, repeats, schedulers, set, title, vary",
        "quick.vary.x must be a list of something",
        "quick: not known: repeat; there are repeats, schedulers, vary",
        "repeats must be a whole number, 1 or more, not 0",
        "title must be a text, not 5",
    ]


def test_one_without_a_title_is_a_request_that_makes_no_sense(
    made: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (made / "experiment.toml").write_text("repeats = 5\n")
    for words in (["list"], ["run", "made"]):
        assert cli.main(words) == 2
        assert "experiment.toml: missing: question, title" in capfd.readouterr().err


def test_all_schedulers_unless_it_names_some(made: Path) -> None:
    found = experiments.find("made").schedulers
    assert {"none", "mq-deadline", "kyber", "bfq", "prio-basic"} <= set(found)


def test_of_a_users_jobs_the_most_urgent_is_protected(tmp_path: Path) -> None:
    path = tmp_path / "mine.fio"
    path.write_text(TWO.format("slow", 6, "quick", 0))
    experiment = experiments.find(str(path))
    assert (experiment.protected, experiment.background) == ("quick", ("slow",))


def test_of_equal_jobs_none_is_protected(tmp_path: Path) -> None:
    path = tmp_path / "mine.fio"
    path.write_text(TWO.format("one", 3, "other", 3))
    experiment = experiments.find(str(path))
    assert (experiment.protected, experiment.background) == (None, ())


def test_a_users_file_can_be_varied(tmp_path: Path) -> None:
    path = tmp_path / "mine.fio"
    path.write_text(DEPTHS)
    experiment = experiments.find(str(path), {"DEPTH": (1, 16)})
    depths = [experiment.workload_at(point).jobs[0].options for point in experiment.points]
    assert [options["iodepth"] for options in depths] == ["1", "16"]


def test_an_unknown_experiment_names_the_nearest() -> None:
    with pytest.raises(RequestError, match="did you mean 'mixed-priority'"):
        experiments.find("mixed-prioritiy")
