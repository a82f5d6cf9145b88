# SPDX-License-Identifier: GPL-2.0-only
"""The bugs in seeded/: patches of our schedulers, each with the check that must catch it."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from triagelab import kernels, modules, tools, verify

SEEDED = Path(__file__).parent / "seeded"
PATCH = tools.Tool("patch", "patch")


@dataclass(frozen=True)
class Bug:
    """A bug as a patch of a scheduler, the check that must catch it, and its message's pattern."""

    patch: Path
    scheduler: str
    check: str
    says: str
    series: str
    place: verify.Place

    def __str__(self) -> str:
        return f"{self.scheduler}-{self.patch.stem}"


def seeded() -> Iterable[Bug]:
    for patch in sorted(SEEDED.glob("*.patch")):
        text = patch.read_text()
        caught = re.search(r"^Caught-by: (\S+) (?:(debug|kcsan|6\.1) )?(sim|vm)(\d)$", text, re.M)
        says = re.search(r"^Says: (.+)$", text, re.M)
        touched = set(re.findall(r"^\+\+\+ b/kernel/([^/]+)/", text, re.M))
        assert caught and says and len(touched) == 1, patch
        check, variant, machine, cpus = caught.groups()
        if variant in kernels.SERIES:
            series = variant
        else:
            series = kernels.DEFAULT_SERIES + (f"-{variant}" if variant else "")
        place = verify.Place(machine, int(cpus))
        yield Bug(patch, touched.pop(), check, says[1], series, place)


def put(bug: Bug, stage: Path) -> Path:
    """Copy a scheduler's source with a bug into the new folder `stage`."""
    shutil.copytree(modules.SOURCE / bug.scheduler, stage / "kernel" / bug.scheduler)
    command = [tools.path(PATCH), "-s", "-f", "-p1", "-d", str(stage), "-i", str(bug.patch)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{bug.patch.name} does not apply:\n{done.stdout}"
    return stage / "kernel" / bug.scheduler
