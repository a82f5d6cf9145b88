# SPDX-License-Identifier: GPL-2.0-only
"""Tests of kernels: the newest package, the release in a bzImage, and refused files."""

import gzip
import lzma
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from triagelab.base import tools
from triagelab.base.errors import LabError, RequestError
from triagelab.provision import kernels

ELF = b"\x7fELF" + b"kernel" * 100


def image(payload: bytes, release: bytes = b"6.12.1-test (builder)") -> bytes:
    """Return a bzImage with a boot header and `payload`, laid out by the boot protocol."""
    head = bytearray(1024 + 4096)
    head[0x1F1] = 1  # setup sectors: the kernel proper starts at (1 + 1) * 512
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x300 - 0x200)
    head[0x300 : 0x300 + len(release) + 1] = release + b"\0"
    struct.pack_into("<II", head, 0x248, 4096, len(payload))
    return bytes(head) + payload


def zstd(data: bytes) -> bytes:
    command = [tools.path(tools.ZSTD), "-cq"]
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def test_newest_counts_numbers_and_wants_headers() -> None:
    packages = [
        f"linux-{kind}-{release}"
        for release in ("6.12.9+deb12-amd64", "6.12.57+deb12-amd64", "6.12.100+deb12-amd64")
        for kind in ("image", "headers")
    ]
    packages += ["linux-image-6.12.200+deb12-amd64", "linux-image-6.12.100+deb12-amd64-unsigned"]
    packages += [f"linux-{kind}-6.12.300+deb12-cloud-amd64" for kind in ("image", "headers")]
    assert kernels.newest(packages, "6.12") == "6.12.100+deb12-amd64"


def test_newest_keeps_to_the_series() -> None:
    packages = [
        f"linux-{k}-{r}-amd64" for r in ("6.1.0-50", "6.12.9") for k in ("image", "headers")
    ]
    assert kernels.newest(packages, "6.1") == "6.1.0-50-amd64"
    assert kernels.newest(packages, "6.9") is None


def test_newest_reads_the_names_of_backports() -> None:
    packages = [
        f"linux-{kind}-7.3.{number}+deb13{flavour}-amd64"
        for kind in ("image", "headers")
        for number in (4, 12)
        for flavour in ("", "-cloud", "-rt")
    ]
    packages += ["linux-image-7.3.20+deb13-amd64", "linux-headers-7.3-amd64"]
    assert kernels.newest(packages, "7.3") == "7.3.12+deb13-amd64"


def test_the_series_of_backports_that_can_be_built_for(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"linux-image-{release}+deb13-amd64" for release in ("7.9.1", "7.10.2", "7.11.3")]
    names += [f"linux-headers-{release}+deb13-amd64" for release in ("6.19.1", "7.9.1", "7.10.2")]
    names += ["linux-image-6.19.1+deb13-amd64", "linux-headers-7.11.3+deb13-common"]

    class Lists:
        def run(self, *_: str) -> str:
            return "\n".join(names)

    monkeypatch.setattr(kernels, "debian_backports", lambda state: Lists())
    assert kernels.backported() == ["7.9", "7.10"]


@pytest.mark.parametrize("newer", [False, True], ids=["6.1", "7.3"])
def test_packages_of_any_age_are_laid_out_alike(tmp_path: Path, newer: bool) -> None:
    modules = tmp_path / ("usr/lib/modules/1.2.3" if newer else "lib/modules/1.2.3")
    modules.mkdir(parents=True)
    (modules / "modules.order").write_text("order")
    image = modules / "vmlinuz" if newer else tmp_path / "boot/vmlinuz-1.2.3"
    image.parent.mkdir(exist_ok=True)
    image.write_text("image")
    kernels._arrange(tmp_path, "1.2.3")
    assert (tmp_path / "boot/vmlinuz-1.2.3").read_text() == "image"
    for folder in ("lib", "usr/lib"):  # where older and newer depmods look
        assert (tmp_path / folder / "modules/1.2.3/modules.order").read_text() == "order"


