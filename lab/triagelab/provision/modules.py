# SPDX-License-Identifier: GPL-2.0-only
"""Build this repository's kernel modules. A build needs only a kernel's headers and BTF."""

import dataclasses
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

from triagelab.base import cache, files, sources, tools
from triagelab.base.errors import LabError, RequestError
from triagelab.provision import clangheaders, kernels
from triagelab.provision.kernels import Kernel

BUILD = sources.ROOT / "build"


def require_built_for(module: Path, kernel: Kernel) -> None:
    """Raise RequestError if `module` is not a kernel module, or was built for another kernel."""
    found = re.search(rb"\0vermagic=(\S+)", module.read_bytes())
    if found is None:
        raise RequestError(f"{module} is not a kernel module: it has no vermagic")
    release = found[1].decode(errors="replace")
    if release != kernel.release:
        raise RequestError(
            f"{module} was built for kernel {release}, not for {kernel.release}; "
            f"build it against {kernel.headers}, or give --kernel {release}"
        )


def build(
    kernel: Kernel, source: Path = sources.MODULES, output: Path | None = None, storm: bool = False
) -> Path:
    """Build every module under `source` for `kernel`; return the folder with the .ko files.

    With `storm`, schedulers get yield points (kernel/include/yield.h). A module with yield points
    needs the module storm.
    """
    output = output or BUILD / (kernel.release + ("-storm" if storm else ""))
    _make(kernel, source, output, *(["STORM=1"] if storm else []))
    return output


def warnings(kernel: Kernel, clang: bool = False) -> None:
    """Compile and link all modules, with the kernel's compiler or clang; discard the result.

    Raise LabError on any warning.
    """
    if not clang:
        _make(kernel, sources.MODULES, _output(kernel), "warnings")
        return
    tools.require([tools.CLANG])
    output = BUILD / f"{kernel.release}-clang"
    headers = clangheaders.configured(_headers(kernel), output / "src")
    compiler = f"CC={tools.path(tools.CLANG)}"
    other = dataclasses.replace(kernel, headers=headers)
    _make(other, sources.MODULES, output, "warnings", compiler)


def check(kernel: Kernel, style: bool = True) -> str:
    """Compile with all warnings, and run sparse and checkpatch; return the output.

    Without `style`, do not run checkpatch, whose result is the same for every kernel. Raise
    LabError if the compiler or a checker complains.
    """
    tools.require([tools.SPARSE, tools.PERL])
    words = ["check", f"CHECKPATCH={kernels.checkpatch()}"] if style else ["sparse"]
    return _make(kernel, sources.MODULES, _output(kernel), *words)


def _headers(kernel: Kernel) -> Path:
    """Return the folder that modules are built against; raise an error if there is none."""
    if kernel.headers is None or not kernel.headers.is_dir():
        raise LabError(
            f"no headers for kernel {kernel.release} to build modules against. "
            f"Install with: sudo apt-get install linux-headers-{kernel.release}"
        )
    return kernel.headers


def _output(kernel: Kernel) -> Path:
    return BUILD / kernel.release


def _make(kernel: Kernel, source: Path, output: Path, *arguments: str) -> str:
    """Run make with `source`/Makefile for `kernel`; return its output, or raise LabError."""
    headers = _headers(kernel)
    tools.require(tools.BUILD)
    programs = _programs(headers, kernel.programs)
    for path in (source, headers):
        if len(str(path).split()) > 1:
            raise LabError(f"{path}: make cannot build modules in a folder whose path has a space")
    command = [
        tools.path(tools.MAKE),
        f"-j{len(os.sched_getaffinity(0))}",
        "-C",
        str(source),
        f"KDIR={headers}",
        f"VMLINUX={kernel.elf}",
        f"O={output}",
        f"PYTHON={sys.executable}",
        *programs,
        *arguments,
    ]
    with cache.handed_over(output), files.locked(output / ".lock"):
        # When the lab ends, it drops the lock, and another build may begin. So make must end too.
        done = subprocess.run(
            tools.with_us("TERM", command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    if done.returncode:
        raise LabError(f"building for {kernel.release} failed:\n{done.stdout.strip()}")
    return done.stdout.strip()


def _programs(headers: Path, folder: Path | None) -> list[str]:
    """Return make's arguments that name the compiler and pahole.

    `folder` has these programs, from another Debian release. Without `folder`, return no arguments:
    make uses this computer's programs, so first make sure that this computer has the compiler that
    the headers name. If the headers name no compiler, return no arguments either.
    """
    compiler = kernels.compiler_of(headers)
    if compiler is None:
        return []
    if folder is None:
        tools.require([tools.Tool(compiler, compiler)])
        return []
    programs = folder / "usr/bin"
    return [f"CC={programs / f'x86_64-linux-gnu-{compiler}'}", f"PAHOLE={programs / 'pahole'}"]


def kept(module: Path) -> Path:
    """Copy `module` into the cache, where no later build changes it; return the copy's path."""
    content = module.read_bytes()
    key = f"{module.stem}-{hashlib.sha256(content).hexdigest()[:16]}"

    def make(folder: Path) -> None:
        (folder / module.name).write_bytes(content)

    return cache.made(f"modules/{key}", make) / module.name
