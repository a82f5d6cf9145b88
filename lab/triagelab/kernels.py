# SPDX-License-Identifier: GPL-2.0-only
"""Kernels to boot: installed here, given as files, the distribution's newest of a series,
or built here to look for bugs.

Nothing is installed on the computer: packages are unpacked into the cache folder,
and once a series is there it is used from there, without asking the network.
"""

import contextlib
import hashlib
import os
import re
import shutil
import struct
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from triagelab import cache, debugkernel, tools
from triagelab.errors import LabError, RequestError, unknown
from triagelab.packages import Apt, unpack

DEFAULT_SERIES = "6.12"
SERIES = ("6.1", "6.12")
#: What follows a series to name the debug kernel built from its source.
DEBUG = "-debug"
#: Where the part of the boot protocol's header ends that every image of today has.
_HEADER_END = 0x250
#: Who unpacks a boot image; the modules' build does so too, and knows nothing of the lab.
UNPACK = Path(__file__).resolve().parents[2] / "kernel/compat/vmlinux.py"


@dataclass(frozen=True)
class Kernel:
    """A kernel with its modules.

    image     the bzImage
    root      the folder that has lib/modules/RELEASE
    headers   the folder modules are built against, None if there is none
    """

    release: str
    image: Path
    root: Path
    headers: Path | None

    @property
    def modules(self) -> Path:
        """The kernel's own modules."""
        return self.root / "lib/modules" / self.release

    @cached_property
    def sha256(self) -> str:
        """What identifies the kernel in a run's name."""
        return hashlib.sha256(self.image.read_bytes()).hexdigest()

    @cached_property
    def elf(self) -> Path:
        """The uncompressed kernel, which has the BTF, and boots faster than the image."""

        def unpack(folder: Path) -> None:
            tools.call([sys.executable, "-B", *map(str, (UNPACK, self.image, folder / "vmlinux"))])

        return cache.made(f"elf/{self.sha256[:16]}", unpack) / "vmlinux"

    @cached_property
    def boots_as_elf(self) -> bool:
        """Whether the uncompressed kernel has the PVH entry that QEMU starts an ELF at."""
        try:
            elf = self.elf.read_bytes()
        except LabError:
            return False  # the image unpacks itself, whatever it is packed with
        # An ELF note: name size 4, any description size, type 18, name "Xen".
        return re.search(rb"\x04\0\0\0[\x04\x08]\0\0\0\x12\0\0\0Xen\0", elf) is not None


def release_of(image: bytes) -> str:
    """The release a bzImage says it is (`uname -r`), from the boot protocol's header."""
    if image[0x202:0x206] != b"HdrS" or len(image) < _HEADER_END:
        raise RequestError(
            "that is no Linux kernel image (bzImage) for x86; give --kernel a vmlinuz file"
        )
    (offset,) = struct.unpack_from("<H", image, 0x20E)
    text = image[offset + 0x200 :].split(b"\0", 1)[0].decode("ascii", "replace")
    return text.split()[0] if text.split() else ""


def find(name: str) -> Kernel:
    """The kernel called `name`: a series (6.12), an installed release, `running`, or a vmlinuz."""
    if "/" in name:
        return _given(Path(name).absolute())
    if re.fullmatch(r"\d+\.\d+", name):
        return _distribution(name)
    if match := re.fullmatch(rf"(\d+\.\d+){DEBUG}", name):
        return _debug(match[1])
    installed = _installed()
    if name == "running":
        name = os.uname().release
        if name not in installed:
            raise RequestError(
                f"the running kernel, {name}, has no image in /boot or no modules in /lib/modules; "
                "install its package"
            )
    if name not in installed:
        debug = DEFAULT_SERIES + DEBUG
        raise unknown("kernel", name, [*SERIES, debug, "running", *installed])
    return _given(installed[name])


def listing() -> list[tuple[str, str]]:
    """What `find` takes and where each comes from."""
    found = []
    for series in SERIES:
        images = sorted((cache.root() / "kernels" / series / "boot").glob("vmlinuz-*"))
        where = (
            f"{images[0].name.removeprefix('vmlinuz-')}, cached" if images else "fetched when used"
        )
        found.append((series, where))
    found.append((DEFAULT_SERIES + DEBUG, "built when used: KASAN, lockdep, fault injection"))
    return [*found, *((release, "installed") for release in _installed())]


def _installed() -> dict[str, Path]:
    """Releases that have both an image in /boot and modules."""
    images = {path.name.removeprefix("vmlinuz-"): path for path in Path("/boot").glob("vmlinuz-*")}
    return {
        release: path
        for release, path in images.items()
        if (Path("/lib/modules") / release).is_dir()
    }


