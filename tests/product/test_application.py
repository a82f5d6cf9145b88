# SPDX-License-Identifier: GPL-2.0-only
"""A real application beside fio's jobs, from packages to figures."""

import json
from pathlib import Path

from tests.product.product import triage


def test_an_application_is_measured_and_its_load_ends_with_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["run", "source-tree", "--schedulers", "none", "--repeats", "1", "--out", out]
    done = triage(*words, "--vary", "task=checkout", "--vary", "load=readers", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    p50 = {
        bool(row["point"].get("alone")): row["mean"]
        for row in rows
        if (row["job"], row["metric"]) == ("source-tree", "p50_us")
    }
    assert p50[False] > 2 * p50[True] > 0, "beside a load it takes longer than alone"
    # fio's jobs would have gone on for an hour.
    (run,) = (path for path in (out / "runs").glob("*") if "alone" not in path.name)
    text = (run / "out/fio.json").read_text()
    threads = json.loads(text[text.find("{") :])["jobs"]
    operations = (run / "out/operations.csv").read_text().split()
    ended_s = float(operations[-1].split(",")[0])
    assert len(operations) == 3
    for thread in threads:
        assert thread["read"]["io_bytes"] > 0
        assert abs(thread["job_runtime"] / 1000 - ended_s) < 1
