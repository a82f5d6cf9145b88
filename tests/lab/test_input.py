# SPDX-License-Identifier: GPL-2.0-only
"""The lab uses a user's input, or refuses it and names the remedy; it ignores nothing."""

from pathlib import Path

import pytest
from triagelab import cli, experiments, settings
from triagelab.errors import RequestError

from tests.lab.test_experiments import made

__all__ = ["made"]
RUN = ["run", "mixed-priority"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--vary", "bs=4k", "--vary", "bs=64k"],
            "bs is varied twice; give all its",
        ),
        (["--vary", "bs=4k,,8k"], "expected NAME=VALUE,VALUE"),
        (
            ["--vary", "offset=0100"],
            "0100 is octal for a kernel",
        ),
        (
            ["--set", "kyber.x=1", "--set", "iosched.kyber.x=2"],
            "kyber.x is set twice",
        ),
        (["--set", "kyber.x=010"], "write 10, or 0x8"),
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
    except SystemExit as error:  # of argparse
        status = int(str(error.code))
    said = " ".join(capsys.readouterr().err.split())
    assert (status, message in said) == (2, True), said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["0100", "00", "+1", "1_0", "٣", "²", " 1", "", "0x4"])
def test_only_what_everybody_reads_alike_is_a_number(text: str) -> None:
    assert not settings.is_number(text)


def test_zero_is_a_number() -> None:
    assert settings.is_number("0") and settings.is_number("100")


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
    """As README says."""
    path = tmp_path / "mine.fio"
    path.write_text("[a]\nrw=read\n")
    assert experiments.find(str(path)).device == experiments.Experiment.device == "flash"