def _given(image: Path) -> Kernel:
    """The kernel in the file `image`, with the modules beside it or installed on this computer."""
    try:
        release = release_of(image.read_bytes())
    except OSError as error:
        raise RequestError(f"cannot read the kernel {image}: {error.strerror}") from error
    for root in (image.parent, image.parent.parent, Path("/")):
        modules = root / "lib/modules" / release
        if modules.is_dir():
            build = modules / "build"
            return Kernel(release, image, root, build.resolve() if build.is_dir() else None)
    raise RequestError(
        f"no modules for {image}: expected lib/modules/{release} beside it, above it or in /"
    )


def _distribution(series: str) -> Kernel:
    """The series' kernel from the cache; the distribution's newest if there is none yet."""
    folder = cache.fetched(f"kernels/{series}", lambda folder: _fetch(series, folder))
    (image,) = (folder / "boot").glob("vmlinuz-*")
    release = image.name.removeprefix("vmlinuz-")
    return Kernel(release, image, folder, folder / "usr/src" / f"linux-headers-{release}")


def _debug(series: str) -> Kernel:
    """The debug kernel of a series; built if there is none yet."""
    folder = debugkernel.built(source(series))
    (image,) = (folder / "boot").glob("vmlinuz-*")
    return Kernel(image.name.removeprefix("vmlinuz-"), image, folder, folder / "build")


def newest(packages: list[str], series: str) -> str | None:
    """The newest release of `series` among package names that has both image and headers."""
    pattern = re.compile(rf"linux-image-({re.escape(series)}[.-][\w.+-]*?-amd64)")
    known = set(packages)
    releases = [
        match[1]
        for match in map(pattern.fullmatch, packages)
        if match and f"linux-headers-{match[1]}" in known
    ]
    stock = [release for release in releases if not re.search(r"-(cloud|rt)-", release)]
    return max(
        stock, key=lambda release: [int(n) for n in re.findall(r"\d+", release)], default=None
    )


def _fetch(series: str, folder: Path) -> None:
    """Unpack the distribution's newest kernel of `series`, and its headers, into `folder`."""
    tools.require([tools.DEPMOD])
    tools.tell(f"fetching the distribution's newest {series} kernel")
    apt = Apt(folder / "apt")
    apt.run("apt-get", "update", "-q")
    release = newest(apt.run("apt-cache", "pkgnames", "linux-").split(), series)
    if release is None:
        raise LabError(
            f"the distribution's package lists have no {series} kernel with headers; "
            "give --kernel an installed release or a vmlinuz"
        )
    headers = f"linux-headers-{release}"
    depends = apt.run("apt-cache", "depends", headers)
    parts = re.findall(r"Depends: (linux-(?:headers-\S+-common|kbuild-\S+))", depends)
    wanted = [f"linux-image-{release}", headers, *parts]
    apt.run("apt-get", "download", *wanted, cwd=folder / "apt")
    unpack(folder / "apt", folder)
    shutil.rmtree(folder / "apt")
    tools.call([tools.path(tools.DEPMOD), "-b", str(folder), release])
    _relocate(folder, release)


def source(series: str) -> Path:
    """The tarball of the series' source as the distribution has it; its name has its version."""

    def fetch(folder: Path) -> None:
        tools.tell(f"fetching the source of {series}")
        apt = Apt(folder / "apt")
        apt.run("apt-get", "update", "-q")
        apt.run("apt-get", "download", f"linux-source-{series}", cwd=folder / "apt")
        (package,) = (folder / "apt").glob("*.deb")
        tools.call(["dpkg-deb", "-x", str(package), str(folder / "apt")])
        (tarball,) = (folder / "apt/usr/src").glob("linux-source-*.tar.*")
        version = package.name.split("_")[1]
        tarball.rename(folder / f"linux-source-{version}{''.join(tarball.suffixes[-2:])}")
        shutil.rmtree(folder / "apt")

    (tarball,) = cache.fetched(f"source/{series}", fetch).iterdir()
    return tarball


def checkpatch() -> Path:
    """The kernel's own style checker, from the distribution's source package."""

    def fetch(folder: Path) -> None:
        tools.require([tools.XZ])
        wanted = ["checkpatch.pl", "spelling.txt", "const_structs.checkpatch"]
        members = [f"linux-source-{DEFAULT_SERIES}/scripts/{name}" for name in wanted]
        tarball = str(source(DEFAULT_SERIES))
        command = ["tar", "-x", "-f", tarball, "-C", str(folder), "--strip-components=1"]
        tools.call([*command, *members])

    return cache.fetched(f"checkpatch/{DEFAULT_SERIES}", fetch) / "scripts/checkpatch.pl"


def _relocate(root: Path, release: str) -> None:
    """Make the headers unpacked under `root` usable there: they name /usr/src themselves."""
    headers = root / "usr/src" / f"linux-headers-{release}"
    makefile = headers / "Makefile"
    # Relative to the Makefile, so that the cache folder may move.
    text = makefile.read_text().replace(
        "include /usr/src/", "include $(dir $(lastword $(MAKEFILE_LIST)))../"
    )
    makefile.write_text(text)
    for link in ("build", "source"):
        path = root / "lib/modules" / release / link
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
