# SPDX-License-Identifier: GPL-2.0-only
"""Help tests to use the product like its users: call ./triage, and run documents' commands."""

import asyncio
import os
import re
import subprocess
from pathlib import Path

from triagelab.plan.machine import Job
from triagelab.provision import kernels
from triagelab.run import machines

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
OPERATE = (ROOT / "docs/operate.md").read_text()
#: The disk in a guest: a null_blk.
DISK = "nullb0"

#: A workload of one second of the guest's time.
SMALL = """\
[global]
ioengine=libaio
direct=1
time_based=1
runtime=1
prioclass=2
[urgent]
rw=randread
bs=4k
prio=1
[bulk]
rw=randread
bs=64k
iodepth=16
prio=7
"""


def triage(
    *arguments: object, environment: dict[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Call ./triage and wait for it."""
    return subprocess.run(
        [ROOT / "triage", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3600,
    )


def blocks(kind: str, document: str) -> list[str]:
    """Return a document's code blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```", document, re.M | re.S)


def in_guest(lines: list[str], kernel: kernels.Kernel, module: Path, folder: Path) -> Path:
    """Run a script in a guest with a built scheduler; return the folder of its output.

    `sdX` in the script becomes the guest's disk.
    """
    files: dict[str, Path | str] = {
        "run": "\n".join(["#!/bin/sh -ex", "modprobe null_blk", *lines]).replace("sdX", DISK),
        f"build/{kernel.release}/{module.name}": module,
    }
    outcome = asyncio.run(machines.make("sim", kernel).run(Job(files), folder))
    assert outcome.status == 0, (folder / "console.log").read_text()
    return outcome.folder


def qemus(marker: Path) -> list[str]:
    """Return the ids of the QEMU processes that have `marker` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text(errors="replace").split("\0")
        except OSError:
            continue
        if "qemu" in words[0] and str(marker) in " ".join(words):
            found.append(path.parent.name)
    return found
