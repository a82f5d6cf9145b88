# SPDX-License-Identifier: GPL-2.0-only
"""Real applications to protect: distribution packages in a file system on the device.

applications/NAME/application.toml names the packages and files that an application needs.
Two scripts run in a guest, in a file system that contains these files:

make      once; the file system that it leaves is the image
run up    in each run, before the measurement
run run   the measurement: prints `end in s,latency in µs` for each operation
"""

import asyncio
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from triagelab import cache, guest, machines, packages, tomlfile, tools
from triagelab.errors import LabError, RequestError, unknown
from triagelab.kernels import Kernel

FOLDER = Path(__file__).resolve().parents[2] / "applications"

_MAKE_LIMIT_S = 1200.0
_MAKE_MEMORY_MB = 1536


@dataclass(frozen=True)
class Application:
    """An application with latency-sensitive operations, the protected job of an experiment.

    packages   distribution packages that contain it
    files      needed files, or folders with everything in them
    image_mb   size of its file system, at the start of the device
    memory_mb  memory of a guest that runs it
    """

    name: str
    what: str
    packages: tuple[str, ...]
    files: tuple[str, ...]
    image_mb: int
    memory_mb: int

    def script(self, name: str) -> str:
        """Return the text of one of its two scripts."""
        path = FOLDER / self.name / name
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise RequestError(f"{path} is not in UTF-8: {error}") from error

    def uses(self, name: str) -> bool:
        """Return True if its script `run` contains ${`name`}."""
        return re.search(rf"\$\{{{name}\b", self.script("run")) is not None


def names() -> list[str]:
    """Return the names of all applications."""
    return sorted(path.parent.name for path in FOLDER.glob("*/application.toml"))


def find(name: str) -> Application:
    """Return the application called `name`."""
    if name not in names():
        raise unknown("application", name, names())
    keys = {
        "what": tomlfile.text,
        "packages": tomlfile.list_of(tomlfile.text),
        "files": tomlfile.list_of(tomlfile.text),
        "image_mb": tomlfile.count,
        "memory_mb": tomlfile.count,
    }
    given = tomlfile.read(FOLDER / name / "application.toml", required=keys, optional={})
    lists = {key: tuple(given[key]) for key in ("packages", "files")}
    return Application(**{"name": name, **given, **lists})


def image(application: Application, kernel: Kernel) -> Path:
    """Return the application's file system for the start of the device; it is made once.

    A guest of `sim` makes it, so it is the same on every computer.
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
        job = machines.Job(
            {**scripts, "size": f"{application.image_mb}\n", **root},
            memory_mb=_MAKE_MEMORY_MB,
            time_limit_s=_MAKE_LIMIT_S,
        )
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            outcome = asyncio.run(machine.run(job, Path(scratch)))
            if outcome.status:
                console = machines.last_lines(Path(scratch) / "console.log")
                raise LabError(f"{application.name}: its file system was not made:\n{console}")
            shutil.move(outcome.folder / "image", folder / "image")

    return cache.made(f"images/{application.name}-{key.hexdigest()[:16]}", make) / "image"


def _root(application: Application, unpacked: Path) -> Iterator[tuple[str, Path]]:
    """Yield every file of the application's root and its name there, with libraries and mke2fs."""
    wanted = [unpacked / name for name in application.files]
    for given in application.files:
        if not (unpacked / given).exists():
            raise RequestError(
                f"{FOLDER / application.name / 'application.toml'}: files: none of its packages "
                f"({', '.join(application.packages)}) has {given}"
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
