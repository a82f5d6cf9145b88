# SPDX-License-Identifier: GPL-2.0-only
"""The distribution's packages, fetched and unpacked without installing anything."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from triagelab import cache, tools
from triagelab.errors import LabError

#: Where packages have their libraries.
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")

#: Libraries that must be those of the loader that is there: this computer's.
_OURS = ("libc6", "libc-bin")


class Apt:
    """apt with lists of its own: a user may ask it too, and the computer's stay as they are."""

    def __init__(self, state: Path) -> None:
        (state / "lists/partial").mkdir(parents=True, exist_ok=True)
        (state / "archives/partial").mkdir(parents=True, exist_ok=True)
        settings = state / "apt.conf"
        # In containers one rids the computer of the packages that another apt is to install.
        settings.write_text("#clear APT::Update::Post-Invoke;\n")
        self._options = [
            f"-c={settings}",
            f"-oDir::State::lists={state}/lists",
            f"-oDir::Cache={state}",
            "-oAPT::Sandbox::User=",
            "-oAcquire::Languages=none",
        ]

    def run(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        """What the program says; LabError if it fails."""
        command = [program, *self._options, *arguments]
        try:
            done = subprocess.run(
                command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True
            )
        except FileNotFoundError as error:
            raise LabError(
                f"no {program} on this computer to fetch packages with, which a Debian has; "
                "if it is for a kernel, give --kernel a vmlinuz with lib/modules beside it"
            ) from error
        if done.returncode:
            raise LabError(f"{program} {' '.join(arguments)} failed:\n{done.stderr.strip()}")
        return done.stdout


def unpack(packages: Path, folder: Path) -> None:
    """Unpack every package file in `packages` into `folder`."""
    for package in sorted(packages.glob("*.deb")):
        tools.call(["dpkg-deb", "-x", str(package), str(folder)])


def fetched(name: str, wanted: Iterable[str]) -> Path:
    """The cache's folder `name` with these packages and the libraries they need, unpacked.

    They are the distribution's newest when they are first asked for.
    """

    def fetch(folder: Path) -> None:
        tools.tell(f"fetching the distribution's {', '.join(wanted)}")
        apt = Apt(folder / "apt")
        apt.run("apt-get", "update", "-q")
        apt.run("apt-get", "download", *_with_libraries(apt, wanted), cwd=folder / "apt")
        unpack(folder / "apt", folder)
        shutil.rmtree(folder / "apt")

    return cache.fetched(f"packages/{name}", fetch)


def _with_libraries(apt: Apt, wanted: Iterable[str]) -> list[str]:
    """The packages and all libraries they depend on, and these in turn."""
    found: list[str] = []
    new = list(wanted)
    while new:
        found += new
        depends = apt.run("apt-cache", "depends", "--important", *new)
        names = re.findall(r"^ [ |](?:Pre)?Depends: (lib[\w.+-]+|zlib1g)$", depends, re.M)
        new = [name for name in dict.fromkeys(names) if name not in (*found, *_OURS)]
    return found
