# SPDX-License-Identifier: GPL-2.0-only
"""The README's commands, as a new user gives them: in a copy that nothing was built in."""

import asyncio
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from triagelab import kernels, machines, modules

from tests.product.product import ROOT

README = (ROOT / "README.md").read_text()


def commands(kind: str) -> list[str]:
    """The lines of all code blocks of one kind."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```", README, re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new-user") / "triage"
    leftovers = shutil.ignore_patterns(".git", "build", "results", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, folder, ignore=leftovers, symlinks=True)
    return folder


@pytest.mark.parametrize("command", commands("sh"))
def test_command(command: str, copy: Path) -> None:
    if command == "make test":
        pytest.skip("'make test' is what runs this")
    begin = time.monotonic()
    done = subprocess.run(
        ["sh", "-c", command], cwd=copy, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(f"{command}: {time.monotonic() - begin:.0f} s")


def test_the_demo_has_answered_for_every_scheduler(copy: Path) -> None:
    (report,) = (copy / "results").glob("mixed-priority-*/report.html")
    text = report.read_text()
    for scheduler in (*modules.KERNELS_OWN, *modules.own_schedulers()):
        assert scheduler in text


def test_the_scheduler_on_a_real_machine(tmp_path: Path) -> None:
    """Those commands in a guest, whose disk is a null_blk."""
    lines = [line.replace("sdX", "nullb0") for line in commands("sh real-machine")]
    assert any("insmod" in line for line in lines)
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    module = "triage-iosched.ko"
    script = "\n".join(
        [
            "#!/bin/sh -ex",
            "modprobe null_blk",
            "mkdir /backup /data && echo precious > /data/file",
            *lines[:2],
            "grep '.triage.' /sys/block/nullb0/queue/scheduler > out/chosen",
            *lines[2:],
            "cat /sys/block/nullb0/queue/scheduler >> out/chosen",
            "tar -tf /backup/all.tar >> out/chosen",
        ]
    )
    files: dict[str, Path | str] = {
        "run": script,
        f"build/{kernel.release}/{module}": modules.build(kernel) / module,
    }
    machine = machines.make("sim", kernel)
    job = machines.Job(files)
    outcome = asyncio.run(machine.run(job, tmp_path))
    assert outcome.status == 0, (tmp_path / "console.log").read_text()
    chosen, after, *archived = (outcome.folder / "chosen").read_text().splitlines()
    assert "[triage]" in chosen
    assert "[mq-deadline]" in after
    assert "data/file" in archived
