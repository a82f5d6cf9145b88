# SPDX-License-Identifier: GPL-2.0-only
"""Compile this repository's small C programs, and keep them in the cache folder."""

import hashlib
import re
import subprocess
from pathlib import Path

from triagelab.base import cache, tools
from triagelab.base.errors import LabError


def static(source: Path) -> Path:
    """Return the path of the program built from the C file `source`, linked statically."""
    return _compiled(source, "-static")


def shared(source: Path) -> Path:
    """Return the path of the library built from the C file `source`, for LD_PRELOAD."""
    # The loader splits LD_PRELOAD at spaces and colons, and ignores files that it cannot find.
    if re.search(r"[\s:]", str(cache.root())):
        raise LabError(
            f"the cache folder {cache.root()} has a space or a colon in its path, "
            "with which nothing can be preloaded; set TRIAGE_CACHE to another"
        )
    return _compiled(source, "-shared", "-fPIC")


def _compiled(source: Path, *options: str) -> Path:
    tools.require([tools.GCC])
    command = [tools.path(tools.GCC), "-O2", "-Wall", *options]
    # The name of the cache entry depends on the options, the compiler, and the source with its
    # headers. A static program contains the C library, so its name also depends on libc.a.
    text = _call([*command, "-E", "-P", str(source)], source)
    made_of = [*options, tools.version(tools.GCC), text]
    if "-static" in options:
        made_of += tools.contents([Path(_call([*command, "-print-file-name=libc.a"], source))])
    digest = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]

    def make(folder: Path) -> None:
        _call([*command, "-o", str(folder / "program"), str(source)], source)

    return cache.made(f"programs/{source.stem}-{digest}", make) / "program"


def _call(command: list[str], source: Path) -> str:
    """Return the compiler's output. Raise LabError with its message if it rejects `source`."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"compiling {source.name} failed:\n{done.stderr.strip()}")
    return done.stdout.strip()