def test_headers_of_any_age_are_used_where_they_are_unpacked(tmp_path: Path) -> None:
    """The headers' Makefiles find each other where they are unpacked, not in /usr/src."""
    headers = tmp_path / "usr/src/linux-headers-1.2.3"
    common = tmp_path / "usr/src/linux-headers-common"
    headers.mkdir(parents=True)
    common.mkdir()
    (tmp_path / "lib/modules/1.2.3").mkdir(parents=True)
    (headers / "Makefile").write_text(
        "KBUILD_OUTPUT=/usr/src/linux-headers-1.2.3\n"
        "include /usr/src/linux-headers-common/Makefile\n"
    )
    (common / "Makefile").write_text("all:\n\t@echo $(realpath $(KBUILD_OUTPUT))\n")
    kernels._relocate(tmp_path, "1.2.3")
    said = tools.call([tools.path(tools.MAKE), "-s", "--no-print-directory", "-C", str(headers)])
    assert said.strip() == str(headers)


@pytest.mark.parametrize(
    ("text", "compiler"),
    [
        ("CC = $(CCACHE) $(CROSS_COMPILE)gcc-14\n", "gcc-14"),
        ("override CC = /usr/bin/gcc-12\n", "gcc-12"),
        ("CC = cc\n", None),
        (None, None),
    ],
)
def test_the_compiler_that_headers_name(
    tmp_path: Path, text: str | None, compiler: str | None
) -> None:
    if text is not None:
        (tmp_path / ".kernelvariables").write_text(text)
    assert kernels.compiler_of(tmp_path) == compiler


def test_release_is_read_from_the_boot_header() -> None:
    assert kernels.release_of(image(b"")) == "6.12.1-test"


def unpacked(data: bytes, folder: Path) -> bytes:
    """Return the kernel that UNPACK extracts from an image; raise LabError if UNPACK fails."""
    (folder / "vmlinuz").write_bytes(data)
    tools.call([sys.executable, str(kernels.UNPACK), str(folder / "vmlinuz"), str(folder / "elf")])
    return (folder / "elf").read_bytes()


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, zstd])
def test_a_packed_kernel_comes_out_whole(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    # The kernel's build appends the unpacked size to the payload.
    packed = compress(ELF) + struct.pack("<I", len(ELF))
    assert unpacked(image(packed), tmp_path) == ELF


@pytest.mark.parametrize(
    ("damaged", "how"),
    [
        (image(gzip.compress(b"no kernel")), "no ELF file"),
        (image(gzip.compress(ELF))[:-9], "its end is missing"),
        (image(b"\x1f\x8b" + b"kernel" * 9), "decompressing"),
        (image(b"\xfd7zXZ\0" + b"kernel" * 9), "Corrupt input data"),
    ],
)
def test_a_damaged_kernel_is_refused(damaged: bytes, how: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=rf"the kernel image is damaged: .*{how}.*install it again"):
        unpacked(damaged, tmp_path)


@pytest.mark.parametrize("size", [0x1F0, 0x206, 0x20F, 0x24F])
def test_a_kernel_cut_within_its_header_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(image(gzip.compress(ELF))[:size])
    with pytest.raises(RequestError, match="not a Linux kernel"):
        kernels.find(str(path))


def test_a_file_that_is_no_kernel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(b"hello" * 500)
    with pytest.raises(RequestError, match="not a Linux kernel"):
        kernels.find(str(path))


def test_a_kernel_without_modules_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(image(gzip.compress(ELF)))
    with pytest.raises(RequestError, match=r"lib/modules/6\.12\.1-test"):
        kernels.find(str(path))


def test_a_kernel_given_with_modules_beside_it_is_found(tmp_path: Path) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(image(gzip.compress(ELF)))
    (tmp_path / "lib/modules/6.12.1-test").mkdir(parents=True)
    kernel = kernels.find(str(path))
    assert (kernel.release, kernel.headers) == ("6.12.1-test", None)
    assert not kernel.boots_as_elf


def test_an_unknown_kernel_names_what_there_is() -> None:
    with pytest.raises(RequestError, match=r"unknown kernel 'runnin'.*running"):
        kernels.find("runnin")
