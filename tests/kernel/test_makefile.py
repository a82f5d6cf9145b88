# SPDX-License-Identifier: GPL-2.0-only
"""Tests of kernel/Makefile without a compiler: stand-ins for Kbuild and strip copy files."""

import shutil
import subprocess
from pathlib import Path

import pytest
from triagelab.base import sources

#: A stand-in for the kernel's Makefile. To build NAME.ko, it copies the file `code` in the module's
#: folder to NAME.ko.
KBUILD = r"""
modules:
	@for folder in $(MODULES); do \
		cd $(M)/$$folder || exit 1; \
		name=$$(sed -n 's/^obj-m := \(.*\)\.o$$/\1/p' Kbuild); \
		echo $$folder/$$name.o > modules.order; \
		[ $$name.ko -nt code ] || cp code $$name.ko; \
	done
"""
#: Stand-ins for strip, called as `strip OPTION OPTION -o NEW OLD`. KILLED dies half way.
STRIP = 'cp "$5" "$4"'
KILLED = 'head -c 4 "$5" > "$4"; kill -KILL $$'


class Modules:
    """Sources of modules with this repository's Makefile, and the folder for the built modules."""

    def __init__(self, folder: Path) -> None:
        self.sources, self.out, self._headers = folder / "kernel", folder / "out", folder / "kdir"
        for path in (self.sources, self._headers):
            path.mkdir()
        for name in ("Makefile", "Kbuild"):
            shutil.copy(sources.MODULES / name, self.sources)
        (self._headers / "Makefile").write_text(KBUILD)

    def put(self, folder: str, module: str, code: str) -> None:
        """Put a module's source into a folder, in place of the one that is there."""
        (self.sources / folder).mkdir(exist_ok=True)
        (self.sources / folder / "Kbuild").write_text(f"obj-m := {module}.o\n")
        (self.sources / folder / "code").write_text(code)

    def make(self, *words: str, strip: str = STRIP) -> int:
        """Build the modules; return the exit status of make."""
        program = self._headers / "strip"
        program.write_text(f"#!/bin/sh\n{strip}\n")
        program.chmod(0o755)
        given = [f"KDIR={self._headers}", f"O={self.out}", "PYTHON=true", f"STRIP={program}"]
        return subprocess.run(["make", "-C", self.sources, *given, *words]).returncode

    def built(self) -> dict[str, str]:
        """Return the content of each finished module by its name."""
        return {path.name: path.read_text() for path in self.out.glob("*.ko")}


@pytest.fixture
def made(tmp_path: Path) -> Modules:
    return Modules(tmp_path)


def test_a_killed_strip_leaves_no_half_module(made: Modules) -> None:
    made.put("one", "one", "first code")
    assert made.make(strip=KILLED) != 0
    assert made.built() == {}
    assert made.make() == 0
    made.put("one", "one", "second code")
    assert made.make(strip=KILLED) != 0
    assert made.built() == {"one.ko": "first code"}
    assert made.make() == 0
    assert made.built() == {"one.ko": "second code"}
    assert made.make("clean") == 0
    assert list(made.out.iterdir()) == []


def test_a_module_that_is_up_to_date_is_not_stripped_again(made: Modules) -> None:
    made.put("one", "one", "code")
    # A module that is built within a clock tick of its source does not look newer. So build twice.
    assert made.make() == made.make() == 0
    assert made.make(strip=KILLED) == 0


def test_a_module_whose_source_is_gone_is_removed(made: Modules) -> None:
    for name in ("one", "two", "three"):
        made.put(name, name, name)
    assert made.make() == 0
    shutil.rmtree(made.sources / "two")
    made.put("three", "renamed", "three")
    assert made.make() == 0
    assert made.built() == {"one.ko": "one", "renamed.ko": "three"}


def test_a_build_of_one_module_keeps_the_others(made: Modules) -> None:
    for name in ("one", "two"):
        made.put(name, name, name)
    assert made.make() == made.make("MODULES=one") == 0
    assert made.built() == {"one.ko": "one", "two.ko": "two"}


def test_a_module_that_moves_to_another_folder_stays(made: Modules) -> None:
    made.put("copy", "one", "half done")
    assert made.make() == 0
    made.put("one", "one", "one")
    made.put("copy", "mine", "mine")
    assert made.make() == 0
    assert made.built() == {"mine.ko": "mine", "one.ko": "one"}
