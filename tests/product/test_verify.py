# SPDX-License-Identifier: GPL-2.0-only
"""Tests of `./triage verify` as users call it."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from triagelab.base import sources
from triagelab.provision import kernels, modules

from tests.product.product import ROOT, qemus, triage


def test_a_scheduler_that_passes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = triage("verify", "kyber", "--check", "01", "--check", "03-fifo-in-class", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "1 passed, 1 skipped, 0 failed" in done.stdout
    record = json.loads((out / "verify.json").read_text())
    assert (record["scheduler"], record["result"]) == ("kyber", "pass")
    assert [check["result"] for check in record["checks"]] == ["pass", "skip"]
    assert "thresholds" in record["checks"][1]["reason"]


def test_a_module_somebody_built_that_fails(tmp_path: Path) -> None:
    """`verify` checks a scheduler that this repository lacks, and finds a fault in it.

    The scheduler is kernel/prio-basic under another name and without aging.
    """
    source = tmp_path / "kernel"
    shutil.copytree(sources.MODULES, source)
    folder = source / "foreign"
    (source / "prio-basic").rename(folder)
    for path in (folder / "Kbuild", folder / "prio-basic.c"):
        text = path.read_text().replace("prio-basic", "foreign")
        # Remove the aging, so that check 05 fails.
        path.write_text(text.replace("?: pb_pick_aged(pb) ?:", "?:"))
    (folder / "prio-basic.c").rename(folder / "foreign.c")
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    module = modules.build(kernel, source, tmp_path / "build") / "foreign-iosched.ko"

    words = ["--check", "02", "--check", "05", "--json", "--out", tmp_path / "out"]
    done = triage("verify", "foreign", "--module", module, *words)
    assert done.returncode == 1, done.stderr
    record = json.loads(done.stdout)
    assert [check["result"] for check in record["checks"]] == ["pass", "fail"]
    assert "still waited" in record["checks"][1]["reason"]

    other = triage("verify", "foreign", "--module", module, "--kernel", "6.1")
    assert (other.returncode, "was built for kernel" in other.stderr) == (2, True), other.stderr


def test_interrupted_it_leaves_no_qemu_behind(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [str(ROOT / "triage"), "verify", "kyber", "--check", "24", "--out", str(out)]
    running = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    end = time.monotonic() + 900
    while not qemus(out):
        assert time.monotonic() < end, "no guest was started"
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGINT)
    running.communicate(timeout=300)
    assert running.returncode == 130
    assert not qemus(out)
