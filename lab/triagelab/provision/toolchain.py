# SPDX-License-Identifier: GPL-2.0-only
"""Fetch programs of another Debian release, to build modules for that release's kernels.

The lab unpacks the programs and does not install them. They may need a newer C library than this
computer has. So a script starts each program with the loader and the libraries of its release.
"""

import hashlib
import os
import shutil
from pathlib import Path

from triagelab.base import cache, tools
from triagelab.provision.packages import Apt, unpack, with_libraries

#: The loader that a program for x86-64 names, and Debian's folder of the loader and libraries.
_LOADER = b"/lib64/ld-linux-x86-64.so.2\0"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
#: The lab searches this many bytes at the start of a program for the loader's name.
_HEAD_BYTES = 4096
#: The suffix that a program gets when a script takes its name.
_REAL = ".real"
#: The name of a link in a kernel's folder. It leads to the programs that build modules for that
#: kernel.
_LINK = "programs"


def provide(apt: Apt, compiler: str, kbuild: str, root: Path) -> None:
    """Fetch the programs that build modules for the kernel in `root`, from its Debian release.

    The kernel's own build programs are in `root` already. Make them use the libraries of that
    Debian release too.

    kbuild  the package of the kernel's own build programs
    """
    preprocessor = compiler.replace("gcc", "cpp")  # its package contains cc1, the compiler proper
    wanted = [f"{name}-x86-64-linux-gnu" for name in (compiler, preprocessor)] + ["pahole"]

    def fetch(folder: Path) -> None:
        tools.tell(f"fetching {compiler} of Debian {apt.release}")
        (folder / "packages").mkdir()
        names = [name for name in with_libraries(apt, [*wanted, kbuild]) if name != kbuild]
        apt.run("apt-get", "download", *names, cwd=folder / "packages")
        unpack(folder / "packages", folder)
        shutil.rmtree(folder / "packages")
        for programs in ("usr/bin", "usr/libexec"):
            _bring_loader(folder / programs, folder)

    key = hashlib.sha256(" ".join([*wanted, kbuild]).encode()).hexdigest()[:16]
    folder = cache.fetched(f"packages/{apt.release}-{compiler}-{key}", fetch)
    # The link is relative, so that the cache folder may move.
    (root / _LINK).symlink_to(os.path.relpath(folder, root))
    _bring_loader(root / "usr/lib" / kbuild, root / _LINK)


def of(root: Path) -> Path | None:
    """Return the folder of the programs that provide() fetched for the kernel in `root`.

    Return None if provide() fetched none. Modules are then built with this computer's programs.
    """
    link = root / _LINK
    return link if link.exists() else None


def _bring_loader(folder: Path, libraries: Path) -> None:
    """Put a script in place of each dynamically linked program in `folder`.

    The program gets a new name. The script starts it with the loader and the libraries below the
    folder `libraries`. It names all of them relative to its own path, so that the cache folder may
    move.
    """
    for program in folder.rglob("*"):
        if program.is_symlink() or not program.is_file() or not os.access(program, os.X_OK):
            continue
        with program.open("rb") as file:
            if _LOADER not in file.read(_HEAD_BYTES):
                continue
        program.rename(program.with_name(program.name + _REAL))
        there = os.path.relpath(libraries, program.parent)
        program.write_text(
            f"#!/bin/sh\n"
            f"libraries=${{0%/*}}/{there}/{_LIBRARIES}\n"
            f'exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" '
            f'--argv0 "$0" "$0{_REAL}" "$@"\n'
        )
        program.chmod(0o755)
