# SPDX-License-Identifier: GPL-2.0-only
"""What a guest boots into, an initramfs with the tools and modules, and the job's archive.

The first is made once for each kernel; the guest fetches the second when it has booted.
Modules of ours travel with the job that needs them: a change to one leaves every other
run as it was.
"""

import gzip
import hashlib
import lzma
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from triagelab import cache, programs, tools
from triagelab.errors import LabError
from triagelab.kernels import Kernel

FILES = Path(__file__).parent
_ARCHIVE = "base.cpio"

#: Kernel modules that guests may need, shipped where the kernel has them as modules.
_KERNEL_MODULES = (
    "configfs",
    "virtio_pci",
    "virtio_console",
    "null_blk",
    "kyber-iosched",
    "bfq",
    "ext4",
    "crc32c_generic",  # which ext4 asks for by the algorithm's name
    "loop",
)


def has_module(kernel: Kernel, name: str) -> bool:
    """Whether the kernel has `name`, built in or as a module."""
    wanted = _normal(name)
    return any(
        wanted in map(_normal, _lines(kernel.modules / listing))
        for listing in ("modules.order", "modules.builtin")
    )


@dataclass(frozen=True)
class Base:
    """The initramfs with init, busybox, fio and its libraries, and the kernel's own modules."""

    kernel: Kernel
    folder: Path

    @property
    def archive(self) -> Path:
        """The file."""
        return self.folder / _ARCHIVE

    @property
    def key(self) -> str:
        """What identifies everything in it."""
        return self.folder.name


def base(kernel: Kernel) -> Base:
    """The initramfs for `kernel`; made once."""
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
    key = hashlib.sha256(f"{kernel.sha256} {_KERNEL_MODULES}\n".encode())
    for name, path in contents.items():
        key.update(f"{name} {_digest(path)}\n".encode())

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
    """Write the archive `output` of a job for a guest that has booted into `base`.

    `files` maps a path under /job to what to `install` there. `modules` can be had with
    modprobe.
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
    """Pack `stage` as a newc archive that depends on names and contents alone."""
    names = sorted(str(path.relative_to(stage)) for path in stage.rglob("*"))
    for name in names:
        os.utime(stage / name, (0, 0), follow_symlinks=False)
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


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def install(content: Path | str, target: Path) -> None:
    """Copy a file, or write a text; text whose first line is a `#!` is made executable."""
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
    """A module's name from its path: no folder, no endings, dashes as the kernel has them."""
    return Path(path).name.split(".ko")[0].replace("-", "_")


def _stage_modules(kernel: Kernel, stage: Path) -> Path:
    """Copy the modules guests may need, with what they depend on; returns modprobe's index."""
    target = stage / "lib/modules" / kernel.release
    target.mkdir(parents=True)
    listing = kernel.modules / "modules.dep"
    if not listing.exists():
        raise LabError(f"{listing} is missing: run depmod -b {kernel.root} {kernel.release}")
    needs: dict[str, list[str]] = {}
    for line in _lines(listing):
        path, _, depends = line.partition(":")
        needs[_normal(path)] = [path, *depends.split()]
    wanted = {path for name in _KERNEL_MODULES for path in needs.get(_normal(name), [])}
    for path in sorted(wanted):
        plain = target / (path.split(".ko")[0] + ".ko")
        plain.parent.mkdir(parents=True, exist_ok=True)
        plain.write_bytes(_module(kernel.modules / path))
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        if (kernel.modules / name).exists():
            shutil.copyfile(kernel.modules / name, target / name)
    tools.call([tools.path(tools.DEPMOD), "-b", str(stage), kernel.release])
    return target / "modules.dep"


def _module(path: Path) -> bytes:
    """A module's ELF, whatever the distribution packed it with."""
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
