# SPDX-License-Identifier: GPL-2.0-only
"""Read disks from sysfs: scheduler, tunables, partitions, and the disks below a stacked device."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from triagectl.errors import RequestError, unknown
from triagectl.system import System, names, number, read


@dataclass(frozen=True)
class Disk:
    """A block device that is not a partition."""

    name: str
    folder: Path

    def attribute(self, name: str) -> str | None:
        """Return the text of a file below the disk's folder; None if it cannot be read."""
        return read(self.folder / name)

    def number(self, name: str) -> int | None:
        """Return the number in a file below the disk's folder; None if there is none."""
        return number(self.attribute(name))

    @property
    def schedulers(self) -> list[str]:
        """Return the schedulers that the kernel offers now, including the one in use."""
        return (self.attribute("queue/scheduler") or "").replace("[", "").replace("]", "").split()

    @property
    def scheduler(self) -> str:
        """Return the scheduler in use.

        For a device that cannot have a scheduler, return `none` or an empty text.
        """
        text = self.attribute("queue/scheduler") or ""
        chosen = re.search(r"\[(.+?)\]", text)
        return chosen[1] if chosen else text

    @property
    def takes_schedulers(self) -> bool:
        """Return whether the disk can have a scheduler: then the file has brackets around one."""
        return "[" in (self.attribute("queue/scheduler") or "")

    @property
    def rotational(self) -> bool:
        """Return whether the disk reports that it has an arm."""
        return self.number("queue/rotational") == 1

    @property
    def hardware_queues(self) -> int:
        """Return how many hardware queues the driver has."""
        return len([name for name in names(self.folder / "mq") if name.isdigit()])

    @property
    def dev(self) -> int:
        """Return the device number as trace events have it: major << 20 | minor."""
        return dev(self.attribute("dev") or "0:0")

    def is_still(self, diskseq: int | None) -> bool:
        """Return whether a record with this `diskseq` is of this disk.

        The record may be of an earlier disk of this name. Linux before 5.15 has no such number:
        there the result is always true.
        """
        return None in (diskseq, self.number("diskseq")) or diskseq == self.number("diskseq")

    @property
    def tunables(self) -> dict[str, str]:
        """Return the scheduler's tunables by name."""
        return settings(self.folder / "queue/iosched")

    @property
    def below(self) -> list[str]:
        """Return the devices that this one is stacked on."""
        return names(self.folder / "slaves") or self._nvme_paths

    @property
    def _nvme_paths(self) -> list[str]:
        """Return the paths of an NVMe multipath head: nvme1c0n2 and nvme1c1n2 of nvme1n2."""
        head = re.fullmatch(r"(nvme\d+)(n\d+)", self.name)
        if head is None:
            return []
        path = re.compile(rf"{head[1]}c\d+{head[2]}")
        return [name for name in names(self.folder.parent) if path.fullmatch(name)]

    @property
    def above(self) -> list[str]:
        """Return the devices stacked on this one that have a scheduler, such as dm-multipath.

        Their requests bypass this disk's own scheduler.
        """
        return [
            name
            for name in names(self.folder / "holders")
            if Disk(name, self.folder.parent / name).takes_schedulers
        ]

    @property
    def hidden(self) -> bool:
        """Return whether the disk has no device file and no device number, like an NVMe path."""
        return self.number("hidden") == 1

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Return name and device number of each partition."""
        found = []
        for name in names(self.folder):
            if (self.folder / name / "partition").exists():
                found.append((name, dev(read(self.folder / name / "dev") or "0:0")))
        return found

    @property
    def stack(self) -> str:
        """Return the kind of a stacked device, like dm-crypt or raid1; empty for a disk."""
        if self._nvme_paths:
            return "nvme-multipath"
        uuid = self.attribute("dm/uuid")
        if uuid is not None:
            return "dm-" + uuid.split("-")[0].lower() if "-" in uuid else "dm"
        return self.attribute("md/level") or ("stacked" if self.below else "")


def settings(folder: Path) -> dict[str, str]:
    """Return the text of each readable file of a folder, by file name."""
    found = {name: read(folder / name) for name in names(folder)}
    return {name: value for name, value in found.items() if value is not None}


def dev(text: str) -> int:
    """Return the kernel's device number for MAJOR:MINOR."""
    major, minor = text.split(":")
    return int(major) << 20 | int(minor)


def all_disks(system: System) -> list[Disk]:
    """Return every block device of the machine."""
    folder = system.path("sys/block")
    return [Disk(name, folder / name) for name in names(folder)]


def shown(system: System) -> list[Disk]:
    """Return the disks for which users choose a scheduler.

    Leave out devices that take no scheduler or have no size, and loop, RAM, zram, floppy and CD
    devices.
    """
    return [
        disk
        for disk in all_disks(system)
        if disk.takes_schedulers
        and disk.number("size")
        and not re.match(r"(loop|ram|zram|fd|sr)\d", disk.name)
    ]


def find(system: System, name: str) -> Disk:
    """Return the disk that a user named: sda, /dev/sda or a partition's name."""
    word = name.rstrip("/").rpartition("/")[2]
    if name.startswith("/dev/"):
        word = system.path(name).resolve().name
    disks = all_disks(system)
    for disk in disks:
        if disk.name == word or word in [name for name, _ in disk.partitions]:
            return disk
    raise unknown("disk", name, [disk.name for disk in disks])


def find_scheduled(system: System, name: str) -> Disk:
    """Return the disk that a user named.

    Raises RequestError if it takes no scheduler, or if a device above it has the scheduler.
    """
    disk = find(system, name)
    if not disk.takes_schedulers:
        below = ", ".join(dict.fromkeys(base.name for base in bases(system, disk)))
        hint = f": choose it on {below}" if below and below != disk.name else ""
        raise RequestError(f"{disk.name} takes no scheduler{hint}")
    if disk.above:
        above = ", ".join(disk.above)
        raise RequestError(
            f"the requests of {disk.name} come from {above}, which has the scheduler: choose it on "
            f"{above}"
        )
    return disk


def bases(system: System, disk: Disk) -> Iterator[Disk]:
    """Yield the disks at the bottom of a stacked device.

    Yield the device itself if it takes schedulers, or is not stacked on others.
    """
    below = [] if disk.takes_schedulers else disk.below
    if not below:
        yield disk
    for name in below:
        yield from bases(system, find(system, name))


class Devices:
    """The present disks, by the device numbers and names of disks and partitions."""

    def __init__(self, system: System) -> None:
        self._numbers: dict[int, Disk] = {}
        self._names: dict[str, Disk] = {}
        for disk in all_disks(system):
            for name, device in [(disk.name, disk.dev), *disk.partitions]:
                self._numbers[device] = self._names[name] = disk

    def of_number(self, text: str) -> Disk | None:
        """Return the disk that has MAJOR:MINOR itself or on a partition; None if there is none."""
        return self._numbers.get(dev(text))

    def of_name(self, name: str) -> Disk | None:
        """Return the disk that has this name itself or on a partition; None if there is none."""
        return self._names.get(name)
