# SPDX-License-Identifier: GPL-2.0-only
"""An interrupted `./triage matrix` keeps the results of the kernels that are done."""

import json
from pathlib import Path
from typing import Any

import pytest
from triagelab import cli
from triagelab.base import tools
from triagelab.commands import matrix, telling
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
    out = tmp_path / "out"
    words = ["matrix", "--kernel", "6.1", "--kernel", "9.9", "--kernel", "7.3", "--out", str(out)]
    assert cli.main(words) == telling.INTERRUPTED
    record = json.loads((out / "matrix.json").read_text())
    assert [kernel["series"] for kernel in record["kernels"]] == ["6.1"]
    assert record["result"] == "pass"
    assert "matrix.json" in capsys.readouterr().err
