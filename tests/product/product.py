# SPDX-License-Identifier: GPL-2.0-only
"""The product as its users have it: the launcher, called as a program."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: A workload that is over in a second of the guest's time.
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
        timeout=900,
    )


def qemus(marker: Path) -> list[str]:
    """The QEMU processes that have `marker` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text(errors="replace").split("\0")
        except OSError:
            continue
        if "qemu" in words[0] and str(marker) in " ".join(words):
            found.append(path.parent.name)
    return found
