# SPDX-License-Identifier: GPL-2.0-only
"""Test the patch for a kernel's tree: it passes checkpatch, applies, and has every object.

kernel/compat hides differences between kernels. The patch has only the code for its own kernel.
`make release` builds a kernel with the patch.
"""

import re
import subprocess
from pathlib import Path

import pytest
from triagelab.base import tools
from triagelab.provision import kernels

from tests.packaging.system import PACKAGING, ROOT, make

UNIFDEF = tools.Tool("unifdef", "unifdef")


@pytest.fixture(scope="module")
def patch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tools.require([UNIFDEF, tools.PERL, tools.Tool("git", "git"), tools.Tool("patch", "patch")])
    out = tmp_path_factory.mktemp("patch")
    # The target fails if checkpatch reports anything.
    make("kernel-patch", out, f"TREE={kernels.excerpt()}")
    (patch,) = out.glob("*.patch")
    assert patch.name.endswith(f"-linux-{kernels.DEFAULT_SERIES}.patch")
    return patch


def added(patch: Path, name: str) -> str:
    part = re.search(rf"^\+\+\+ b/{name}\n(.*?)(?=^diff |\Z)", patch.read_text(), re.M | re.S)
    assert part, f"{name} is not in the patch"
    return "\n".join(re.findall(r"^\+(.*)$", part[1], re.M))


def test_it_applies_and_has_every_object(patch: Path, tmp_path: Path) -> None:
    tree = tmp_path / "linux"
    subprocess.run(["cp", "-r", kernels.excerpt(), tree], check=True)
    with patch.open() as given:
        done = subprocess.run(
            ["patch", "-p1", "--fuzz=0"], cwd=tree, stdin=given, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stdout
    lines = re.findall(r"^triage-iosched-y .*", (tree / "block/triage/Makefile").read_text(), re.M)
    sources = {path.stem for path in (tree / "block/triage").glob("*.c")}
    assert set(re.findall(r"(\w+)\.o", "".join(lines))) == sources
    assert sources == {path.stem for path in (ROOT / "kernel/triage").glob("*.c")}
    assert 'source "block/triage/Kconfig"' in (tree / "block/Kconfig.iosched").read_text()


def test_nothing_of_the_layer_over_kernels_is_left(patch: Path) -> None:
    text = patch.read_text()
    assert not re.search(
        r"^\+.*(IOSCHED_(MUST|DEPTH|INSERT|INIT|HAS|POLICY|ALLOC|CONF)|yield_point|STORM)",
        text,
        re.M,
    )
    assert not re.search(r"^\+.*\b(docs|tests|lab|compat)/", text, re.M)
    assert "static int tg_init_sched(struct request_queue *q, struct elevator_type *type)" in added(
        patch, "block/triage/main.c"
    )


def test_the_document_has_every_tunable(patch: Path) -> None:
    document = added(patch, "Documentation/block/triage-iosched.rst")
    source = (ROOT / "kernel/triage/tunables.c").read_text()
    tunables = re.findall(r"^\tTG_ATTR\((\w+)\)", source, re.M)
    assert tunables
    assert [name for name in tunables if f"``{name}``" not in document] == []


@pytest.mark.parametrize("missing", ["block/elevator.h", "block/Kconfig.iosched"])
def test_another_folder_is_refused(tmp_path: Path, missing: str) -> None:
    tree = tmp_path / "linux"
    subprocess.run(["cp", "-r", kernels.excerpt(), tree], check=True)
    (tree / missing).unlink()
    done = subprocess.run(
        ["python3", "-B", PACKAGING / "kernelpatch.py", tree, "A <a@b.invalid>"],
        env={"SOURCE_DATE_EPOCH": "0", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert missing in done.stderr and "give the folder of a kernel's full source" in done.stderr


@pytest.mark.parametrize("date", [{}, {"SOURCE_DATE_EPOCH": ""}, {"SOURCE_DATE_EPOCH": "today"}])
def test_a_patch_without_a_date_is_told_what_to_set(tmp_path: Path, date: dict[str, str]) -> None:
    tools.require([UNIFDEF])
    done = subprocess.run(
        ["python3", "-B", PACKAGING / "kernelpatch.py", tmp_path, "A <a@b.invalid>"],
        env={"PATH": "/usr/bin:/bin"} | date,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "set it to the patch's date, in seconds since 1970" in done.stderr
