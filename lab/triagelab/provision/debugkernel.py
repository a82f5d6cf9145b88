# SPDX-License-Identifier: GPL-2.0-only
"""The debug kernels: built here from a series' source, with two configurations and no more."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from triagelab.base import cache, tools
from triagelab.base.errors import LabError

#: The suffix of each debug kernel's name, and the bugs that this kernel finds.
VARIANTS = {
    "debug": "KASAN, lockdep, fault injection",
    "kcsan": "KCSAN: data races",
}

_FOLDER = Path(__file__).parent
#: For each variant, its file of options in addition to debug.config.
_ADDED = {"debug": "debug-kasan.config", "kcsan": "debug-kcsan.config"}

#: The parts of a kernel's source that no kernel for these guests needs: most of it.
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
#: The builder and time that the kernel names: fixed, so that the same source gives the same bytes.
_BUILDER = {
    "KBUILD_BUILD_TIMESTAMP": "@0",
    "KBUILD_BUILD_USER": "triage",
    "KBUILD_BUILD_HOST": "lab",
    "KBUILD_BUILD_VERSION": "1",
}


def config(variant: str) -> str:
    """Return the options of a debug kernel."""
    return "".join((_FOLDER / name).read_text() for name in ("debug.config", _ADDED[variant]))


def built(source: Path, variant: str) -> Path:
    """The folder of the debug kernel from the tarball `source`: boot/, lib/modules/, build/.

    `source` is named by its version. The folder's name and the kernel's release depend on all that
    determines the kernel: source, configuration, compiler.
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
    # Read by the Makefile of the distribution's source; modules are built with it too.
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
    """The options of `wanted` that the finished `config` does not have."""
    lines = set(config.splitlines())
    return [line for line in re.findall(r"^CONFIG_.*$", wanted, re.M) if line not in lines]


def _make(tree: Path, *arguments: str) -> None:
    _call([tools.path(tools.MAKE), "-s", "-C", str(tree), *arguments])


def _call(command: list[str]) -> None:
    # Otherwise the next build would run beside it. On this signal make ends its own processes.
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
    """Leave of a built tree what modules are built against: headers, scripts, programs."""
    for path in tree.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        ours = path.relative_to(tree).parts[0] in ("include", "scripts", "arch")
        built = path.suffix in (".o", ".a", ".cmd", ".mod") or path.name.startswith("vmlinux")
        if built or (path.suffix in (".c", ".S") and not ours):
            path.unlink()
