# SPDX-License-Identifier: GPL-2.0-only
"""Tests that programs of another Debian release use that release's loader, in a moved cache too."""

import shutil
import subprocess
from pathlib import Path

from triagelab.base import tools
from triagelab.provision import toolchain


def test_a_program_is_run_by_the_loader_beside_it(tmp_path: Path) -> None:
    """A program uses the loader and libraries that were fetched with it, even in a moved folder.

    Copies of this computer's libraries stand for those of another release.
    """
    libraries = tmp_path / "cache/release/usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    program = tmp_path / "cache/release/usr/bin/program"
    program.parent.mkdir()
    shutil.copy(Path(tools.path(tools.MAKE)).resolve(), program)
    for library in tools.libraries(program):
        shutil.copy(library.resolve(), libraries / library.name)
    script = program.with_name("script")
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)

    toolchain._bring_loader(program.parent, tmp_path / "cache/release")
    assert script.read_text() == "#!/bin/sh\n"
    moved = tmp_path / "elsewhere"
    (tmp_path / "cache").rename(moved)
    program = moved / "release/usr/bin/program"
    said = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert said.stdout.startswith("GNU Make"), said.stderr
    # The program must see its own path, because gcc finds its other programs relative to that path.
    makefile = tmp_path / "Makefile"
    makefile.write_text("all:\n\t@echo $(MAKE)\n")
    assert tools.call([str(program), "--no-print-directory", "-f", str(makefile)]).strip() == str(
        program
    )
    (moved / "release/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2").unlink()
    assert subprocess.run([program, "--version"], capture_output=True).returncode != 0
