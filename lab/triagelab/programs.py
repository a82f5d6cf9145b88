# SPDX-License-Identifier: GPL-2.0-only
"""Small C programs of ours, compiled once and kept in the cache folder."""

import hashlib
import re
import subprocess
from pathlib import Path

from triagelab import cache, tools
from triagelab.errors import LabError


def static(source: Path) -> Path:
    """A program from one C file that needs no library: for a guest."""
    return _compiled(source, "-static")


def shared(source: Path) -> Path:
    """A library from one C file, to be preloaded into a program of this computer."""
    # The loader parts LD_PRELOAD there, and goes on without what it does not find.
    if re.search(r"[\s:]", str(cache.root())):
        raise LabError(
            f"the cache folder {cache.root()} has a space or a colon in its path, "
            "with which nothing can be preloaded; set TRIAGE_CACHE to another"
        )
    return _compiled(source, "-shared", "-fPIC")


def _compiled(source: Path, *options: str) -> Path:
    tools.require([tools.GCC])
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]

    def make(folder: Path) -> None:
        output = str(folder / "program")
        command = [tools.path(tools.GCC), "-O2", "-Wall", *options, "-o", output, str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise LabError(f"compiling {source.name} failed:\n{done.stderr.strip()}")

    return cache.made(f"programs/{source.stem}-{digest}", make) / "program"
