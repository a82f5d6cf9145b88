#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Unpack a kernel's type information (BTF) from a boot image (vmlinuz).

    vmlinux.py IMAGE FILE

An image for x86 holds the kernel's ELF file, with the BTF in it. Images for arm64 and RISC-V hold
no ELF file: from these the program takes the BTF alone. pahole reads both.

On an error, the program exits with status 2 and a message that says what to do.
"""

import argparse
import lzma
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

#: The end of payload_length, the last field of the boot header that this program reads.
HEADER_END = 0x250


#: The first bytes of a file that gzip packed, such as vmlinuz of Ubuntu for arm64.
GZIP = b"\x1f\x8b"
#: Matches the beginning of a BTF header: magic number, version, flags, and the header's length.
BTF = re.compile(rb"\x9f\xeb\x01.[\x18-\x40]\0\0\0", re.DOTALL)


class ImageError(Exception):
    """Raised if an image has no readable kernel. The message says what to do."""


def is_image(data: bytes) -> bool:
    """Return whether a file that begins with `data` is a boot image."""
    return _is_bzimage(data) or _is_raw(data) or _is_zboot(data) or data.startswith(GZIP)


def _is_bzimage(data: bytes) -> bool:
    return data[0x202:0x206] == b"HdrS" and len(data) >= HEADER_END


def _is_raw(data: bytes) -> bool:
    """Return whether `data` is the start of an Image, the format of arm64 and RISC-V.

    Documentation/arch/ describes the header: arm64/booting.rst and riscv/boot-image-header.rst.
    """
    return data[0x38:0x3C] in (b"ARM\x64", b"RSC\x05")


def _is_zboot(data: bytes) -> bool:
    """Return whether `data` is the start of an EFI program that unpacks an Image.

    A kernel with CONFIG_EFI_ZBOOT is such a program.
    """
    return data.startswith(b"MZ") and data[4:8] == b"zimg"


def uncompressed(image: bytes) -> bytes:
    """Return the kernel's ELF file from a boot image, or only the BTF if there is no ELF file.

    Raise ImageError if `image` is no boot image, is damaged, or needs a program that is missing.
    """
    try:
        if image.startswith(GZIP):
            image = _unpacked(image)
        if _is_bzimage(image):
            return _elf(image)
        if _is_zboot(image):
            offset, length = struct.unpack_from("<II", image, 8)
            image = _unpacked(_cut(image, offset, length))
    except (zlib.error, lzma.LZMAError) as error:
        raise _damaged(error) from error
    if not _is_raw(image):
        raise ImageError("that is no Linux kernel image for x86, arm64 or RISC-V; give a vmlinuz")
    return _btf(image)


def _elf(image: bytes) -> bytes:
    """Return the ELF file inside a bzImage (Documentation/arch/x86/boot.rst: payload_offset)."""
    sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    elf = _unpacked(_cut(image, (sectors + 1) * 512 + offset, length))
    if not elf.startswith(b"\x7fELF"):
        raise _damaged("what it holds is no ELF file")
    return elf


def _cut(image: bytes, offset: int, length: int) -> bytes:
    payload = image[offset : offset + length]
    if len(payload) < length:
        raise _damaged("its end is missing")
    return payload


def _btf(image: bytes) -> bytes:
    """Return the largest BTF in `image` (Documentation/bpf/btf.rst), which is the kernel's own."""
    found = b""
    for header in BTF.finditer(image, 0, len(image) - 24):
        at = header.start()
        size, types, types_length, strings, strings_length = struct.unpack_from(
            "<5I", image, at + 4
        )
        btf = image[at : at + size + max(types + types_length, strings + strings_length)]
        # In BTF the first string is empty, and each string ends with a zero byte.
        text = btf[size + strings :][:strings_length]
        if text[:1] == text[-1:] == b"\0" and len(btf) > len(found):
            found = btf
    if not found:
        raise ImageError("the kernel image has no type information (BTF)")
    return found


def _damaged(reason: object) -> ImageError:
    return ImageError(f"the kernel image is damaged: {reason}; install it again, or give another")


def _unpacked(payload: bytes) -> bytes:
    """Unpack a payload in the format that its first bytes show. Ignore the size field behind it."""
    if payload.startswith(GZIP):
        decompressor = zlib.decompressobj(wbits=31)
        unpacked = decompressor.decompress(payload)
        if not decompressor.eof:
            raise _damaged("its end is missing")
        return unpacked
    if payload.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        try:
            # zstd writes the whole frame, then complains of the size field behind it.
            return subprocess.run(["zstd", "-dcq"], input=payload, capture_output=True).stdout
        except FileNotFoundError as error:
            raise ImageError(
                "the kernel image is packed with zstd, which is not on this computer. "
                "On Debian: sudo apt-get install zstd"
            ) from error
    raise ImageError("the kernel image is packed with something else than gzip, xz or zstd")


def main() -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("image", type=Path, help="a kernel's boot image, as /boot/vmlinuz-RELEASE")
    parser.add_argument("file", type=Path, help="the file to write")
    arguments = parser.parse_args()
    try:
        arguments.file.write_bytes(uncompressed(arguments.image.read_bytes()))
    except (ImageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
