# SPDX-License-Identifier: GPL-2.0-only
"""Test that all parts have the same version, and that the changelog fits it."""

import re
import subprocess
from pathlib import Path

import pytest
from triagelab.base.version import version

from tests.packaging.system import PACKAGING, ROOT, copied
from tests.product.product import triage

CHANGELOG = PACKAGING / "changelog.py"


def changelog(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["python3", "-B", source / "packaging/changelog.py", *arguments],
        capture_output=True,
        text=True,
    )


def test_every_part_says_the_same_version() -> None:
    assert triage("--version").stdout == f"triage {version()}\n"
    operators = subprocess.run(
        [ROOT / "triagectl/triagectl", "--version"], capture_output=True, text=True
    )
    assert operators.stdout == f"triagectl {version()}\n"
    conf = f". {ROOT}/kernel/dkms.conf; echo $PACKAGE_VERSION"
    dkms = subprocess.run(["bash", "-c", conf], cwd="/", capture_output=True, text=True)
    assert dkms.stdout == f"{version()}\n"
    made = subprocess.run(
        ["make", "-s", "-C", PACKAGING, "version"], capture_output=True, text=True
    )
    assert made.stdout == f"{version()}\n"


def test_no_other_file_names_the_version() -> None:
    tracked = subprocess.run(
        ["git", "grep", "-lF", version(), "--", ":!lab/requirements*", ":!drives", ":!experiments"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.split()
    exempt = {"CHANGELOG.md", "kernel/triage/version.h"}
    assert [name for name in tracked if name not in exempt] == []


def test_a_changelog_of_another_version_is_refused(tmp_path: Path) -> None:
    source = copied(tmp_path / "source")
    header = source / "kernel/triage/version.h"
    header.write_text(header.read_text().replace(version(), "9.9.9"))
    done = changelog(source, "date")
    assert done.returncode == 2
    assert f"says 9.9.9, the newest heading of CHANGELOG.md is {version()}" in done.stderr


def test_a_version_without_changes_is_refused(tmp_path: Path) -> None:
    source = copied(tmp_path / "source")
    text = (source / "CHANGELOG.md").read_text()
    (source / "CHANGELOG.md").write_text(re.sub(r"^- .*\n(  .*\n)*", "", text, flags=re.M))
    done = changelog(source, "date")
    assert done.returncode == 2
    assert f"lists no change for {version()}" in done.stderr


@pytest.mark.parametrize("form", ["debian", "rpm"])
def test_packages_have_the_changes_without_marks(form: str) -> None:
    done = changelog(ROOT, form, "A <a@b.invalid>")
    assert done.returncode == 0
    assert version() in done.stdout and "A <a@b.invalid>" in done.stdout
    assert not re.search(r"[`*]\w|\]\(", done.stdout)
