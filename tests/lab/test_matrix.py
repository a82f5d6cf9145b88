# SPDX-License-Identifier: GPL-2.0-only
"""Tests of `./triage matrix`: interruptions, and kernels that are misspelt or cannot be fetched."""

import json
from pathlib import Path
from typing import Any

import pytest
from triagelab import cli
from triagelab.base import tools
from triagelab.base.errors import LabError, RequestError
from triagelab.commands import matrix, telling
from triagelab.provision import kernels
from triagelab.run import execute


def test_an_interrupted_matrix_has_the_kernels_that_were_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def row(name: str, *_: object) -> dict[str, Any]:
        if name == "9.9":
            raise execute.StoppedError
        return {"series": name, "kernel": f"{name}.1", "result": "pass"}

    monkeypatch.setattr(matrix, "_row", row)
    monkeypatch.setattr(tools, "require", lambda _: None)
    monkeypatch.setattr(kernels, "find", lambda name: name)
    out = tmp_path / "out"
    words = ["matrix", "--kernel", "6.1", "--kernel", "9.9", "--kernel", "7.3", "--out", str(out)]
    assert cli.main(words) == telling.INTERRUPTED
    record = json.loads((out / "matrix.json").read_text())
    assert [kernel["series"] for kernel in record["kernels"]] == ["6.1"]
    assert record["result"] == "pass"
    assert "matrix.json" in capsys.readouterr().err


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace kernels.find() with a function that fetches nothing.

    The function finds every kernel except 6.21, which Debian lacks, and `runing`, a misspelt name.
    Return the list to which it adds each kernel that it finds.
    """
    found = []

    def find(name: str) -> str:
        if name == "6.21":
            raise LabError("Debian has no 6.21 kernel")
        if name == "runing":
            raise RequestError("unknown kernel 'runing'")
        found.append(name)
        return name

    monkeypatch.setattr(kernels, "find", find)
    monkeypatch.setattr(tools, "require", lambda _: None)
    return found


def test_a_misspelt_kernel_is_refused_before_anything_is_fetched(
    found: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["matrix", "--kernel", "6.1", "--kernel", "runing", "--out", str(tmp_path / "out")]
    assert cli.main(words) == 2
    assert "unknown kernel 'runing'" in capsys.readouterr().err
    assert found == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["6.12-debugg", "6.12-kasan-typo", "6.12-nokcsan"])
def test_a_misspelt_debug_kernel_is_refused_before_anything_is_fetched(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tools, "require", lambda _: None)
    monkeypatch.setattr(kernels, "_distribution", lambda series: pytest.fail(f"fetched {series}"))
    words = ["matrix", "--kernel", "6.1", "--kernel", name, "--out", str(tmp_path / "out")]
    assert cli.main(words) == 2


def test_kernels_are_found_in_the_order_in_which_they_were_named(found: list[str]) -> None:
    names = [f"7.{minor}" for minor in range(9)]
    matrix._found([*names, *names])
    assert found == names


def test_without_a_network_the_kernels_that_are_here_can_be_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def backported() -> list[str]:
        raise LabError("apt-get update failed")

    monkeypatch.setattr(kernels, "backported", backported)
    monkeypatch.setattr(tools, "require", lambda _: None)
    assert cli.main(["matrix", "--out", str(tmp_path / "out")]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "apt-get update failed" in said
    assert "./triage matrix --kernel 6.1 --kernel 6.12" in said
    assert not (tmp_path / "out").exists()


def test_each_kernel_has_its_own_folder(
    found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []

    def row(name: str, _: object, __: str, ___: object, folder: Path, ____: object) -> Any:
        assert folder.parent == tmp_path / "out"
        folders.append(folder.name)
        return {
            "series": name,
            "kernel": name,
            "builds": {},
            "checks": None,
            "result": "pass",
        }

    monkeypatch.setattr(matrix, "_row", row)
    names = ["6.1", "a/b", "a_b"]
    words = [word for name in names for word in ("--kernel", name)]
    assert cli.main(["matrix", *words, "--out", str(tmp_path / "out")]) == 0
    assert len(set(folders)) == 3
    assert folders[0] == "6.1"


def test_a_kernel_that_cannot_be_fetched_fails_alone_and_is_told_first(
    found: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    build = {"result": "pass", "said": "", "processor_s": 1.0}

    def row(name: str, *_: object) -> dict[str, Any]:
        assert "6.21: Debian has no 6.21 kernel" in capsys.readouterr().err
        builds = {"gcc": build, "clang": build}
        checks = {"checks": [], "processor_s": 1.0}
        return {
            "series": name, "kernel": "6.1.9", "builds": builds, "checks": checks, "result": "pass"
        }  # fmt: skip

    monkeypatch.setattr(matrix, "_row", row)
    out = tmp_path / "out"
    assert cli.main(["matrix", "--kernel", "6.21", "--kernel", "6.1", "--out", str(out)]) == 1
    record = json.loads((out / "matrix.json").read_text())
    assert [one["result"] for one in record["kernels"]] == ["fail", "pass"]
    assert record["kernels"][0].keys() == record["kernels"][1].keys()
    assert record["result"] == "fail"
    table = capsys.readouterr().out
    assert "not run" in table and "Debian has no 6.21 kernel" in table
