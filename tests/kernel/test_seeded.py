# SPDX-License-Identifier: GPL-2.0-only
"""Each check can fail: it catches its bugs in seeded/, put into copies of our schedulers.

One make builds all selected bugs for each kernel. They run first, in guests side by side;
then each test reads its own result.
"""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from triagelab import kernels, modules, tools, verify

from tests.kernel import bugs


def build(
    kernel: kernels.Kernel, wanted: Sequence[bugs.Bug], folder: Path, storm: bool = False
) -> dict[bugs.Bug, Path]:
    """Build a module for each bug, with its scheduler's own file name.

    Where there are several, each module is called after its bug inside.
    """
    source = folder / "kernel"
    for name in ("Kbuild", "Makefile", "compat", "include"):
        origin = modules.SOURCE / name
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if origin.is_dir() else shutil.copyfile)(origin, target)
    for bug in wanted:
        stage = folder / "stage"
        made = bugs.put(bug, stage).rename(source / bug.patch.stem)
        shutil.rmtree(stage)
        if len(wanted) > 1:  # in one build no two modules may have one name
            kbuild = (made / "Kbuild").read_text()
            (made / "Kbuild").write_text(kbuild.replace(bug.scheduler + "-iosched", bug.patch.stem))
    if storm:  # the yield points that they have are its
        shutil.copytree(modules.SOURCE / "storm", source / "storm")
    built = modules.build(kernel, source, folder / "out", storm)
    found = {}
    for bug in wanted:
        found[bug] = folder / bug.patch.stem / f"{bug.scheduler}-iosched.ko"
        found[bug].parent.mkdir()
        name = bug.patch.stem if len(wanted) > 1 else f"{bug.scheduler}-iosched"
        (built / f"{name}.ko").rename(found[bug])
    return found


@pytest.fixture(scope="session")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[bugs.Bug, verify.Result]:
    """Run every selected bug; return the output of the check that must catch it."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    selected = [
        cast(bugs.Bug, item.callspec.params["bug"]) for item in items if item.obj is test_caught
    ]
    tools.require([bugs.PATCH])
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


@pytest.mark.parametrize("bug", list(bugs.seeded()), ids=str)
def test_caught(bug: bugs.Bug, results: dict[bugs.Bug, verify.Result]) -> None:
    result = results[bug]
    print(result.log)
    assert result.state == "fail", f"{bug.check} finds nothing wrong"
    assert re.search(bug.says, result.log), f"{bug.check} finds something else wrong"


def test_there_is_a_bug_for_each_kind_of_mistake() -> None:
    assert len(list(bugs.seeded())) >= 8
