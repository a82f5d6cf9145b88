# SPDX-License-Identifier: GPL-2.0-only
"""Tests that compat/vmlinux.py finds the BTF in images without an ELF file, as arm64 has them."""

import gzip
import lzma
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from triagelab.base import sources

UNPACK = sources.MODULES / "compat/vmlinux.py"


def btf(types: bytes, strings: bytes) -> bytes:
    """Return BTF with these two sections."""
    lengths = (24, 0, len(types), len(types), len(strings))
    return struct.pack("<HBB5I", 0xEB9F, 1, 0, *lengths) + types + strings


OWN = btf(struct.pack("<4I", 1, 1 << 24, 4, 32), b"\0thing\0")
#: Three pieces that must not be taken: BTF that is shorter than OWN, BTF whose strings have no end,
#: and the beginning of OWN.
OTHERS = btf(b"", b"\0") + btf(bytes(64), b"\0here\xff") + OWN[:20]
IMAGE = bytes(0x38) + b"ARM\x64" + bytes(100) + OTHERS + bytes(50) + OWN + bytes(50) + OWN[:9]


def zboot(payload: bytes) -> bytes:
    """Return an EFI program that holds a packed image."""
    return b"MZ\0\0zimg" + struct.pack("<4I", 64, len(payload), 0, 0) + bytes(40) + payload


def packed_with_zstd(data: bytes) -> bytes:
    return subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout


def unpack(image: bytes, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "vmlinuz").write_bytes(image)
    command = [sys.executable, "-B", str(UNPACK), str(folder / "vmlinuz"), str(folder / "btf")]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    "image",
    [
        IMAGE,
        gzip.compress(IMAGE),
        zboot(gzip.compress(IMAGE)),
        zboot(lzma.compress(IMAGE)),
        zboot(packed_with_zstd(IMAGE)),
        gzip.compress(zboot(gzip.compress(IMAGE))),
        IMAGE.replace(b"ARM\x64", b"RSC\x05"),
    ],
    ids=["raw", "gzip", "zboot gzip", "zboot xz", "zboot zstd", "gzip zboot", "riscv"],
)
def test_an_image_without_an_elf_file_gives_its_largest_btf(image: bytes, tmp_path: Path) -> None:
    done = unpack(image, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "btf").read_bytes() == OWN


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (gzip.compress(IMAGE)[:-10], "damaged: its end is missing"),
        (zboot(gzip.compress(IMAGE))[:-10], "damaged: its end is missing"),
        (gzip.compress(IMAGE.replace(OWN, b"").replace(OTHERS, b"")), "no type information"),
        (gzip.compress(b"something else"), "no Linux kernel image"),
    ],
    ids=["gzip cut off", "zboot cut off", "no BTF", "no image"],
)
def test_an_image_that_cannot_be_read_is_told_of(image: bytes, said: str, tmp_path: Path) -> None:
    done = unpack(image, tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
