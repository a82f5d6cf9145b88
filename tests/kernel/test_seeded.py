# SPDX-License-Identifier: GPL-2.0-only
"""Each check can fail: the bugs in seeded/, put into copies of our schedulers, are each caught.

A patch says which check must catch it, where, and what the check then says. All that are
selected are built by one make for each kernel, then run first, guests side by side; then each
test reads its own result.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from triagelab import kernels, modules, tools, verify

SEEDED = Path(__file__).parent / "seeded"
PATCH = tools.Tool("patch", "patch")


@dataclass(frozen=True)
class Bug:
    """A bug of a scheduler's, as a patch, and what must catch it, saying what (a pattern)."""

    patch: Path
    scheduler: str
    check: str
    says: str
    series: str
    place: verify.Place

    def __str__(self) -> str:
        return f"{self.scheduler}-{self.patch.stem}"


def bugs() -> Iterable[Bug]:
    for patch in sorted(SEEDED.glob("*.patch")):
        text = patch.read_text()
        caught = re.search(r"^Caught-by: (\S+) (debug )?(sim|vm)(\d)$", text, re.M)
        says = re.search(r"^Says: (.+)$", text, re.M)
        touched = set(re.findall(r"^\+\+\+ b/kernel/([^/]+)/", text, re.M))
        assert caught and says and len(touched) == 1, patch
        check, debug, machine, cpus = caught.groups()
        series = kernels.DEFAULT_SERIES + (kernels.DEBUG if debug else "")
        place = verify.Place(machine, int(cpus))
        yield Bug(patch, touched.pop(), check, says[1], series, place)


def build(kernel: kernels.Kernel, seeded: Iterable[Bug], folder: Path) -> dict[Bug, Path]:
    """The modules with a bug, each under its scheduler's own file name."""
    source = folder / "kernel"
    for name in ("Kbuild", "Makefile", "compat", "include"):
        origin = modules.SOURCE / name
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if origin.is_dir() else shutil.copyfile)(origin, target)
    for bug in seeded:
        stage = folder / "stage"
        shutil.copytree(modules.SOURCE / bug.scheduler, stage / "kernel" / bug.scheduler)
        command = [tools.path(PATCH), "-s", "-p1", "-d", str(stage), "-i", str(bug.patch)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{bug.patch.name} does not apply:\n{done.stdout}"
        made = source / bug.patch.stem
        (stage / "kernel" / bug.scheduler).rename(made)
        # In one build no two modules may have one name.
        kbuild = (made / "Kbuild").read_text()
        (made / "Kbuild").write_text(kbuild.replace(bug.scheduler + "-iosched", bug.patch.stem))
        shutil.rmtree(stage)
    built = modules.build(kernel, source, folder / "out")
    found = {}
    for bug in seeded:
        found[bug] = folder / bug.patch.stem / f"{bug.scheduler}-iosched.ko"
        found[bug].parent.mkdir()
        (built / f"{bug.patch.stem}.ko").rename(found[bug])
    return found


@pytest.fixture(scope="session")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[Bug, verify.Result]:
    """What the check that must catch a bug said, for every selected bug."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    selected = [cast(Bug, item.callspec.params["bug"]) for item in items if item.obj is test_caught]
    tools.require([PATCH])
    checks = {check.name: check for check in verify.checks()}
    guests = {}
    for series in {bug.series for bug in selected}:
        kernel = kernels.find(series)
        files = {path.name: path for path in modules.build(kernel).glob("*.ko")}
        folder = tmp_path_factory.mktemp("seeded")
        wanted = [bug for bug in selected if bug.series == series]
        for bug, module in build(kernel, wanted, folder).items():
            ours = tuple((files | {module.name: module}).values())
            check = [checks[bug.check]]
            guests[bug] = verify.Guest(
                kernel, bug.scheduler, ours, bug.place, check, folder / f"guest-{bug.patch.stem}"
            )
    verify.run(list(guests.values()))
    return {bug: guest.results[0] for bug, guest in guests.items()}


@pytest.mark.parametrize("bug", list(bugs()), ids=str)
def test_caught(bug: Bug, results: dict[Bug, verify.Result]) -> None:
    result = results[bug]
    print(result.log)
    assert result.state == "fail", f"{bug.check} finds nothing wrong"
    assert re.search(bug.says, result.log), f"{bug.check} finds something else wrong"


def test_there_is_a_bug_for_each_kind_of_mistake() -> None:
    assert len(list(bugs())) >= 8
