# SPDX-License-Identifier: GPL-2.0-only
"""Find a kernel to boot: this computer's, a given file, a series' newest, or a debug kernel.

The newest kernel of a series comes from the distribution's packages. The lab builds the debug
kernels. It installs no kernel, but unpacks packages into the cache folder. Only the first use of a
series needs the network.
"""

import contextlib
import hashlib
import os
import re
import shutil
import struct
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from triagelab.base import cache, sources, tools
from triagelab.base.errors import LabError, RequestError, unknown
from triagelab.provision import debugkernel, toolchain
from triagelab.provision.packages import Apt, debian_backports, everywhere, unpack

DEFAULT_SERIES = "6.12"
SERIES = ("6.1", "6.12")
#: backported() returns at most this many series. Debian keeps only the newest ones in backports.
BACKPORTED = 2
#: `--debug` adds this suffix to a series, which gives the name of a debug kernel.
DEBUG = "-debug"
_VARIANT = re.compile(rf"(\d+\.\d+)-({'|'.join(debugkernel.VARIANTS)})")
_SERIES = re.compile(r"\d+\.\d+")
_HEADERS = re.compile(r"linux-headers-(\d+\.\d+)\.\d+\S*-amd64")
#: In every current image, the header of the boot protocol reaches at least to this offset.
_HEADER_END = 0x250
#: The program that unpacks a boot image. compat/generate.py also imports it, to build modules.
UNPACK = sources.MODULES / "compat/vmlinux.py"


@dataclass(frozen=True)
class Kernel:
    """A kernel with its modules.

    image     the bzImage
    root      the folder that contains lib/modules/RELEASE
    headers   the folder that modules are built against; None if there are no headers
    programs  the folder of the programs that build modules; None: use this computer's programs
    """

    release: str
    image: Path
    root: Path
    headers: Path | None
    programs: Path | None = None

    @property
    def modules(self) -> Path:
        """Return the folder of the kernel's own modules."""
        return self.root / "lib/modules" / self.release

    @cached_property
    def sha256(self) -> str:
        """Return the SHA-256 of the image. The names of runs depend on it."""
        return tools.sha256(self.image)

    @cached_property
    def elf(self) -> Path:
        """Return the uncompressed kernel's file, which has BTF and boots faster than the image."""

        def unpack(folder: Path) -> None:
            tools.call([sys.executable, "-B", *map(str, (UNPACK, self.image, folder / "vmlinux"))])

        key = hashlib.sha256(f"{self.sha256} {tools.sha256(UNPACK)}".encode()).hexdigest()[:16]
        return cache.made(f"elf/{key}", unpack) / "vmlinux"

    @cached_property
    def boots_as_elf(self) -> bool:
        """Return whether the uncompressed kernel has the PVH entry that QEMU needs to boot it."""
        try:
            elf = self.elf.read_bytes()
        except LabError:
            return False  # then QEMU boots the image, which unpacks itself
        # An ELF note: name size 4, description size 4 or 8, type 18, name "Xen".
        return re.search(rb"\x04\0\0\0[\x04\x08]\0\0\0\x12\0\0\0Xen\0", elf) is not None

    @property
    def elf_or_image(self) -> Path:
        """Return the file that QEMU boots."""
        return self.elf if self.boots_as_elf else self.image


def release_of(image: bytes) -> str:
    """Return the release (`uname -r`) from a bzImage's boot protocol header."""
    if image[0x202:0x206] != b"HdrS" or len(image) < _HEADER_END:
        raise RequestError(
            "that is not a Linux kernel image (bzImage) for x86; give --kernel a vmlinuz file"
        )
    (offset,) = struct.unpack_from("<H", image, 0x20E)
    text = image[offset + 0x200 :].split(b"\0", 1)[0].decode("ascii", "replace")
    return text.split()[0] if text.split() else ""


def find(name: str) -> Kernel:
    """Return the kernel called `name`; fetch or build it if necessary.

    `name` is a series (6.12), a debug kernel (6.12-debug), an installed release (6.12.9-amd64),
    `running`, or the path of a vmlinuz. The path must contain a slash.
    """
    if "/" in name:
        return _given(Path(name).absolute())
    if _SERIES.fullmatch(name):
        return _distribution(name)
    if match := _VARIANT.fullmatch(name):
        return _debug(*match.groups())
    installed = _installed()
    if name == "running":
        name = os.uname().release
        if name not in installed:
            raise RequestError(
                f"the running kernel, {name}, has no image in /boot or no modules in /lib/modules; "
                "install its package"
            )
    if name not in installed:
        debug = [f"{DEFAULT_SERIES}-{variant}" for variant in debugkernel.VARIANTS]
        raise unknown("kernel", name, [*SERIES, *debug, "running", *installed])
    return _given(installed[name])


