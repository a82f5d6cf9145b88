# SPDX-License-Identifier: GPL-2.0-only
"""Tests of `./triage matrix` as users call it, on the oldest kernel and the newest."""

import json
from pathlib import Path

from triagelab.provision import kernels

from tests.product.product import triage


def test_builds_for_the_oldest_and_the_newest_kernels_and_verifies(tmp_path: Path) -> None:
    newest = kernels.backported()[-1]
    chosen = [kernels.SERIES[0], newest]
    words = [word for name in chosen for word in ("--kernel", name)]
    done = triage("matrix", *words, "--check", "01", "--json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(done.stdout)
    assert record == json.loads((tmp_path / "out/matrix.json").read_text())
    assert [row["series"] for row in record["kernels"]] == chosen
    for row in record["kernels"]:
        assert row["kernel"].startswith(row["series"])
        assert {build["result"] for build in row["builds"].values()} == {"pass"}
        assert [check["result"] for check in row["checks"]["checks"]] == ["pass"]
        assert all(part["processor_s"] > 1 for part in [*row["builds"].values(), row["checks"]])


def test_an_unknown_scheduler_is_refused_before_anything_is_fetched() -> None:
    done = triage("matrix", "triag", "--kernel", "0.1")
    assert (done.returncode, "did you mean 'triage'?" in done.stderr) == (2, True), done.stderr
