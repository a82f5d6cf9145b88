# SPDX-License-Identifier: GPL-2.0-only
"""Read, apply and build the bugs in seeded/: patches of our schedulers.

Checks must catch most bugs. Storms must catch the bugs that show only in some interleavings: a
check in real time would need luck, but a storm's seed finds the same bug on every computer. Unit
tests must catch the bugs that their loads show more clearly than a guest does.

Run as a program, this file updates the table of bugs in seeded/README.md.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from triagelab.base import sources, tools
from triagelab.check import verify
from triagelab.provision import kernels, modules
from triagelab.run import machines

#: The number of bugs for which one more build folder is worth its cost: the first build in a folder
#: takes 34 s of CPU time, each later one 3 to 8 s.
_PER_FOLDER = 8

#: A class of bugs. build() returns bugs of the same class as those that it is given.
Kind = TypeVar("Kind", bound="Bug")

SEEDED = Path(__file__).parent / "seeded"
TABLE = SEEDED / "README.md"
PATCH = tools.Tool("patch", "patch")


@dataclass(frozen=True)
class Bug:
    """A bug: a patch of one file of a scheduler, and a pattern of the message that reports it."""

    patch: Path
    scheduler: str
    file: str
    says: str

    def __str__(self) -> str:
        return f"{self.scheduler}-{self.patch.stem}"


@dataclass(frozen=True)
class Checked(Bug):
    """A bug that a check must catch, on a kernel of this series and this machine (sim or vm)."""

    check: str
    series: str
    place: verify.Place


@dataclass(frozen=True)
class Stormed(Bug):
    """A bug that one of the first `seeds` storms must catch."""

    seeds: int


@dataclass(frozen=True)
class UnitTested(Bug):
    """A bug that one function of a unit test in tests/kernel-unit must catch when run alone."""

    test: str
    function: str


def seeded() -> Iterable[Bug]:
    """Yield every bug, as the headers of the patches describe it."""
    for patch in sorted(SEEDED.glob("*.patch")):
        text = patch.read_text()
        says = re.search(r"^Says: (.+)$", text, re.M)
        (touched,) = re.findall(r"^\+\+\+ b/kernel/(([^/]+)/\S+)", text, re.M)
        assert says, patch
        file, scheduler = touched
        if found := re.search(r"^Caught-by: storm (\d+)$", text, re.M):
            yield Stormed(patch, scheduler, file, says[1], int(found[1]))
            continue
        if found := re.search(r"^Caught-by: unit (\S+) (\S+)$", text, re.M):
            yield UnitTested(patch, scheduler, file, says[1], found[1], found[2])
            continue
        found = re.search(r"^Caught-by: (\S+) (?:(debug|kcsan|6\.1) )?(sim|vm)(\d)$", text, re.M)
        assert found, patch
        check, variant, machine, cpus = found.groups()
        series = kernels.DEFAULT_SERIES + (f"-{variant}" if variant else "")
        if variant in kernels.SERIES:
            series = variant
        place = verify.Place(machine, int(cpus))
        yield Checked(patch, scheduler, file, says[1], check, series, place)


def said(name: str) -> dict[str, str]:
    """Return, by patch's name, the text after `name:` in each header that has such a line."""
    pattern = re.compile(rf"^{name}: (.+)$", re.M)
    found = ((patch, pattern.search(patch.read_text())) for patch in SEEDED.glob("*.patch"))
    return {patch.stem: match[1] for patch, match in sorted(found) if match}


def table() -> str:
    """Return the table of bugs in Markdown, made from the patches' headers."""
    by, also = said("Caught-by"), said("Also")
    rows = [
        f"| `{name}` | {bug} | {by[name]} | {also.get(name, '')} |"
        for name, bug in said("Bug").items()
    ]
    return "\n".join(["| patch | bug | caught by | also by |", "|---|---|---|---|", *rows, ""])


def put(bug: Bug, sources: Path) -> None:
    """Apply a bug's patch to `sources`, a copy of the modules' sources; fail if it does not fit."""
    # Without --fuzz=0 patch could apply a hunk at a place that only resembles its context.
    command = [
        *(tools.path(PATCH), "--fuzz=0", "-s", "-f"),
        *(str(sources / bug.file), str(bug.patch)),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{bug.patch.name} does not apply:\n{done.stdout}"


def build(
    kernel: kernels.Kernel, wanted: Sequence[Kind], folder: Path, storm: bool = False
) -> dict[Kind, Path]:
    """Build a scheduler's module with each bug; return each bug's file, called NAME-iosched.ko.

    Build in several folders side by side, at most one for each core. Build the bugs of a folder one
    after another: make then compiles only the files that differ. Bugs in headers come last: after a
    change of a header, make compiles all files again. With `storm`, the modules have yield points.
    """
    if not wanted:
        return {}
    ordered = sorted(wanted, key=lambda bug: (bug.file.endswith(".h"), bug.file))
    lanes = min(machines.cores(), -(-len(ordered) // _PER_FOLDER))
    each = -(-len(ordered) // lanes)
    parts = [ordered[begin : begin + each] for begin in range(0, len(ordered), each)]
    with ThreadPoolExecutor(lanes) as pool:
        made = [
            pool.submit(_build_in_turn, kernel, part, folder / str(lane), storm)
            for lane, part in enumerate(parts)
        ]
        return {bug: module for lane in made for bug, module in lane.result().items()}


def _build_in_turn(
    kernel: kernels.Kernel, wanted: Sequence[Kind], folder: Path, storm: bool
) -> dict[Kind, Path]:
    source = folder / "kernel"
    names = {"Kbuild", "Makefile", "compat", "include", *(bug.scheduler for bug in wanted)}
    if storm:  # the module storm defines the function that yield points call
        names.add("storm")
    source.mkdir(parents=True)
    for name in names:
        origin = sources.MODULES / name
        (shutil.copytree if origin.is_dir() else shutil.copyfile)(origin, source / name)
    found = {}
    for bug in wanted:
        put(bug, source)
        built = modules.build(kernel, source, folder / "out", storm)
        name = f"{bug.scheduler}-iosched.ko"
        found[bug] = folder / bug.patch.stem / name
        found[bug].parent.mkdir()
        shutil.copyfile(built / name, found[bug])
        shutil.copyfile(sources.MODULES / bug.file, source / bug.file)
    return found


def main() -> None:
    """Update the table in seeded/README.md from the patches' headers."""
    before = TABLE.read_text().partition("| patch |")[0]
    TABLE.write_text(before + table())


if __name__ == "__main__":
    main()