def fetched(name: str) -> bool:
    """Return whether find() may have to fetch or build the kernel called `name`."""
    return bool(_SERIES.fullmatch(name) or _VARIANT.fullmatch(name))


def looks_for_bugs(name: str) -> bool:
    """Return whether `name` is the name of a debug kernel."""
    return _VARIANT.fullmatch(name) is not None


def backported() -> list[str]:
    """Return the newest series of stable Debian and its backports, at most BACKPORTED, sorted."""
    with tempfile.TemporaryDirectory() as folder:
        packages = debian_backports(Path(folder)).run("apt-cache", "pkgnames", "linux-").split()
    found = {match[1] for match in (_HEADERS.match(name) for name in packages) if match}
    known = [series for series in found if newest(packages, series)]
    return sorted(known, key=version)[-BACKPORTED:]


def listing() -> list[tuple[str, str]]:
    """Return pairs: a name that find() accepts, the kernel's origin. N.N stands for any series."""
    found = []
    cached = {path.name for path in (cache.root() / "kernels").glob("[0-9]*.*[0-9]")}
    for series in sorted({*SERIES, *cached}, key=version):
        images = sorted((cache.root() / "kernels" / series / "boot").glob("vmlinuz-*"))
        where = (
            f"{images[0].name.removeprefix('vmlinuz-')}, cached" if images else "fetched when used"
        )
        found.append((series, where))
    found.append(("N.N", "any series Debian has backported to its newest release"))
    for variant, looks_for in debugkernel.VARIANTS.items():
        found.append((f"{DEFAULT_SERIES}-{variant}", f"built when used: {looks_for}"))
    return [*found, *((release, "installed") for release in _installed())]


def _installed() -> dict[str, Path]:
    """Return release -> image, for each release with an image in /boot and modules."""
    images = {path.name.removeprefix("vmlinuz-"): path for path in Path("/boot").glob("vmlinuz-*")}
    return {
        release: path
        for release, path in images.items()
        if (Path("/lib/modules") / release).is_dir()
    }


def _given(image: Path) -> Kernel:
    """Return the kernel in the file `image`.

    Its modules must be in lib/modules beside the file, one folder above it, or in /.
    """
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
    """Return the series' kernel from the cache; fetch the distribution's newest if missing."""
    folder = cache.fetched(f"kernels/{series}", lambda folder: _fetch(series, folder))
    (image,) = (folder / "boot").glob("vmlinuz-*")
    release = image.name.removeprefix("vmlinuz-")
    headers = folder / "usr/src" / f"linux-headers-{release}"
    return Kernel(release, image, folder, headers, toolchain.of(folder))


def _debug(series: str, variant: str) -> Kernel:
    """Return a debug kernel of a series; build it if it is not in the cache."""
    folder = debugkernel.built(source(series), variant)
    (image,) = (folder / "boot").glob("vmlinuz-*")
    return Kernel(image.name.removeprefix("vmlinuz-"), image, folder, folder / "build")


def newest(packages: list[str], series: str) -> str | None:
    """Return the newest stock release of `series` with packages for image and headers, or None."""
    pattern = re.compile(rf"linux-image-({re.escape(series)}[.-][\w.+-]*?-amd64)")
    known = set(packages)
    releases = [
        match[1]
        for match in map(pattern.fullmatch, packages)
        if match and f"linux-headers-{match[1]}" in known
    ]
    stock = [release for release in releases if not re.search(r"-(cloud|rt)-", release)]
    return max(stock, key=version, default=None)


def version(name: str) -> list[int]:
    """Return the numbers in the name of a release or series, to compare versions."""
    return [int(number) for number in re.findall(r"\d+", name)]


def _fetch(series: str, folder: Path) -> None:
    """Unpack the distribution's newest kernel of `series`, and its headers, into `folder`."""
    tools.require([tools.DEPMOD])
    tools.tell(f"fetching the distribution's newest {series} kernel")
    apt, release = _published(series, folder / "apt")
    headers = f"linux-headers-{release}"
    depends = apt.run("apt-cache", "depends", headers, f"linux-image-{release}")
    # From Linux 7.2 on, the image's package is empty and depends on other packages, which contain
    # the kernel.
    part = r" Depends: (linux-(?:headers-\S+-common|kbuild-\S+|(?:base|binary|modules)-\d\S+))"
    wanted = [f"linux-image-{release}", headers, *dict.fromkeys(re.findall(part, depends))]
    (folder / "packages").mkdir()
    apt.run("apt-get", "download", *wanted, cwd=folder / "packages")
    unpack(folder / "packages", folder)
    _arrange(folder, release)
    tools.call([tools.path(tools.DEPMOD), "-b", str(folder), release])
    _relocate(folder, release)
    if apt.foreign:
        kbuild = next(name for name in wanted if "-kbuild-" in name)
        compiler = compiler_of(folder / "usr/src" / headers)
        if compiler is None:
            raise LabError(f"{headers} does not name the compiler that modules are built with")
        toolchain.provide(apt, compiler, kbuild, folder)
    shutil.rmtree(folder / "apt")
    shutil.rmtree(folder / "packages")


