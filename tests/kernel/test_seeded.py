# SPDX-License-Identifier: GPL-2.0-only
"""Tests that checks can fail: they catch the bugs in seeded/, in copies of our schedulers.

All selected bugs (tests/due.py) are built and checked first, in guests side by side. Then each test
reads the result for its own bug. A few bugs need no guest, because unit tests catch them.
tests/product/test_storm.py tests the bugs that storms find.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import cast

import pytest
from triagelab.base import sources, tools
from triagelab.check import verify
from triagelab.provision import kernels, modules

from tests import due
from tests.kernel import bugs, clock


@pytest.fixture(scope="session")
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[bugs.Checked, verify.Result]:
    """Build every selected bug, and run the check that must catch it; return the results."""
    selected = {
        cast(bugs.Checked, item.callspec.params["bug"]): item.nodeid
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.obj is test_caught
        and not due.is_left_out(item)
    }
    tools.require([bugs.PATCH])
    checks = {check.name: check for check in verify.checks()}
    found: dict[bugs.Checked, verify.Result] = {}
    # Bugs on a debug kernel come last, because conftest.py builds it meanwhile.
    for debug in (False, True):
        guests = {}
        for series in sorted({bug.series for bug in selected}):
            if kernels.looks_for_bugs(series) != debug:
                continue
            kernel = kernels.find(series)
            files = {path.name: path for path in modules.build(kernel).glob("*.ko")}
            folder = tmp_path_factory.mktemp("seeded")
            wanted = [bug for bug in selected if bug.series == series]
            for bug, module in bugs.build(kernel, wanted, folder).items():
                ours = tuple((files | {module.name: module}).values())
                check = [checks[bug.check]]
                guests[bug] = verify.Guest(
                    kernel,
                    bug.scheduler,
                    ours,
                    bug.place,
                    check,
                    folder / f"guest-{bug.patch.stem}",
                )
        clock.run(request, {selected[bug]: (guest, bug.check) for bug, guest in guests.items()})
        found |= {bug: guest.results[0] for bug, guest in guests.items()}
    return found


CHECKED = [bug for bug in bugs.seeded() if isinstance(bug, bugs.Checked)]


def own_files(bug: bugs.Checked) -> list[Path]:
    return [bug.patch, verify.CHECKS / f"{bug.check}.sh"]


@pytest.mark.parametrize("bug", due.selected(CHECKED, own_files), ids=str)
def test_caught(bug: bugs.Checked, results: dict[bugs.Checked, verify.Result]) -> None:
    result = results[bug]
    print(result.log)
    assert result.state == "fail", f"{bug.check} finds nothing wrong"
    assert re.search(bug.says, result.log), f"{bug.check} finds something else wrong"


@pytest.mark.parametrize(
    "bug", [bug for bug in bugs.seeded() if isinstance(bug, bugs.UnitTested)], ids=str
)
def test_a_unit_test_catches(bug: bugs.UnitTested, tmp_path: Path) -> None:
    tools.require([bugs.PATCH, tools.GCC, tools.MAKE])
    for folder in ("kernel", "tests/kernel-unit", "drives"):
        shutil.copytree(sources.ROOT / folder, tmp_path / folder)
    bugs.put(bug, tmp_path / "kernel")
    command = ["make", "-C", str(tmp_path / "kernel"), f"O={tmp_path / 'out'}", "CC=gcc-12", "unit"]
    done = subprocess.run(
        [*command, f"TEST={bug.test}", f"ONLY={bug.function}"], capture_output=True, text=True
    )
    assert done.returncode != 0, f"{bug.function} finds nothing wrong"
    assert re.search(bug.says, done.stderr), f"{bug.function} finds something else wrong"


def test_there_is_a_bug_for_each_kind_of_mistake() -> None:
    assert len(CHECKED) >= 8


def test_a_bug_has_a_patch_and_a_check_that_make_it_due() -> None:
    for bug in CHECKED:
        assert len({path for path in own_files(bug) if path.is_file()}) == 2


def test_each_bug_is_due_at_one_of_four_commits() -> None:
    parts = [due.due(CHECKED, number) for number in range(839, 839 + due.PARTS)]
    assert {bug for part in parts for bug in part} == set(CHECKED)
    assert max(map(len, parts)) <= -(-len(CHECKED) // due.PARTS)
