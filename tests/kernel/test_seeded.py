# SPDX-License-Identifier: GPL-2.0-only
"""Tests that checks can fail: they catch the bugs in seeded/, in copies of our schedulers.

All selected bugs are built and checked first, in guests side by side. Then each test reads the
result for its own bug. tests/product/test_storm.py tests the bugs that storms find.

With SEEDS=due in the environment, as in `make test`, only a third of the bugs is selected. Which
third depends on the sources: each change has another one, and the same sources the same.
"""

import hashlib
import os
import re
from typing import cast

import pytest
from triagelab.base import sources, tools
from triagelab.check import verify
from triagelab.provision import kernels, modules

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
        and not item.get_closest_marker("skip")
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
#: With SEEDS=due, one in this many bugs is selected.
PARTS = 3
LEFT_OUT = pytest.mark.skip(reason="due for other sources; make test SEEDS=all has all bugs")


def selection(choice: str, content: bytes) -> list[bugs.Checked]:
    """Return the bugs to check: `all`, or those that are `due` for sources with this content."""
    if choice == "all":
        return CHECKED
    assert choice == "due", f"SEEDS is {choice}, not all or due"
    part = hashlib.sha256(content).digest()[0] % PARTS
    return CHECKED[part::PARTS]


def content() -> bytes:
    """Return the content of what decides whether a bug is caught: modules and checks."""
    folders = (sources.MODULES, verify.CHECKS)
    found = (path for folder in folders for path in sorted(folder.rglob("*.[chs]*")))
    return b"".join(path.read_bytes() for path in found if path.is_file())


SELECTED = selection(os.environ.get("SEEDS", "all"), content())


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=() if bug in SELECTED else LEFT_OUT) for bug in CHECKED],
    ids=str,
)
def test_caught(bug: bugs.Checked, results: dict[bugs.Checked, verify.Result]) -> None:
    result = results[bug]
    print(result.log)
    assert result.state == "fail", f"{bug.check} finds nothing wrong"
    assert re.search(bug.says, result.log), f"{bug.check} finds something else wrong"


def test_there_is_a_bug_for_each_kind_of_mistake() -> None:
    assert len(CHECKED) >= 8


def test_each_bug_is_due_for_some_sources() -> None:
    due = [selection("due", bytes([n])) for n in range(50)]
    assert {bug for part in due for bug in part} == set(CHECKED)
    assert max(map(len, due)) <= -(-len(CHECKED) // PARTS)
    assert selection("all", b"") == CHECKED
