# SPDX-License-Identifier: GPL-2.0-only
"""The programs the lab calls: found, installed where root allows, or named in one message."""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from triagelab import cache
from triagelab.errors import LabError


@dataclass(frozen=True)
class Tool:
    """A program and the Debian package that has it (and those it is no use without).

    With a path for its name it is a file, as a library's header.
    """

    program: str
    packages: str


QEMU = Tool("qemu-system-x86_64", "qemu-system-x86")
FIO = Tool("fio", "fio")
BUSYBOX = Tool("busybox", "busybox-static")
CPIO = Tool("cpio", "cpio")
DEPMOD = Tool("depmod", "kmod")
XZ = Tool("xz", "xz-utils")
ZSTD = Tool("zstd", "zstd")
MODPROBE = Tool("modprobe", "kmod")
INSMOD = Tool("insmod", "kmod")
RMMOD = Tool("rmmod", "kmod")
SETPRIV = Tool("setpriv", "util-linux")
UNSHARE = Tool("unshare", "util-linux")
GCC = Tool("gcc-12", "gcc-12 libc6-dev")
#: The newest that Debian 12 and 13 both have.
CLANG = Tool("clang-19", "clang-19")
MAKE = Tool("make", "make")
MKE2FS = Tool("mke2fs", "e2fsprogs")
PAHOLE = Tool("pahole", "dwarves")
SPARSE = Tool("sparse", "sparse")
PERL = Tool("perl", "perl")
FLEX = Tool("flex", "flex")
BISON = Tool("bison", "bison")
BC = Tool("bc", "bc")
LIBELF = Tool("/usr/include/libelf.h", "libelf-dev")

RUN = (QEMU, FIO, BUSYBOX, CPIO, DEPMOD, XZ, ZSTD, SETPRIV)
RUN_ON_HOST = (FIO, GCC, MODPROBE, INSMOD, RMMOD, SETPRIV, UNSHARE)
BUILD = (GCC, MAKE, PAHOLE, SETPRIV)
#: What else it takes to build a kernel.
BUILD_KERNEL = (FLEX, BISON, BC, LIBELF, PERL, XZ)


def tell(what: str) -> None:
    """Say what takes a while, aside: standard output is for what was asked for, as --json."""
    print(what, file=sys.stderr, flush=True)


def _find(program: str) -> str | None:
    """The program's path; the sbin folders are searched too, which a user's PATH lacks."""
    if program.startswith("/"):
        return program if Path(program).exists() else None
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return shutil.which(program, path=path)


def path(tool: Tool) -> str:
    """The path of a program that `require` has seen."""
    found = _find(tool.program)
    if found is None:
        raise LabError(_missing_message([tool]))
    return found


def _missing_message(missing: Iterable[Tool]) -> str:
    tools = list(missing)
    programs = ", ".join(tool.program for tool in tools)
    return f"missing: {programs}. Install with: sudo apt-get install {' '.join(_packages(tools))}"


def _packages(missing: Iterable[Tool]) -> list[str]:
    return sorted({package for tool in missing for package in tool.packages.split()})


def require(tools: Iterable[Tool]) -> None:
    """Make sure that all the tools are there, installing what is missing where root allows."""
    wanted = list(tools)
    if not _missing(wanted):
        return
    apt = shutil.which("apt-get")
    if os.geteuid() != 0 or apt is None or os.environ.get("TRIAGE_NO_INSTALL"):
        raise LabError(_missing_message(_missing(wanted)))
    # apt refuses who comes while it is at work for another of ours.
    with cache.locked(cache.root() / "install.lock"):
        if missing := _missing(wanted):
            _install(apt, missing)
    if missing := _missing(wanted):
        raise LabError(_missing_message(missing))


def _missing(tools: Iterable[Tool]) -> list[Tool]:
    return [tool for tool in tools if _find(tool.program) is None]


def _install(apt: str, missing: list[Tool]) -> None:
    packages = _packages(missing)
    tell(f"installing {' '.join(packages)}")
    install = [apt, "install", "-y", "-q", "--no-install-recommends", *packages]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in ([apt, "update", "-q"], install):
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode:
            raise LabError(
                f"'{' '.join(command)}' failed:\n{done.stderr.strip()}\n{_missing_message(missing)}"
            )


def with_us(signal: str, command: Sequence[str]) -> list[str]:
    """`command`, sent the signal (its name, without SIG) when we end, whatever ends us.

    Linux counts the thread that has started it for us.
    """
    return [path(SETPRIV), "--pdeathsig", signal, "--", *command]


def call(command: Sequence[str]) -> str:
    """What a program says; LabError with its complaint if it fails, as on a full disk."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        raise LabError(
            f"'{' '.join(command)}' failed with {done.returncode}:\n{done.stderr.strip()}"
        )
    return done.stdout


def version(tool: Tool) -> str:
    """A program's own version line."""
    return call([path(tool), "--version"]).partition("\n")[0].strip()


@functools.cache
def qemu_version() -> str:
    """QEMU's own version line, part of what identifies a run."""
    return version(QEMU)


@functools.cache
def qemu_files() -> list[str]:
    """The files that QEMU uses without being told, each by its name and a hash of its content.

    They are its program, the libraries and accelerators that it loads, and its firmware.
    """
    program = Path(path(QEMU)).resolve()
    prefix = program.parents[1]
    places = ("lib/qemu", "lib/*/qemu", "lib64/qemu")
    accelerators = [found for place in places for found in prefix.glob(f"{place}/accel-*.so")]
    folders = call([str(program), "-L", "help"]).splitlines()
    firmware = [found for folder in folders for found in Path(folder).glob("*.bin")]
    return contents([program, *libraries(program), *accelerators, *firmware])


def contents(files: Iterable[Path]) -> list[str]:
    """A line for each file, with its name and a hash of its content, wherever it is."""
    return sorted(f"{path.name} {sha256(path)}" for path in files)


def sha256(path: Path) -> str:
    """What identifies a file by its content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@functools.cache
def fio_version() -> str:
    """fio's own version, part of what identifies a run."""
    return version(FIO)


def libraries(program: Path, folders: Sequence[Path] = ()) -> list[Path]:
    """The shared libraries (and the loader) that `program` needs, by absolute path.

    They are looked for in `folders` first.
    """
    # What the user has set for the loader is for other programs.
    searched = os.environ.get("PATH", os.defpath)
    environment = {"PATH": searched, "LD_LIBRARY_PATH": ":".join(map(str, folders))}
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, env=environment)
    words = done.stdout.split()
    return [Path(word) for word in words if word.startswith("/")]
