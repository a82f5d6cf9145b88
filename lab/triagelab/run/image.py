# SPDX-License-Identifier: GPL-2.0-only
"""Make an application's file system, which a guest copies to a device at the start of a run."""

import asyncio
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from triagelab.ask import applications
from triagelab.ask.applications import Application
from triagelab.base import cache, tools
from triagelab.base.errors import LabError, RequestError
from triagelab.plan.machine import Job, last_lines
from triagelab.provision import guest, packages
from triagelab.provision.kernels import Kernel
from triagelab.run import machines

_MAKE_LIMIT_S = 1200.0
_MAKE_MEMORY_MB = 1536


def of(application: Application, kernel: Kernel) -> Path:
    """Return the path of the application's file system; make the file if the cache lacks it.

    A guest of the machine `sim` makes the file system, so the file is the same on every computer.
    """
    tools.require([tools.MKE2FS])
    unpacked = packages.fetched(application.name, application.packages)
    root = {f"root/{name}": path for name, path in _root(application, unpacked)}
    scripts = {
        "run": (guest.FILES / "make-image").read_text(),
        "system": (guest.FILES / "system").read_text(),
        "make": application.script("make"),
    }
    machine = machines.make("sim", kernel)
    made_in = [machine.determines, _MAKE_MEMORY_MB, application.image_mb, scripts]
    key = hashlib.sha256(json.dumps(made_in, sort_keys=True).encode())
    for name, path in sorted(root.items()):
        key.update(f"{name} {os.access(path, os.X_OK)} {tools.sha256(path)}\n".encode())

    def make(folder: Path) -> None:
        tools.tell(f"making the file system of {application.name}")
        job = Job(
            {**scripts, "size": f"{application.image_mb}\n", **root},
            memory_mb=_MAKE_MEMORY_MB,
            time_limit_s=_MAKE_LIMIT_S,
        )
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            outcome = asyncio.run(machine.run(job, Path(scratch)))
            if outcome.status:
                console = last_lines(Path(scratch) / "console.log")
                raise LabError(f"{application.name}: its file system was not made:\n{console}")
            shutil.move(outcome.folder / "image", folder / "image")

    return cache.made(f"images/{application.name}-{key.hexdigest()[:16]}", make) / "image"


def _root(application: Application, unpacked: Path) -> Iterator[tuple[str, Path]]:
    """Yield two paths of each file in the application's root: in the root, and on this computer.

    The root has the application's files, busybox, mke2fs, and the libraries that these need.
    """
    wanted = [unpacked / name for name in application.files]
    for given in application.files:
        if not (unpacked / given).exists():
            raise RequestError(
                f"{applications.FOLDER / application.name / 'application.toml'}: files: none of "
                f"its packages ({', '.join(application.packages)}) has {given}"
            )
    files = [path for top in wanted for path in ([top] if top.is_file() else top.rglob("*"))]
    mke2fs = Path(tools.path(tools.MKE2FS)).resolve()
    programs = [Path(tools.path(tools.BUSYBOX)).resolve(), mke2fs]
    yield from (("bin/" + path.name, path) for path in programs)
    yield from ((str(path.relative_to(unpacked)), path) for path in files if path.is_file())
    folders = [unpacked / name for name in packages.LIBRARIES]
    for program in [*files, mke2fs]:
        if program.is_file() and _is_elf(program):
            for library in tools.libraries(program, folders):
                inside = library.is_relative_to(unpacked)
                name = library.relative_to(unpacked) if inside else library.relative_to("/")
                yield str(name), library.resolve()


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
