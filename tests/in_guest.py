# SPDX-License-Identifier: GPL-2.0-only
"""What the tests that run scripts in guests share."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from triagelab import kernels

#: Both kernels that are promised to work.
SERIES = (kernels.DEFAULT_SERIES, "6.1")


@dataclass(frozen=True)
class Place:
    """Where a script runs."""

    machine: str
    cpus: int
    series: str

    def __str__(self) -> str:
        return f"{self.machine}{self.cpus}-{self.series}"


def scripts(folder: Path) -> list[Path]:
    """The properties in a folder, in order."""
    return sorted(folder.glob("[0-9][0-9]-*.sh"))


def places(script: Path) -> Iterator[Place]:
    """Where a script says it runs: `# Machine:` lines, and `sim` with every kernel."""
    for name, cpus in re.findall(r"^# Machine: (sim|vm) ?(\d*)", script.read_text(), re.M):
        for series in SERIES if name == "sim" else SERIES[:1]:
            yield Place(name, int(cpus or 1), series)
