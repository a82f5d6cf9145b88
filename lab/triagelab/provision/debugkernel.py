# SPDX-License-Identifier: GPL-2.0-only
"""Build the two debug kernels of a kernel series, such as 6.12, from the source of the series."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from triagelab.base import cache, tools
from triagelab.base.errors import LabError

#: Suffix of a debug kernel's name -> the kernel's means of finding bugs.
VARIANTS = {
    "debug": "KASAN, lockdep, fault injection",
    "kcsan": "KCSAN: data races",
}

_FOLDER = Path(__file__).parent
#: A variant -> its file of options, which are added to debug.config.
_ADDED = {"debug": "debug-kasan.config", "kcsan": "debug-kcsan.config"}

#: Patterns of source files that the lab does not unpack, because no debug kernel needs them. These
#: files are almost half of the source.
_UNUSED = (
    "*/arch/[!x]*/*.[chS]",
    "*.dts*",
    "*/drivers/gpu/*.[ch]",
    "*/drivers/net/*.[ch]",
    "*/drivers/media/*.[ch]",
    "*/sound/*.[ch]",
    "*/Documentation/*.rst",
    "*/tools/testing/*",
)
#: The builder and build time in the kernel's version string. They are fixed, so that the same
#: source gives the same bytes.
_BUILDER = {
    "KBUILD_BUILD_TIMESTAMP": "@0",
    "KBUILD_BUILD_USER": "triage",
    "KBUILD_BUILD_HOST": "lab",
    "KBUILD_BUILD_VERSION": "1",
}


def config(variant: str) -> str:
    """Return the text of a variant's configuration."""
    return "".join((_FOLDER / name).read_text() for name in ("debug.config", _ADDED[variant]))


def built(source: Path, variant: str) -> Path:
    """Return a folder with a debug kernel built from the tarball `source`.

    The folder has boot/, lib/modules/ and build/. Its name and the kernel's release contain a hash
    of the compiler's version, the configuration, and the tarball's name with its version.
    """
    tools.require([*tools.BUILD, *tools.BUILD_KERNEL])
    compiler = tools.version(tools.GCC)
    wanted = config(variant)
    key = hashlib.sha256(f"{source.name}\n{compiler}\n{wanted}".encode()).hexdigest()[:8]
    name = f"{variant}-{key}"
    return cache.made(f"debug/{key}", lambda folder: _build(source, wanted, name, folder))


def _build(source: Path, wanted: str, name: str, folder: Path) -> None:
    tools.tell(f"building a debug kernel ({name}) from {source.name}, which takes minutes")
    tree = folder / "build"
    tree.mkdir()
    unused = [f"--exclude={pattern}" for pattern in _UNUSED]
    _call(["tar", "-x", "-f", str(source), "-C", str(tree), "--strip-components=1", *unused])
    # Debian's Makefile reads the compiler from this file when it builds a kernel or a module.
    compiler = tools.path(tools.GCC)
    (tree / ".kernelvariables").write_text(
        f"override CC = {compiler}\noverride HOSTCC = {compiler}\n"
    )
    (tree / "localversion").write_text(f"-{name}\n")
    options = folder / "config"
    options.write_text(wanted)
    _make(tree, "allnoconfig", f"KCONFIG_ALLCONFIG={options}")
    without = ineffective(wanted, (tree / ".config").read_text())
    if without:
        raise LabError(f"{source.name} cannot be built with {', '.join(without)}")
    _make(tree, f"-j{len(os.sched_getaffinity(0))}", "bzImage", "modules")
    _make(tree, "modules_install", f"INSTALL_MOD_PATH={folder}", "INSTALL_MOD_STRIP=1")
    release = (tree / "include/config/kernel.release").read_text().strip()
    (folder / "boot").mkdir()
    shutil.copyfile(tree / "arch/x86/boot/bzImage", folder / "boot" / f"vmlinuz-{release}")
    for link in ("build", "source"):
        (folder / "lib/modules" / release / link).unlink(missing_ok=True)
    _thin(tree)


def ineffective(wanted: str, config: str) -> list[str]:
    """Return the options of `wanted` that the finished `config` does not have."""
    lines = set(config.splitlines())
    return [line for line in re.findall(r"^CONFIG_.*$", wanted, re.M) if line not in lines]


def _make(tree: Path, *arguments: str) -> None:
    _call([tools.path(tools.MAKE), "-s", "-C", str(tree), *arguments])


def _call(command: list[str]) -> None:
    # Send the command SIGTERM when the lab ends: make then ends its own processes. Without the
    # signal, the build would go on beside the next one.
    done = subprocess.run(
        tools.with_us("TERM", command),
        env=os.environ | _BUILDER,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.strip().splitlines()[-30:])
        raise LabError(f"building the debug kernel failed: {' '.join(command)}\n{tail}")


def _thin(tree: Path) -> None:
    """Delete the files of a built kernel tree that are not needed to build modules against it."""
    for path in tree.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        ours = path.relative_to(tree).parts[0] in ("include", "scripts", "arch")
        built = path.suffix in (".o", ".a", ".cmd", ".mod") or path.name.startswith("vmlinux")
        if built or (path.suffix in (".c", ".S") and not ours):
            path.unlink()
