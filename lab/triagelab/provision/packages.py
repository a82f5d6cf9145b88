# SPDX-License-Identifier: GPL-2.0-only
"""Fetch and unpack the distribution's packages without installing anything."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from triagelab.base import cache, tools
from triagelab.base.errors import LabError

#: The folders of libraries in packages.
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")

#: fetched() does not fetch these packages, because programs must use the C library of this
#: computer, which matches its loader.
_OURS = ("libc6", "libc-bin")


#: The Debian suites to search after the computer's own package sources: the newest release with its
#: backports, and the release before it. These names remain valid when Debian publishes a release.
_ELSEWHERE = ("stable-backports", "oldstable")
_BACKPORTS = "-backports"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Apt:
    """apt with package lists of its own, which need no root. The computer's lists stay unchanged.

    release  the code name of the Debian release whose packages are in the lists
    """

    def __init__(
        self, state: Path, mirror: str = "", suites: Iterable[str] = (), architecture: str = ""
    ) -> None:
        """Use the computer's own package sources, or `suites` of a Debian `mirror`.

        Fetch packages for `architecture`, if given, instead of the computer's own architecture.
        """
        (state / "lists/partial").mkdir(parents=True, exist_ok=True)
        (state / "archives/partial").mkdir(parents=True, exist_ok=True)
        settings = state / "apt.conf"
        # In container images, a command in the hook Post-Invoke often deletes all downloaded
        # packages, even those that another apt is about to install. So clear the hook.
        settings.write_text("#clear APT::Update::Post-Invoke;\n")
        self._options = [
            f"-c={settings}",
            f"-oDir::State::lists={state}/lists",
            f"-oDir::Cache={state}",
            "-oAPT::Sandbox::User=",
            "-oAcquire::Languages=none",
        ]
        if architecture:
            self._options += [
                f"-oAPT::Architecture={architecture}",
                f"-oAPT::Architectures={architecture}",
            ]
        self.release = _codename()
        if mirror:
            self.release = list(suites)[-1].removesuffix(_BACKPORTS)
            signed = f"[signed-by={_KEYS}] " if _KEYS.exists() else ""
            sources = state / "sources.list"
            sources.write_text("".join(f"deb {signed}{mirror} {name} main\n" for name in suites))
            self._options += [
                f"-oDir::Etc::sourcelist={sources}",
                "-oDir::Etc::sourceparts=/dev/null",
                "-oDir::State::status=/dev/null",
            ]
        self.run("apt-get", "update", "-q")

    @property
    def foreign(self) -> bool:
        """Return whether the packages belong to another Debian release than this computer's."""
        return self.release != _codename()

    def run(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        """Run a program of apt and return its output. Raise LabError if it fails."""
        command = [program, *self._options, *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                env=os.environ | {"LC_ALL": "C.UTF-8"},  # the lab parses the output
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
        except FileNotFoundError as error:
            raise LabError(
                f"no {program} on this computer to fetch packages with, which a Debian has; "
                "if it is for a kernel, give --kernel a vmlinuz with lib/modules beside it"
            ) from error
        if done.returncode:
            raise LabError(f"{program} {' '.join(arguments)} failed:\n{done.stderr.strip()}")
        return done.stdout


def _codename() -> str:
    """Return the code name of this computer's release; empty if it has none."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def everywhere(state: Path) -> Iterator[Apt]:
    """Yield apt with the computer's own package sources, then with each suite in _ELSEWHERE.

    The lists of a suite are fetched only when the caller asks for the suite.
    """
    own = Apt(state / "own")
    yield own
    for suite in _ELSEWHERE:
        yield elsewhere(own, state, suite)


def debian_backports(state: Path) -> Apt:
    """Return apt with the packages of Debian's newest release, and of this release's backports."""
    return elsewhere(Apt(state / "own"), state, _ELSEWHERE[0])


def elsewhere(own: Apt, state: Path, suite: str) -> Apt:
    """Return apt with the packages of a Debian suite, from the mirror that `own` uses.

    If the suite is a release's backports, apt has the packages of that release too.
    """
    mirror = _target(own, "$(LABEL)\t$(REPO_URI)", r"Debian\t(\S+)")
    if mirror is None:
        raise LabError("this computer's apt has no Debian mirror to fetch other kernels from")
    # Use the suite's alias only to learn the code name, and fetch lists by the code name: on a
    # mirror, the alias's lists may be older than those of the code name.
    alias = Apt(state / suite, mirror, [suite])
    codename = _target(alias, "$(CODENAME)", r"(\S+)")
    if codename is None:
        raise LabError(f"the Debian mirror {mirror} does not say what {suite} is")
    release = codename.removesuffix(_BACKPORTS)
    return Apt(state / codename, mirror, dict.fromkeys([codename, release]))


def _target(apt: Apt, form: str, shape: str) -> str | None:
    """Return the text that the regex `shape` captures in apt's listing of its package lists.

    The listing has a line in the format `form` for each list; the first line that matches counts.
    """
    said = apt.run("apt-get", "indextargets", "--format", form, "Created-By: Packages")
    found = re.search(rf"^{shape}$", said, re.M)
    return found[1] if found else None


def unpack(packages: Path, folder: Path) -> None:
    """Unpack every package file in `packages` into `folder`."""
    for package in sorted(packages.glob("*.deb")):
        tools.call(["dpkg-deb", "-x", str(package), str(folder)])


def fetched(name: str, wanted: Sequence[str]) -> Path:
    """Return a folder in the cache with the packages `wanted` and their libraries, unpacked.

    The folder is called `name`, with a hash of the release and `wanted`. The first call fetches the
    distribution's newest versions; later calls return the same folder.
    """

    def fetch(folder: Path) -> None:
        tools.tell(f"fetching the distribution's {', '.join(wanted)}")
        apt = Apt(folder / "apt")
        apt.run("apt-get", "download", *with_libraries(apt, wanted, _OURS), cwd=folder / "apt")
        unpack(folder / "apt", folder)
        shutil.rmtree(folder / "apt")

    key = hashlib.sha256("\n".join([_codename(), *wanted]).encode()).hexdigest()[:16]
    return cache.fetched(f"packages/{name}-{key}", fetch)


def with_libraries(apt: Apt, wanted: Iterable[str], without: Iterable[str] = ()) -> list[str]:
    """Return `wanted` and all packages of libraries that these need, except those in `without`."""
    found: list[str] = []
    new = list(wanted)
    while new:
        found += new
        depends = apt.run("apt-cache", "depends", "--important", *new)
        names = re.findall(r"^ [ |](?:Pre)?Depends: (lib[\w.+-]+|zlib1g)$", depends, re.M)
        new = [name for name in dict.fromkeys(names) if name not in (*found, *without)]
    return found
