# SPDX-License-Identifier: GPL-2.0-only
"""Find a whole disk of this computer, describe the disk, and list its users."""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from triagelab.base.errors import RequestError

_BLOCK = Path("/sys/block")
_PROC = Path("/proc")


@dataclass(frozen=True)
class Disk:
    """A whole block device, by its name in /dev and /sys/block."""

    name: str

    @property
    def path(self) -> Path:
        """Return the path of the disk's device node."""
        return Path("/dev") / self.name

    @property
    def folder(self) -> Path:
        """Return the disk's folder in /sys, where the kernel describes it."""
        return _BLOCK / self.name

    @property
    def queue(self) -> Path:
        """Return the folder of the disk's settings."""
        return self.folder / "queue"

    @cached_property
    def numbers(self) -> dict[str, str]:
        """Return a map from device number to name, for the disk and its partitions."""
        found = {_text(self.folder / "dev"): self.name}
        for partition in sorted(self.folder.glob("*/partition")):
            found[_text(partition.parent / "dev")] = partition.parent.name
        return found

    @cached_property
    def identity(self) -> dict[str, str]:
        """Return properties that identify the disk. They change only if the disk's size does."""
        return {
            "model": self.model,
            "serial": self.about("device/serial") or self.about("device/wwid"),
            "size_bytes": self.size_bytes,
            "rotational": self.about("queue/rotational"),
        }

    @property
    def model(self) -> str:
        """Return the model's name; for a loop device, the name of its file."""
        if backing := self.about("loop/backing_file"):
            return f"a loop device on {Path(backing).name}"
        return self.about("device/model") or "of an unnamed model"

    @property
    def size_bytes(self) -> str:
        """Return the capacity in bytes."""
        return str(int(self.about("size")) * 512)

    @property
    def schedulers(self) -> list[str]:
        """Return the schedulers that the disk can use now, without loading a module."""
        return self.about("queue/scheduler").replace("[", "").replace("]", "").split()

    @property
    def scheduler(self) -> str:
        """Return the active scheduler."""
        chosen = re.search(r"\[(.+)\]", self.about("queue/scheduler"))
        return chosen[1] if chosen else "none"

    def about(self, file: str) -> str:
        """Return the content of a file in the disk's folder in /sys; empty if there is none."""
        return _text(self.folder / file)

    @property
    def description(self) -> str:
        """Describe the disk in one line."""
        kind = "rotational" if self.about("queue/rotational") == "1" else "not rotational"
        return f"{self.model}, {int(self.size_bytes) / (1 << 30):.1f} GiB, {kind}"

    @property
    def facts(self) -> dict[str, str]:
        """Return the disk's properties by name, for the report."""
        return {
            "model": self.model,
            "size_bytes": self.size_bytes,
            "rotational": self.about("queue/rotational"),
            "hw_queues": str(len(list(self.folder.glob("mq/*")))),
            "logical_block_size": self.about("queue/logical_block_size"),
            "write_cache": self.about("queue/write_cache"),
        }


def find(name: str) -> Disk:
    """Return the disk at path `name`; raise RequestError if no experiment can use it.

    The path must name a whole disk with a scheduler and a medium.
    """
    path = Path(name)
    try:
        status = path.stat()
    except OSError as error:
        raise RequestError(f"{name}: {error.strerror}; {_whole_disks()}") from None
    if not stat.S_ISBLK(status.st_mode):
        raise RequestError(f"{name} is not a block device; {_whole_disks()}")
    folder = Path(f"/sys/dev/block/{_number(status.st_rdev)}").resolve()
    if (folder / "partition").exists():
        raise RequestError(
            f"{name} is a partition, and a scheduler belongs to a whole disk: "
            f"/dev/{folder.parent.name}. All of that would be used"
        )
    disk = Disk(folder.name)
    below = sorted(entry.name for entry in (folder / "slaves").glob("*"))
    if below or not disk.about("queue/scheduler"):
        hint = f"its parts have one: {', '.join(f'/dev/{slave}' for slave in below)}"
        raise RequestError(f"{name} has no I/O scheduler; {hint if below else _whole_disks()}")
    if disk.size_bytes == "0":
        raise RequestError(f"{name} has no medium; {_whole_disks()}")
    return disk


def _whole_disks() -> str:
    """Return a hint for the user: the disks of this computer that an experiment can use."""
    found = [Disk(folder.name) for folder in sorted(_BLOCK.iterdir())]
    wanted = [
        f"{disk.path} ({disk.model})"
        for disk in found
        if disk.about("queue/scheduler") and disk.size_bytes != "0"
    ]
    return f"whole disks here: {', '.join(wanted) or 'none'}"


def users(disk: Disk) -> list[str]:
    """Return a phrase for each use of the disk or of a partition: by a mount, swap, a program, …"""
    return [*_mounts(disk), *_swaps(disk), *_holders(disk), *_loops(disk), *_writers(disk)]


def _mounts(disk: Disk) -> Iterator[str]:
    """Yield a phrase for each mounted file system on the disk or its partitions.

    Compare the mounted device node too: btrfs gives each mount a device number that is not the
    disk's.
    """
    for line in _text(_PROC / "self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        source = after.split()[1]
        for number in (before.split()[2], _number_of_node(source)):
            if number in disk.numbers:
                yield f"{disk.numbers[number]} is mounted on {before.split()[4]}"
                break


def _swaps(disk: Disk) -> Iterator[str]:
    for line in _text(_PROC / "swaps").splitlines()[1:]:
        if (number := _number_of_node(line.split()[0])) in disk.numbers:
            yield f"{disk.numbers[number]} is swap space"


def _holders(disk: Disk) -> Iterator[str]:
    for holder in sorted([*disk.folder.glob("holders/*"), *disk.folder.glob("*/holders/*")]):
        label = _text(holder / "dm/name")
        yield f"{holder.parent.parent.name} is part of {holder.name}" + (label and f" ({label})")


def _loops(disk: Disk) -> Iterator[str]:
    for file in sorted(_BLOCK.glob("*/loop/backing_file")):
        if (number := _number_of_node(_text(file))) in disk.numbers:
            yield f"{disk.numbers[number]} is what {file.parent.parent.name} is on"


def _writers(disk: Disk) -> Iterator[str]:
    """Yield a phrase for each program that has the disk open for writing, even without O_EXCL."""
    for process in _PROC.glob("[0-9]*"):
        for file, target in _open_files(process):
            number = _number_of_node(target) if target.startswith("/dev/") else None
            flags = re.search(r"^flags:\s*(\d+)", _text(process / "fdinfo" / file), re.M)
            if number in disk.numbers and flags and int(flags[1], 8) & os.O_ACCMODE:
                program = f"{_text(process / 'comm')} (process {process.name})"
                yield f"{program} has {disk.numbers[number]} open for writing"


def _open_files(process: Path) -> Iterator[tuple[str, str]]:
    """Yield the file descriptor and the path of each file that a process has open."""
    with contextlib.suppress(OSError):  # the process ended meanwhile
        for link in (process / "fd").iterdir():
            with contextlib.suppress(OSError):  # the file was closed meanwhile
                yield link.name, str(link.readlink())


def _number_of_node(path: str) -> str | None:
    """Return the device number of the block device `path`; None for any other path."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return _number(status.st_rdev) if stat.S_ISBLK(status.st_mode) else None


def _number(device: int) -> str:
    return f"{os.major(device)}:{os.minor(device)}"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
