# SPDX-License-Identifier: GPL-2.0-only
"""Tests of options that several commands share: --resume finds the folder to continue."""

import argparse
from pathlib import Path

import pytest
from triagelab import cli
from triagelab.base.errors import RequestError
from triagelab.commands import options, request
from triagelab.run import rundir

RESUME = argparse.Namespace(out=None, resume=True)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which commands without --out put their results."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


def begun(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "environment.json").touch()


def test_the_newest_of_this_experiment_is_gone_on_with(results: Path) -> None:
    for name in ("mixed-20260102-030405", "mixed-20260103-000000", "mixed-hdd-20260104-000000"):
        begun(results / name)
    (results / "mixed-20260105-000000").mkdir()  # without environment.json, it cannot be continued
    found = options.folder(RESUME, "mixed", "environment.json")
    assert found == Path("results/mixed-20260103-000000")


def test_what_a_new_folder_is_called_is_what_is_looked_for(results: Path) -> None:
    name = "mine[1]"  # like the name of a job file; [1] is also a pattern of glob
    new = rundir.new_folder(None, name)
    begun(new)
    assert options.folder(RESUME, name, "environment.json") == new


def test_another_experiments_folder_is_none_to_go_on_with(results: Path) -> None:
    begun(results / "mixed-hdd-20260104-000000")
    with pytest.raises(RequestError, match="nothing to resume: there is no results/mixed-DATE"):
        options.folder(RESUME, "mixed", "environment.json")


def test_a_folder_that_does_not_exist_is_not_begun_by_resume(tmp_path: Path) -> None:
    """A mistyped --out must not start a whole new measurement."""
    given = argparse.Namespace(out=tmp_path / "mistyped", resume=True)
    with pytest.raises(RequestError, match=r"nothing to resume: .*/mistyped does not exist"):
        options.folder(given, "mixed", "environment.json")
    given.out.mkdir()  # as after an interruption before the first run
    assert options.folder(given, "mixed", "environment.json") == given.out


@pytest.mark.parametrize("words", [["study"], ["run", "mixed-priority"]])
def test_a_folder_with_files_is_refused_before_anything_is_built(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    def prepare(*_: object) -> None:
        raise AssertionError("prepare() was called")

    monkeypatch.setattr(request, "prepare", prepare)
    (tmp_path / "file").touch()
    assert cli.main([*words, "--out", str(tmp_path)]) == 2
    assert f"--out {tmp_path} exists; give another, or --resume" in capsys.readouterr().err
