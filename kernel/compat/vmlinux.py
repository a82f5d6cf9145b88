#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Unpack the kernel's ELF file, which has its BTF, from a boot image (vmlinuz).

    vmlinux.py IMAGE ELF

If that fails, the program exits with status 2 and a message that says what to do.
"""

import argparse
import lzma
import struct
import subprocess
import sys
import zlib
from pathlib import Path

#: The end of payload_length, the last field of the boot header that this program reads.
HEADER_END = 0x250


class ImageError(Exception):
    """Raised if an image has no readable kernel. The message says what to do."""


def is_image(data: bytes) -> bool:
    """Return whether a file that begins with `data` is a boot image for x86 (bzImage)."""
    return data[0x202:0x206] == b"HdrS" and len(data) >= HEADER_END


def uncompressed(image: bytes) -> bytes:
    """Return the ELF file inside a bzImage (Documentation/arch/x86/boot.rst: payload_offset)."""
    if not is_image(image):
        raise ImageError("that is no Linux kernel image (bzImage) for x86; give a vmlinuz file")
    sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    base = (sectors + 1) * 512 + offset
    payload = image[base : base + length]
    if len(payload) < length:
        raise _damaged("its end is missing")
    try:
        elf = _unpacked(payload)
    except (zlib.error, lzma.LZMAError) as error:
        raise _damaged(error) from error
    if not elf.startswith(b"\x7fELF"):
        raise _damaged("what it holds is no ELF file")
    return elf


def _damaged(reason: object) -> ImageError:
    return ImageError(f"the kernel image is damaged: {reason}; install it again, or give another")


def _unpacked(payload: bytes) -> bytes:
    """Unpack a payload in the format that its first bytes show. Ignore the size field behind it."""
    if payload.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(wbits=31).decompress(payload)
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
    parser.add_argument("elf", type=Path, help="the file to write")
    arguments = parser.parse_args()
    try:
        arguments.elf.write_bytes(uncompressed(arguments.image.read_bytes()))
    except (ImageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
