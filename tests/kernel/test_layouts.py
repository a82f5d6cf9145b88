# SPDX-License-Identifier: GPL-2.0-only
"""Tests that a module builds with kernel headers in the layouts of other distributions.

The tests make these layouts from Debian's headers:

Fedora  one folder with everything, /usr/src/kernels/RELEASE
Ubuntu  a folder with this kernel's own files, and links to the others in a second folder

Neither layout has Debian's short Makefile, which names the compiler, nor the ELF file with the BTF.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from triagelab.base import sources, tools
from triagelab.provision import kernels

#: Files in Debian's folder of a kernel's headers that the other layouts lack, or have elsewhere.
DEBIANS = ("Makefile", ".kernelvariables", "vmlinux", "scripts", "tools")


def parts(kernel: kernels.Kernel) -> tuple[Path, Path, Path]:
    """Return three folders: the version's shared headers, this kernel's own, build programs."""
    assert kernel.headers is not None
    (common,) = kernel.headers.parent.glob("linux-headers-*-common")
    return common, kernel.headers, (kernel.headers / "scripts").resolve().parent


def fedora(kernel: kernels.Kernel, folder: Path) -> Path:
    """Make Fedora's layout: one folder with everything; return it."""
    common, own, programs = parts(kernel)
    made = folder / "kernels" / kernel.release
    for source, without in ((common, ("scripts", "tools")), (own, DEBIANS), (programs, ())):
        ignored = [source / name for name in without]
        shutil.copytree(
            source,
            made,
            symlinks=True,
            dirs_exist_ok=True,
            ignore=lambda at, names, ignored=ignored: [
                name for name in names if Path(at) / name in ignored
            ],
        )
    return made


def ubuntu(kernel: kernels.Kernel, folder: Path) -> Path:
    """Make Ubuntu's layout: links to the shared files, copies of the others; return its folder."""
    common, own, programs = parts(kernel)
    made = folder / f"linux-headers-{kernel.release}"
    _linked(own, common, made, DEBIANS)
    for name in ("scripts", "tools"):
        (made / name).unlink()
        shutil.copytree(programs / name, made / name, symlinks=True)
    return made


def _linked(own: Path, shared: Path, made: Path, without: Sequence[str] = ()) -> None:
    """Make the folder `made`: copies of the files in `own`, except `without`; links to `shared`.

    A file or folder of `shared` is linked if `own` has none of its name, or if `without` names it.
    """
    made.mkdir()
    mine = {path.name for path in own.iterdir()} - set(without)
    for name in mine | {path.name for path in shared.iterdir()}:
        if name not in mine:
            (made / name).symlink_to(shared / name)
        elif not (own / name).is_dir():
            shutil.copyfile(own / name, made / name)
        elif (shared / name).is_dir():
            _linked(own / name, shared / name, made / name)
        else:
            shutil.copytree(own / name, made / name, symlinks=True)


@pytest.mark.parametrize("layout", [fedora, ubuntu])
def test_a_module_builds(layout: object, tmp_path: Path) -> None:
    assert callable(layout)
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    tools.require(tools.BUILD)
    headers = layout(kernel, tmp_path)
    assert not (headers / "vmlinux").exists()
    command = ["make", "-C", str(sources.MODULES), f"KDIR={headers}", f"O={tmp_path / 'out'}"]
    command += ["MODULES=prio-basic", f"VMLINUX={kernel.image}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    module = (tmp_path / "out/prio-basic-iosched.ko").read_bytes()
    assert f"vermagic={kernel.release} ".encode() in module
