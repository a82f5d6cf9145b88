# SPDX-License-Identifier: GPL-2.0-only
"""Read the descriptions of applications: real programs that an experiment measures and protects.

applications/NAME/application.toml names packages, and the files in them that an application needs.
A guest calls the application's two scripts, `make` and `run`, in a file system with these files:

make      once; the lab then keeps the file system as the application's image
run up    before each measurement, to prepare it
run run   for each measurement. For each operation, the script prints a line END,LATENCY: the
          operation's end in s since the first operation began, and its latency in µs
"""

import re
from dataclasses import dataclass

from triagelab.base import sources, tomlfile
from triagelab.base.errors import RequestError, unknown
from triagelab.base.tomlfile import Count

FOLDER = sources.ROOT / "applications"


@dataclass(frozen=True)
class Application:
    """An application whose operations are sensitive to latency; an experiment can protect it.

    what       a description for people
    packages   distribution packages that contain the application
    files      files of these packages that the application needs; a folder stands for all its files
    image_mb   size of the application's file system in MiB; a run copies this file system to the
               device's start
    memory_mb  memory of a guest that runs the application, in MiB
    """

    name: str
    what: str
    packages: tuple[str, ...]
    files: tuple[str, ...]
    image_mb: Count
    memory_mb: Count

    def script(self, name: str) -> str:
        """Return the text of the script `make` or `run`."""
        path = FOLDER / self.name / name
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise RequestError(f"{path} is not in UTF-8: {error}") from error

    def uses(self, name: str) -> bool:
        """Return whether the script `run` uses the variable `name`, as ${name}."""
        return re.search(rf"\$\{{{name}\b", self.script("run")) is not None


def names() -> list[str]:
    """Return the names of all applications."""
    return sorted(path.parent.name for path in FOLDER.glob("*/application.toml"))


def find(name: str) -> Application:
    """Return the application called `name`."""
    if name not in names():
        raise unknown("application", name, names())
    return tomlfile.read(FOLDER / name / "application.toml", Application, name=name)
