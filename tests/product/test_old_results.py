# SPDX-License-Identifier: GPL-2.0-only
"""Tests that results of an older version stay readable: keys and measured values do not change.

`data/results-0.1.tar.xz` is a results folder of version 0.1, with the summary that 0.1 made. Its
runs are made up: tests/lab/rundirs.py of the last commit before 0.2 (79409e5^) wrote them. They are
three repeats under none, three under prio-basic, and three of the protected job alone. Its
environment.json has the keys that 0.1 wrote.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.product.product import triage

ARCHIVE = Path(__file__).parent / "data/results-0.1.tar.xz"
#: Keys of measured values. A later version may judge the values differently, but not change them.
MEASURED = ("unit", "mean", "n", "requests", "starved", "ratio", "a", "b")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    # Use a long name, because users' folders may have long names.
    folder = tmp_path / ("long" * 40) / "results"
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


def rows(summary: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    names = ("point", "scheduler", "job", "metric", "a", "b")
    return {json.dumps([row.get(name) for name in names]): row for row in summary[kind]}


def test_version_0_1(results: Path) -> None:
    environment = json.loads((results / "environment.json").read_text())
    assert environment["schema"] == 1
    assert "version" not in environment, "0.1 did not write its version"
    was = json.loads((results / "summary.json").read_text())
    done = triage("report", results)
    assert done.returncode == 0, done.stderr
    for word in ("prio-basic", "database_sim", "(alone)"):
        assert word in done.stdout
    assert f"report: {results / 'report.html'}" in done.stdout.splitlines()
    assert "A database beside a backup" in (results / "report.html").read_text()
    now = json.loads((results / "summary.json").read_text())
    assert was.keys() <= now.keys()
    for kind in ("rows", "verdicts"):
        before, after = rows(was, kind), rows(now, kind)
        assert len(before) >= 10
        assert before.keys() <= after.keys()
        for name, row in before.items():
            assert row.keys() <= after[name].keys()
            for key in row.keys() & set(MEASURED):
                assert after[name][key] == (
                    pytest.approx(row[key]) if isinstance(row[key], float) else row[key]
                ), (name, key)