def compiler_of(headers: Path) -> str | None:
    """Return the compiler that the headers name, such as gcc-12; None if they name none."""
    variables = headers / ".kernelvariables"
    found = re.search(r"\bgcc-\d+\b", variables.read_text()) if variables.exists() else None
    return found and found[0]


def _published(series: str, state: Path) -> tuple[Apt, str]:
    """Return the first package source with kernels of `series`, and the newest kernel's release.

    Try the computer's own package sources first, then Debian's suites.
    """
    for apt in everywhere(state):
        release = newest(apt.run("apt-cache", "pkgnames", "linux-").split(), series)
        if release is not None:
            return apt, release
    raise LabError(
        f"Debian's package lists have no {series} kernel with headers; "
        "give --kernel an installed release or a vmlinuz"
    )


def _arrange(root: Path, release: str) -> None:
    """Move the image to boot/vmlinuz-RELEASE, and the modules to lib/modules/RELEASE.

    Packages of newer kernels have both in usr/lib/modules.
    """
    newer, modules = root / "usr/lib/modules", root / "lib/modules"
    if newer.exists():
        modules.parent.mkdir(exist_ok=True)
        newer.rename(modules)
    # A newer depmod looks for the modules in usr/lib/modules.
    newer.parent.mkdir(parents=True, exist_ok=True)
    newer.symlink_to("../../lib/modules")
    image = root / "boot" / f"vmlinuz-{release}"
    if not image.exists():
        image.parent.mkdir(exist_ok=True)
        (modules / release / "vmlinuz").rename(image)


def source(series: str) -> Path:
    """Return the distribution's source tarball of the series; its name has the version."""

    def fetch(folder: Path) -> None:
        tools.tell(f"fetching the source of {series}")
        apt = Apt(folder / "apt")
        apt.run("apt-get", "download", f"linux-source-{series}", cwd=folder / "apt")
        (package,) = (folder / "apt").glob("*.deb")
        tools.call(["dpkg-deb", "-x", str(package), str(folder / "apt")])
        (tarball,) = (folder / "apt/usr/src").glob("linux-source-*.tar.*")
        version = package.name.split("_")[1]
        tarball.rename(folder / f"linux-source-{version}{''.join(tarball.suffixes[-2:])}")
        shutil.rmtree(folder / "apt")

    (tarball,) = cache.fetched(f"source/{series}", fetch).iterdir()
    return tarball


def excerpt() -> Path:
    """Return a folder with a few files from the source of the default series, for various checks.

    These are the style checker, the block layer with its documents, the Makefile and some headers.
    """

    def fetch(folder: Path) -> None:
        tools.require([tools.XZ])
        scripts = ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch")
        headers = ("blk-mq.h", "blkdev.h", "hrtimer.h")
        wanted = [
            *("Makefile", "block", "Documentation/block"),
            *(f"scripts/{name}" for name in scripts),
            *(f"include/linux/{name}" for name in headers),
        ]
        members = [f"linux-source-{DEFAULT_SERIES}/{name}" for name in wanted]
        tarball = str(source(DEFAULT_SERIES))
        command = ["tar", "-x", "-f", tarball, "-C", str(folder), "--strip-components=1"]
        tools.call([*command, *members])

    return cache.fetched(f"excerpt/{DEFAULT_SERIES}", fetch)


def checkpatch() -> Path:
    """Return the path of the kernel's style checker, from the distribution's source package."""
    return excerpt() / "scripts/checkpatch.pl"


def _relocate(root: Path, release: str) -> None:
    """Make the headers work in `root`, although they are packaged for /usr/src.

    Make the paths to /usr/src in their Makefile relative. Remove the links from the modules' folder
    to the headers, because these links lead to /usr/src too.
    """
    headers = root / "usr/src" / f"linux-headers-{release}"
    makefile = headers / "Makefile"
    # Relative to the Makefile, so that the cache folder can move.
    here = "$(dir $(lastword $(MAKEFILE_LIST)))../"
    text = makefile.read_text().replace("include /usr/src/", f"include {here}")
    makefile.write_text(text.replace("KBUILD_OUTPUT=/usr/src/", f"KBUILD_OUTPUT := {here}"))
    for link in ("build", "source"):
        path = root / "lib/modules" / release / link
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
