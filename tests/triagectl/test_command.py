# SPDX-License-Identifier: GPL-2.0-only
"""Test the command line, called as users call it."""

import argparse
import os
import subprocess
from pathlib import Path

import pytest

from tests.triagectl.machine import Machine
from triagectl import command, trial

LAUNCHER = Path(command.__file__).parent / "triagectl"


def test_through_a_link_and_whatever_python_is_told(tmp_path: Path) -> None:
    link = tmp_path / "triagectl"
    link.symlink_to(LAUNCHER)
    (tmp_path / "argparse.py").write_text("raise SystemExit(9)")
    done = subprocess.run(
        [link, "--help"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for name in ("status", "top", "explain", "try", "doctor"):
        assert f"\n    {name} " in done.stdout
    assert "put-back" not in done.stdout


def subcommands() -> dict[str, argparse.ArgumentParser]:
    for action in command.parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("no subcommands")


def test_every_option_has_a_help_text() -> None:
    for name, one in subcommands().items():
        if name != "put-back":
            assert one.description
            assert not [a.dest for a in one._actions if not a.help], name


@pytest.mark.parametrize(
    "words",
    [
        "top --interval 0.1",
        "top --count 0",
        "top sdz",
        "explain sdz",
        "try sda --for 3s --scheduler bfq",
        "try sda --for 2d --scheduler bfq",
        "try sda --set fifo_batch",
        "try sda",
        "status --pid 0",
        "status --pid 1 --unit x",
        "status --unit x",
        "bogus",
    ],
)
def test_a_request_without_sense_ends_with_2(
    words: str, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.disk()
    try:
        status = command.main(words.split(), machine.system)
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 2
    assert capsys.readouterr().err.strip()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "a=1", "--set", "b=2", "--set", "a=2"], "'a' has two values"),
        (["--scheduler", ""], "'': give the name of a scheduler"),
        (["--undo", "--scheduler", "bfq"], "--undo takes no other option"),
        (["--undo", "--set", "a=1"], "--undo takes no other option"),
        (["--undo", "--for", "2m"], "--undo takes no other option"),
        (["--undo", "--json"], "--undo takes no other option"),
    ],
)
def test_an_option_of_try_that_would_have_no_effect_is_refused(
    words: list[str], told: str, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.disk(a=1, b=1)
    try:
        status = command.main(["try", "sda", *words], machine.system)
    except SystemExit as ended:
        status = int(str(ended.code))
    assert (status, told in capsys.readouterr().err) == (2, True)


def test_a_try_takes_two_minutes_if_no_time_is_given(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[trial.Options] = []

    def run(_: object, options: trial.Options) -> int:
        given.append(options)
        return 0

    monkeypatch.setattr(trial, "run", run)
    assert command.main(["try", "sda", "--scheduler", "bfq"], machine.system) == 0
    assert command.main(["try", "sda", "--undo"], machine.system) == 0
    assert [(one.seconds, one.undo) for one in given] == [(120.0, False), (120.0, True)]


def test_explain_takes_no_number_of_a_container(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.disk()
    link = machine.root / "proc/self/ns/pid"
    link.parent.mkdir(parents=True)
    for inode, told in (("4026531836", "tracefs"), ("4026532215", "outside of it")):
        link.unlink(missing_ok=True)
        link.symlink_to(f"pid:[{inode}]")
        assert command.main(["explain", "sda", "--pid", "1"], machine.system) == 2
        assert told in capsys.readouterr().err


def test_without_tracefs_it_says_what_to_do(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.disk()
    assert command.main(["top", "sda"], machine.system) == 2
    assert "mount -t tracefs" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["x", "1.5", "0", "-1"])
def test_a_number_that_is_none_is_told_in_words(
    count: str, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(["top", f"--count={count}"], machine.system)
    assert f"'{count}': give a whole number" in capsys.readouterr().err
