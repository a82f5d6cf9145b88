# SPDX-License-Identifier: GPL-2.0-only
"""Kernels: which package is the newest, what a bzImage says of itself, what is refused."""

import gzip
import lzma
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from triagelab import kernels, tools
from triagelab.errors import LabError, RequestError

ELF = b"\x7fELF" + b"kernel" * 100


def image(payload: bytes, release: bytes = b"6.12.1-test (builder)") -> bytes:
    """A bzImage with a boot header and `payload`, laid out by the boot protocol."""
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


def test_release_is_read_from_the_boot_header() -> None:
    assert kernels.release_of(image(b"")) == "6.12.1-test"


def unpacked(data: bytes, folder: Path) -> bytes:
    """What the program finds in an image; LabError with its complaint."""
    (folder / "vmlinuz").write_bytes(data)
    tools.call([sys.executable, str(kernels.UNPACK), str(folder / "vmlinuz"), str(folder / "elf")])
    return (folder / "elf").read_bytes()


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, zstd])
def test_a_packed_kernel_comes_out_whole(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    # Behind the payload the kernel's build appends the size.
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
    with pytest.raises(RequestError, match="no Linux kernel"):
        kernels.find(str(path))


def test_a_file_that_is_no_kernel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(b"hello" * 500)
    with pytest.raises(RequestError, match="no Linux kernel"):
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
