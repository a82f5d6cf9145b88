# SPDX-License-Identifier: GPL-2.0-only
"""Tests that the lab ignores no input: it uses an input, or refuses it and names the remedy."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from triagelab import cli
from triagelab.ask import experiments, study
from triagelab.base import errors, settings
from triagelab.base.errors import RequestError

from tests.lab.test_experiments import made
from triagectl import errors as ctl

__all__ = ["made"]
RUN = ["run", "mixed-priority"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--vary", "bs=4k", "--vary", "bs=64k"],
            "bs is given twice; give it once",
        ),
        (["--vary", "bs=4k,,8k"], "expected NAME=VALUE,VALUE"),
        (
            ["--vary", "offset=0100"],
            "0100 is octal for a kernel",
        ),
        (
            ["--set", "kyber.x=1", "--set", "iosched.kyber.x=2"],
            "kyber.x is given twice; give it once",
        ),
        (["--set", "kyber.x=010"], "write 10, or 0x8"),
        (["--set", "kyber.x=00"], "write 0, or 0x0"),
        (["--set", "kyber.x.y=1"], "one dot at most"),
        (["--set", "seconds=5"], "expected device.SETTING=N"),
        (["--set", "iosched.seconds=5"], "expected device.SETTING=N"),
        (["--set", "kyber.=5"], "expected device.SETTING=N"),
        (["--set", ".seconds=5"], "expected device.SETTING=N"),
        (["--vary", "kyber.x.y=1"], "one dot at most"),
        (["--set", "kybr.x=1"], "did you mean 'kyber'"),
        (["--vary", "kybr.x=1"], "did you mean 'kyber'"),
        (["--set", "device.count=02", "--device", "null"], "write 2, or 0x2"),
        (["--cpus", "02"], "from 1 to 64"),
        (["--repeats", "1", "--repeats", "2"], "--repeats is given twice; give it once"),
        (["--device", "null", "--device", "flash"], "--device is given twice"),
        (["--schedulers", ""], "--schedulers is empty; leave it out"),
        (["--kernel", ""], "--kernel is empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_option_that_would_be_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    try:
        status = cli.main([*RUN, *words, "--out", str(tmp_path / "out")])
    except SystemExit as error:  # raised by argparse
        status = int(str(error.code))
    said = " ".join(capsys.readouterr().err.split())
    assert (status, message in said) == (2, True), said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("unknown", [errors.unknown, ctl.unknown])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kybr", "unknown scheduler 'kybr': did you mean 'kyber'? There are: bfq, kyber."),
        ("x", "unknown scheduler 'x'. There are: bfq, kyber."),
    ],
)
def test_a_message_about_an_unknown_name_is_of_sentences(
    unknown: Callable[[str, str, list[str]], Exception], name: str, said: str
) -> None:
    assert str(unknown("scheduler", name, ["kyber", "bfq", "kyber"])) == said


@pytest.mark.parametrize(("name", "near"), [("nosuch", None), ("nome", "none"), ("mq", None)])
def test_only_a_similar_name_is_proposed(name: str, near: str | None) -> None:
    said = str(errors.unknown("scheduler", name, ["bfq", "kyber", "mq-deadline", "none"]))
    found = re.search("did you mean '(.*?)'", said)
    assert (found and found[1]) == near


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--minutes 0", "--minutes: give more than 0"),
        ("--minutes -1", "--minutes: give more than 0"),
        ("--minutes nan", "--minutes: give more than 0"),
        ("--seeds 0", "--cpus and --seeds are 1 at least"),
        ("--cpus 0", "--cpus and --seeds are 1 at least"),
        ("--replay 7 --seed 1", "--replay is one storm: give no --seed, --seeds or --minutes"),
        ("--replay 7 --minutes 0", "--replay is one storm: give no --seed, --seeds or --minutes"),
    ],
)
def test_a_storm_that_would_run_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    assert cli.main(["storm", "triage", *words.split()]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_message_names_an_argument_as_the_help_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["list", "drive"])
    assert "argument drives: invalid choice" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0100", "00", "+1", "1_0", "٣", "²", " 1", "", "0x4"])
def test_only_what_everybody_reads_alike_is_a_number(text: str) -> None:
    assert not settings.is_number(text)


def test_zero_is_a_number() -> None:
    assert settings.is_number("0") and settings.is_number("100")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[set]\nZ = 3", "unknown name in {}: set, 'Z'"),
        ('[set]\n"kybr.x" = 1', "unknown scheduler in kybr.x 'kybr': did you mean 'kyber'"),
        ('[set]\n"kyber.x" = "010"', "{}: set.kyber.x: 010 is octal for a kernel"),
        ('[set]\n"kyber.x.y" = 1', "{}: set.kyber.x.y: a name has one dot at most"),
        ('[set]\n"kyber.x" = 1\n"iosched.kyber.x" = 2', "kyber.x is given twice; give it once"),
        ("[set]\napps = 1\n[vary]\napps = [1, 2]", "{}: set.apps has no effect, because vary.apps"),
        ("[vary]\ntypo = [1, 2]", "unknown name in {}: vary.typo, 'typo'"),
        ('[vary]\n"kybr.x" = [1, 2]', "unknown scheduler in kybr.x 'kybr': did you mean 'kyber'"),
        ('[vary]\napps = [1, "010"]', "{}: vary.apps: 010 is octal for a kernel"),
        ('[vary]\n"kyber.x" = [1]\n"iosched.kyber.x" = [2]', "kyber.x is given twice"),
        ("[vary.x]\na = {{ typo = 1 }}\nb = {{}}", "unknown name in {}: vary.x, 'typo'"),
        ('[vary.x]\na = {{ apps = "01" }}', "{}: vary.x.a.apps: 01 is octal for a kernel"),
        ("[vary.x]\na = {{}}\nb = {{}}", "{}: vary.x sets nothing in any of its cases"),
        ("[quick]\nvary = {{ apps = [] }}", "{}: quick.vary.apps must be a list of something"),
        ("[quick]\nschedulers = []", "{}: quick.schedulers must be a list of something"),
        ("[quick]\nvary = {{ typo = [1] }}", "unknown name to vary 'typo'"),
        ('[quick]\nvary = {{ "kybr.x" = [1] }}', "unknown scheduler in kybr.x 'kybr'"),
        ('[quick]\nvary = {{ apps = ["01"] }}', "{}: quick.vary.apps: 01 is octal for a kernel"),
    ],
)
def test_an_experiment_says_nothing_that_has_no_effect(made: Path, text: str, message: str) -> None:
    path = made / "experiment.toml"
    path.write_text('title = "A title"\nquestion = "A question?"\n' + text.format())
    for quick in (False, True):
        with pytest.raises(RequestError, match=re.escape(message.format(path))):
            experiments.find("made", quick=quick)


def test_a_number_is_the_same_value_however_an_experiment_writes_it(made: Path) -> None:
    path = made / "experiment.toml"
    path.write_text(
        'title = "A title"\nquestion = "A question?"\n'
        '[vary]\napps = [1, "1", 2]\n[vary.more]\n1 = { level = 3 }\n2 = {}\n'
    )
    assert [point["apps"] for point in experiments.find("made", {"more": (1,)}).points] == [1, 2]


def test_a_measure_of_a_study_is_read_like_an_experiment(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    page = "[[page]]\nname = 'a'\nquestion = 'b?'\nmeasures = ['m']\n"
    for vary, message in {
        '{ "kybr.x" = [1] }': "unknown scheduler in kybr.x 'kybr'",
        '{ "bs" = ["010"] }': f"{path}: measure.m.vary.bs: 010 is octal",
    }.items():
        path.write_text(f"{page}[measure.m]\nexperiment = 'overhead'\nvary = {vary}\n")
        with pytest.raises(RequestError, match=re.escape(message)):
            study.load(path)


def test_a_metric_to_judge_by_that_there_is_none_of(made: Path) -> None:
    path = made / "experiment.toml"
    path.write_text('judged_by = ["total_iop"]\n' + path.read_text())
    with pytest.raises(RequestError, match=r"judged_by.*did you mean 'total_iops'"):
        experiments.find("made")


def test_a_metric_of_a_job_is_none_of_a_whole_run(made: Path) -> None:
    path = made / "experiment.toml"
    path.write_text('judged_by = ["p99_us"]\n' + path.read_text())
    with pytest.raises(RequestError, match=r"unknown metric of whole runs"):
        experiments.find("made")


def test_a_job_file_runs_on_what_is_the_default_of_all(tmp_path: Path) -> None:
    """A job file runs on `flash` by default, as docs/experiment-files.md promises."""
    path = tmp_path / "mine.fio"
    path.write_text("[a]\nrw=read\n")
    assert experiments.find(str(path)).device == experiments.Experiment.device == "flash"
