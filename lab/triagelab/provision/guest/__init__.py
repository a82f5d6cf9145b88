# SPDX-License-Identifier: GPL-2.0-only
"""Make the guest's two archives: the initramfs, with tools and modules, and the job's archive.

The lab makes the initramfs once for each kernel. The guest fetches the job's archive after it has
booted. This repository's modules are only in the archives of jobs that need them. So a change to a
module does not change the other runs.
"""

import gzip
import hashlib
import lzma
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from triagelab.base import cache, tools
from triagelab.base.errors import LabError
from triagelab.provision import programs
from triagelab.provision.kernels import Kernel

FILES = Path(__file__).parent
_ARCHIVE = "base.cpio"

#: Kernel modules that guests may need. The initramfs has those that are not built into the kernel.
_KERNEL_MODULES = (
    "configfs",
    "virtio_pci",
    "virtio_console",
    "null_blk",
    "kyber-iosched",
    "bfq",
    "ext4",
    "crc32c_generic",  # ext4 needs it as "crc32c", which modules.dep does not say
    "loop",
)


def has_module(kernel: Kernel, name: str) -> bool:
    """Return whether the kernel has the module `name`, built in or as a file."""
    wanted = _normal(name)
    return any(
        wanted in map(_normal, _lines(kernel.modules / listing))
        for listing in ("modules.order", "modules.builtin")
    )


@dataclass(frozen=True)
class Base:
    """The initramfs: init, busybox, fio, the lab's guest programs, and the kernel's own modules."""

    kernel: Kernel
    folder: Path

    @property
    def archive(self) -> Path:
        """Return the archive's path."""
        return self.folder / _ARCHIVE

    @cached_property
    def sha256(self) -> str:
        """Return a digest of everything in the archive."""
        return tools.sha256(self.archive)


def base(kernel: Kernel) -> Base:
    """Return the initramfs for `kernel`; make it if the cache lacks it."""
    tools.require(tools.RUN)
    binaries = {
        "bin/busybox": Path(tools.path(tools.BUSYBOX)).resolve(),
        "bin/fio": Path(tools.path(tools.FIO)).resolve(),
        "bin/from-host": programs.static(FILES / "from-host.c"),
        "bin/sampler": programs.static(FILES / "sampler.c"),
    }
    libraries = sorted({lib for path in binaries.values() for lib in tools.libraries(path)})
    contents: dict[str, Path] = {"init": FILES / "init"} | binaries
    contents |= {str(library).lstrip("/"): library.resolve() for library in libraries}
    # The digest includes this Python file, because its code packs the archive.
    key = hashlib.sha256(f"{kernel.sha256} {tools.sha256(Path(__file__))}\n".encode())
    contents_of_kernel = {f"modules/{name}": kernel.modules / name for name in _needed(kernel)}
    for name, path in (contents | contents_of_kernel).items():
        key.update(f"{name} {os.access(path, os.X_OK)} {tools.sha256(path)}\n".encode())

    def make(folder: Path) -> None:
        stage = folder / "stage"
        for name, path in contents.items():
            install(path, stage / name)
        (stage / "sbin").mkdir()
        (stage / "sbin/modprobe").symlink_to("/bin/busybox")
        index = _stage_modules(kernel, stage)
        shutil.copyfile(index, folder / "modules.dep")
        archive(stage, folder / _ARCHIVE)
        shutil.rmtree(stage)

    return Base(kernel, cache.made(f"initramfs/{key.hexdigest()[:16]}", make))


def pack_job(
    base: Base,
    files: Mapping[str, Path | str],
    modules: Iterable[Path],
    output: Path,
) -> None:
    """Write a job's archive to `output`, for a guest that has booted `base`.

    `files` maps a path under /job to a file or a text, as for install(). modprobe in the guest can
    load `modules` by name.
    """
    with tempfile.TemporaryDirectory(dir=output.parent) as scratch:
        stage = Path(scratch)
        index = (base.folder / "modules.dep").read_text()
        target = stage / "lib/modules" / base.kernel.release
        for module in modules:
            install(module, target / "extra" / module.name)
            index += f"extra/{module.name}:\n"
        target.mkdir(parents=True, exist_ok=True)
        (target / "modules.dep").write_text(index)
        for name, content in files.items():
            install(content, stage / "job" / name)
        archive(stage, output)


def archive(stage: Path, output: Path) -> None:
    """Pack the folder `stage` into the newc archive `output`.

    The archive depends only on names, contents and execute bits. This function sets the modes of
    all files, so that the umask makes no difference.
    """
    names = sorted(str(path.relative_to(stage)) for path in stage.rglob("*"))
    for name in names:
        path = stage / name
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        os.utime(path, (0, 0), follow_symlinks=False)
    command = [
        tools.path(tools.CPIO),
        "-o",
        "-H",
        "newc",
        "--quiet",
        "--reproducible",
        "-R",
        "+0:+0",
    ]
    with output.open("wb") as file:
        done = subprocess.run(
            command, cwd=stage, input="\n".join(names).encode(), stdout=file, stderr=subprocess.PIPE
        )
    if done.returncode:
        raise LabError(f"packing the initramfs failed: {done.stderr.decode().strip()}")


def install(content: Path | str, target: Path) -> None:
    """Copy a file with its execute bit, or write a text, executable if it starts with `#!`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        shutil.copyfile(content, target)
        executable = os.access(content, os.X_OK)
    else:
        target.write_text(content)
        executable = content.startswith("#!")
    target.chmod(0o755 if executable else 0o644)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _normal(path: str) -> str:
    """Return a module's name from its path: no folder, no suffix, underscores for dashes."""
    return Path(path).name.split(".ko")[0].replace("-", "_")


#: The files that depmod reads besides the modules.
_LISTINGS = ("modules.builtin", "modules.builtin.modinfo", "modules.order")


def _needed(kernel: Kernel) -> list[str]:
    """Return the paths of the files in the kernel's folder of modules that guests may need.

    These are _KERNEL_MODULES with their dependencies, and _LISTINGS. The paths are relative.
    """
    listing = kernel.modules / "modules.dep"
    if not listing.exists():
        raise LabError(f"{listing} is missing: run depmod -b {kernel.root} {kernel.release}")
    needs: dict[str, list[str]] = {}
    for line in _lines(listing):
        path, _, depends = line.partition(":")
        needs[_normal(path)] = [path, *depends.split()]
    wanted = {path for name in _KERNEL_MODULES for path in needs.get(_normal(name), [])}
    wanted |= {name for name in _LISTINGS if (kernel.modules / name).exists()}
    return sorted(wanted)


def _stage_modules(kernel: Kernel, stage: Path) -> Path:
    """Copy the files of _needed() to `stage`, modules uncompressed; return the new modules.dep."""
    target = stage / "lib/modules" / kernel.release
    for name in _needed(kernel):
        listed = name in _LISTINGS
        copy = target / (name if listed else name.split(".ko")[0] + ".ko")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(
            (kernel.modules / name).read_bytes() if listed else _module(kernel.modules / name)
        )
    tools.call([tools.path(tools.DEPMOD), "-b", str(stage), kernel.release])
    return target / "modules.dep"


def _module(path: Path) -> bytes:
    """Return a module's ELF file, uncompressed."""
    data = path.read_bytes()
    match path.suffix:
        case ".xz":
            return lzma.decompress(data)
        case ".gz":
            return gzip.decompress(data)
        case ".zst":
            command = [tools.path(tools.ZSTD), "-dcq"]
            return subprocess.run(command, input=data, capture_output=True, check=True).stdout
    return data
