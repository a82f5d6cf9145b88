# SPDX-License-Identifier: GPL-2.0-only
"""Tests of packages: their mirror, messages on standard error, and the error if a program fails.

Scripts replace apt-get, apt-cache and dpkg-deb.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from triagelab.base.errors import LabError
from triagelab.provision import kernels, packages

APT_GET = """#!/bin/sh
for last; do :; done
case $* in *download*) touch "${last}_6.12.9-1_all.deb" ;; esac
"""
DPKG_DEB = """#!/bin/sh
mkdir -p "$3/usr/src"
touch "$3/usr/src/linux-source-6.12.tar.xz"
"""
FULL = "#!/bin/sh\necho 'cannot write: No space left on device' >&2\nexit 2\n"

EACH = pytest.mark.parametrize(
    "fetch",
    [lambda: packages.fetched("editor", ["ed"]), lambda: kernels.source("6.12")],
    ids=["packages", "source"],
)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the scripts above in place of apt and dpkg-deb; return their folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "cache"))
    scripts = {"apt-get": APT_GET, "apt-cache": "#!/bin/sh\n", "dpkg-deb": DPKG_DEB}
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


#: A script in place of apt-get. It names a mirror on which `stable-backports` has the code name
#: new-backports. For each `apt-get update`, it appends the list of sources to the file $NOTES.
MIRROR = """#!/bin/sh
for word; do
	case $word in -oDir::Etc::sourcelist=*) sources=${word#*=} ;; esac
done
case $* in
*indextargets*LABEL*) printf 'Other\\thttp://other/\\nDebian\\thttp://mirror/debian/\\n' ;;
*indextargets*CODENAME*) echo new-backports ;;
*update*) cat "${sources:-/dev/null}" >> "$NOTES"; echo . >> "$NOTES" ;;
esac
"""


@pytest.fixture
def notes(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put MIRROR in place of apt-get; return the file in which it logs the sources of updates."""
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setattr(packages, "_KEYS", tmp_path / "no keys")
    (programs / "apt-get").write_text(MIRROR)
    return tmp_path / "notes"


def test_the_newest_release_comes_by_its_code_name_from_the_computers_mirror(
    notes: Path, tmp_path: Path
) -> None:
    apt = packages.debian_backports(tmp_path / "apt")
    assert (apt.release, apt.foreign) == ("new", True)
    deb = "deb http://mirror/debian/"
    assert notes.read_text().split(".\n") == [
        "",
        f"{deb} stable-backports main\n",
        f"{deb} new-backports main\n{deb} new main\n",
        "",
    ]


def test_another_release_is_asked_for_nothing_that_this_one_has(
    notes: Path, tmp_path: Path
) -> None:
    own = next(packages.everywhere(tmp_path / "apt"))
    assert not own.foreign
    assert notes.read_text() == ".\n"


def test_a_computer_without_a_debian_mirror_is_told_so(
    notes: Path, programs: Path, tmp_path: Path
) -> None:
    (programs / "apt-get").write_text("#!/bin/sh\n")
    with pytest.raises(LabError, match="no Debian mirror"):
        packages.debian_backports(tmp_path / "apt")


@EACH
def test_standard_output_is_left_to_what_was_asked_for(
    programs: Path, capfd: pytest.CaptureFixture[str], fetch: Callable[[], Path]
) -> None:
    assert fetch().exists()
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.startswith("fetching the ")


@EACH
def test_a_package_that_cannot_be_unpacked_is_told_in_the_programs_words(
    programs: Path, fetch: Callable[[], Path]
) -> None:
    (programs / "dpkg-deb").write_text(FULL)
    with pytest.raises(LabError, match=r"dpkg-deb -x (?s:.*)No space left on device"):
        fetch()
