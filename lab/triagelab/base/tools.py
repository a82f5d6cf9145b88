# SPDX-License-Identifier: GPL-2.0-only
"""Find the programs that the lab calls, and install missing ones if the lab runs as root."""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from triagelab.base import cache, files
from triagelab.base.errors import LabError


@dataclass(frozen=True)
class Tool:
    """A program that the lab needs, and the Debian packages to install for this program.

    program   the program's name, or the absolute path of another needed file, such as a header
    packages  the package that contains the program, and further packages that the program needs
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
PRLIMIT = Tool("prlimit", "util-linux")
UNSHARE = Tool("unshare", "util-linux")
GCC = Tool("gcc-12", "gcc-12 libc6-dev")
#: clang-19 is the newest version that Debian 12 and 13 both have.
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

RUN = (QEMU, FIO, BUSYBOX, CPIO, DEPMOD, XZ, ZSTD, SETPRIV, PRLIMIT)
RUN_ON_HOST = (FIO, GCC, MODPROBE, INSMOD, RMMOD, SETPRIV, UNSHARE)
BUILD = (GCC, MAKE, PAHOLE, SETPRIV)
#: The tools that the build of a kernel needs besides BUILD.
BUILD_KERNEL = (FLEX, BISON, BC, LIBELF, PERL, XZ)


def tell(what: str) -> None:
    """Announce a slow step on standard error. Standard output is for results, such as --json."""
    print(what, file=sys.stderr, flush=True)


def _find(program: str) -> str | None:
    """Return a program's path, or None if it is missing.

    Search the sbin folders too, because a user's PATH lacks them.
    """
    if program.startswith("/"):
        return program if Path(program).exists() else None
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return shutil.which(program, path=path)


def path(tool: Tool) -> str:
    """Return a program's path. Raise LabError if it is missing, so call require() first."""
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


def install_lock() -> AbstractContextManager[None]:
    """Return the lock that a process of the lab must hold while it installs programs.

    apt fails while another apt runs, so only one process of the lab may call apt.
    """
    return files.locked(cache.root() / "install.lock")


def require(tools: Iterable[Tool]) -> None:
    """Make sure that all tools exist: install missing ones, or raise LabError.

    The lab installs programs (with apt-get) if it runs as root and TRIAGE_NO_INSTALL is not set.
    """
    wanted = list(tools)
    if not _missing(wanted):
        return
    apt = shutil.which("apt-get")
    if os.geteuid() != 0 or apt is None or os.environ.get("TRIAGE_NO_INSTALL"):
        raise LabError(_missing_message(_missing(wanted)))
    with install_lock():
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


#: A shell script that setpriv executes (with_us()). Its arguments are the lab's process id and a
#: command. setpriv has asked Linux for a signal at the lab's end. If the lab had ended before that,
#: no signal comes. So the script runs the command only if its parent is still the lab.
_UNLESS_ORPHANED = '[ "$PPID" = "$1" ] || exit; shift; exec "$@"'


def with_us(signal: str, command: Sequence[str]) -> list[str]:
    """Return `command` with a prefix that makes Linux send it `signal` when the lab ends.

    `signal` is a name without SIG. Linux sends the signal when the thread that started the command
    ends, so the command gets it even if the lab is killed. Only this process may start the
    returned command: under another parent, it exits at once.
    """
    bound = [path(SETPRIV), "--pdeathsig", signal, "--"]
    return [*bound, "/bin/sh", "-c", _UNLESS_ORPHANED, "sh", str(os.getpid()), *command]


def call(command: Sequence[str]) -> str:
    """Return a program's output. If it fails, raise LabError with the program's own message."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        raise LabError(
            f"'{' '.join(command)}' failed with {done.returncode}:\n{done.stderr.strip()}"
        )
    return done.stdout


def version(tool: Tool) -> str:
    """Return a program's version line."""
    return call([path(tool), "--version"]).partition("\n")[0].strip()


@functools.cache
def qemu_version() -> str:
    """Return QEMU's version line. The hash of a run in a guest depends on this line."""
    return version(QEMU)


@functools.cache
def qemu_files() -> list[str]:
    """Return a line with name and hash for each file that QEMU opens although no option names it.

    These files are QEMU's program, the libraries and accelerators that it loads, and its firmware.
    """
    program = Path(path(QEMU)).resolve()
    prefix = program.parents[1]
    places = ("lib/qemu", "lib/*/qemu", "lib64/qemu")
    accelerators = [found for place in places for found in prefix.glob(f"{place}/accel-*.so")]
    folders = call([str(program), "-L", "help"]).splitlines()
    firmware = [found for folder in folders for found in Path(folder).glob("*.bin")]
    return contents([program, *libraries(program), *accelerators, *firmware])


def contents(files: Iterable[Path]) -> list[str]:
    """Return a line for each file: its name without the folder, and a hash of its content."""
    return sorted(f"{path.name} {sha256(path)}" for path in files)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@functools.cache
def fio_version() -> str:
    """Return fio's version line. The hash of a run on the machine `host` depends on this line."""
    return version(FIO)


def libraries(program: Path, folders: Sequence[Path] = ()) -> list[Path]:
    """Return the absolute paths of the shared libraries and the loader that `program` needs.

    The loader searches `folders` first.
    """
    # Do not pass on the user's LD_ variables, which may make the loader choose other libraries.
    searched = os.environ.get("PATH", os.defpath)
    environment = {"PATH": searched, "LD_LIBRARY_PATH": ":".join(map(str, folders))}
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, env=environment)
    words = done.stdout.split()
    return [Path(word) for word in words if word.startswith("/")]
