# SPDX-License-Identifier: GPL-2.0-only
"""Show the effect of a process's I/O priority on the disks of its open files."""

import os
import platform
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from triagectl import ioprio, processes, screen, sysfs
from triagectl.sysfs import Devices, Disk
from triagectl.system import System, names, read

#: If an open file has one of these flags, the process itself submits its writes.
_OWN_WRITES = os.O_DIRECT | os.O_DSYNC
_IGNORING = ("none", "kyber", "adios")
#: From this kernel version on, dm-crypt's kernel threads keep a bio's priority.
_CRYPT_KEEPS = (6, 9)


@dataclass
class _Use:
    """The open files of a process on one device.

    bases   the disks on which the device is stacked; the device itself if it is a disk
    stacks  the kinds of the stacked devices above those disks, like dm-crypt
    """

    device: str
    files: int = 0
    buffered_writes: int = 0
    bases: list[Disk] = field(default_factory=list)
    stacks: list[str] = field(default_factory=list)


def about(system: System, pid: int, devices: Devices, only: Sequence[str] = ()) -> dict[str, Any]:
    """Return what `status` shows of a process, on the disks in `only`.

    Without `only`, use the disks of the process's open files.
    """
    threads = processes.threads(system, pid)
    priorities = Counter(str(ioprio.effective(tid) or "unknown") for tid in threads)
    unset = sum(1 for tid in threads if (own := ioprio.of_thread(tid)) and not own.of)
    main = ioprio.effective(pid)
    uses = [_named(system, name) for name in only] if only else _uses(system, pid, devices)
    disks = []
    for use in uses:
        for disk in use.bases:
            disks.append(
                {
                    "disk": disk.name,
                    "through": use.device,
                    "scheduler": disk.scheduler,
                    "open_files": use.files,
                    "class": ioprio.group(main, disk.scheduler, disk.tunables),
                    "warnings": list(_warnings(use, disk, main)),
                }
            )
    return {
        "pid": pid,
        "name": (system.read(f"proc/{pid}/comm") or "?"),
        "threads": dict(priorities),
        "threads_without_own_priority": unset,
        "disks": disks,
        "warnings": list(_group_warnings(system, pid, disks)),
    }


def _named(system: System, name: str) -> _Use:
    disk = sysfs.find(system, name)
    use = _Use(disk.name)
    _resolve(system, disk, use)
    return use


def _resolve(system: System, disk: Disk, use: _Use) -> None:
    """Add to `use` the disks at the bottom of a device, and the kinds of stacked devices above."""
    if disk.below and not disk.takes_schedulers:
        use.stacks.append(disk.stack)
        for name in disk.below:
            _resolve(system, sysfs.find(system, name), use)
    elif disk.name not in [known.name for known in use.bases]:
        use.bases.append(disk)


def _uses(system: System, pid: int, devices: Devices) -> list[_Use]:
    """Return the devices on which a process has open files."""
    mounts = {}
    for line in (system.read(f"proc/{pid}/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        words = left.split()
        mounts[words[0]] = (words[2], right.split()[1])
    found: dict[str, _Use] = {}
    for name in names(system.path(f"proc/{pid}/fd")):
        info = read(system.path(f"proc/{pid}/fdinfo/{name}")) or ""
        try:
            target = str(system.path(f"proc/{pid}/fd/{name}").readlink())
        except OSError:
            continue
        mount = re.search(r"^mnt_id:\s*(\d+)", info, re.M)
        if not target.startswith("/") or mount is None or mount[1] not in mounts:
            continue
        number, source = mounts[mount[1]]
        disk = _disk_of(system, devices, target, number, source)
        if disk is None:
            continue
        use = found.get(disk.name)
        if use is None:
            use = found[disk.name] = _Use(disk.name)
            _resolve(system, disk, use)
        use.files += 1
        flags = re.search(r"^flags:\s*([0-7]+)", info, re.M)
        bits = int(flags[1], 8) if flags else 0
        if bits & os.O_ACCMODE != os.O_RDONLY and not bits & _OWN_WRITES:
            use.buffered_writes += 1
    return list(found.values())


def _disk_of(
    system: System, devices: Devices, target: str, number: str, source: str
) -> Disk | None:
    """Return an open file's device: the file itself if it is in /dev, else its mount's device."""
    if target.startswith("/dev/"):
        return devices.of_name(system.path(target).resolve().name)
    found = devices.of_number(number)
    # On btrfs the mount's number belongs to no disk, so look up the mount's source.
    if found is None and source.startswith("/dev/"):
        return devices.of_name(system.path(source).resolve().name)
    return found


def _warnings(use: _Use, disk: Disk, priority: ioprio.Priority | None) -> Iterator[str]:
    """Yield the reasons why the priority may have less effect on a disk, or no effect."""
    if disk.scheduler in _IGNORING:
        yield f"{disk.scheduler} ignores I/O priorities: ionice does nothing on {disk.name}"
    elif disk.scheduler == "mq-deadline":
        yield f"mq-deadline does not tell the levels 0 to 7 apart on {disk.name}, only classes"
    if use.buffered_writes:
        yield (
            f"{use.buffered_writes} files are open for buffered writes: kernel threads submit "
            "those later, without this priority. Reads, fsync() and O_DIRECT have it"
        )
    for stack in dict.fromkeys(use.stacks):
        yield from _stack_warnings(stack, use, disk)


def _stack_warnings(stack: str, use: _Use, disk: Disk) -> Iterator[str]:
    if stack == "dm-crypt":
        release = tuple(int(word) for word in re.findall(r"\d+", platform.release())[:2])
        if release < _CRYPT_KEEPS:
            yield (
                f"{use.device} is encrypted: kernel threads submit for it to {disk.name}, and "
                f"before Linux {'.'.join(map(str, _CRYPT_KEEPS))} they lose the priority"
            )
        else:
            yield (
                f"{use.device} is encrypted: kernel threads submit for it to {disk.name}. The "
                "priority comes along; who submitted does not"
            )
    elif stack.startswith("raid"):
        yield (
            f"{use.device} is {stack}: its kernel thread submits writes to {disk.name}, mostly "
            "without this priority"
        )
    elif stack and not stack.startswith(("dm-lvm", "nvme-multipath")):
        yield f"{use.device} is stacked ({stack}) on {disk.name}: the priority may be lost"


def _group_warnings(system: System, pid: int, disks: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield warnings about control groups' limits and weights, and a hint if no disk is in use."""
    group = processes.cgroup(system, pid)
    while group is not None and group != system.mounted("cgroup2"):
        of = f"its control group {group.name}"
        limit = read(group / "io.max")
        if limit:
            yield f"{of} has a limit (io.max): requests wait before any scheduler"
        weight = read(group / "io.weight")
        own = read(group / "io.triage.weight")
        ignored = [one["disk"] for one in disks if one["scheduler"] == "triage"]
        if weight and weight not in ("default 100", own) and ignored:
            yield f"{of} has a weight (io.weight), which triage does not read: set io.triage.weight"
        group = group.parent
    if not disks:
        yield "no open file of it is on a disk: name a disk to see what its priority would do there"


def text(view: dict[str, Any]) -> str:
    """Return the view for a terminal."""
    threads = ", ".join(
        name if len(view["threads"]) == 1 else f"{name} ({count})"
        for name, count in view["threads"].items()
    )
    unset = view["threads_without_own_priority"]
    own = "by its nice value" if unset == sum(view["threads"].values()) else "set"
    name = screen.plain(view["name"])
    lines = [f"{view['pid']} {name}  I/O priority {threads} ({own})"]
    for one in view["disks"]:
        through = "" if one["through"] == one["disk"] else f", through {one['through']}"
        lines.append(
            f"  {one['disk']} [{one['scheduler']}]{through}: {one['open_files']} open files, "
            f"class {one['class']}"
        )
        lines += [screen.wrapped(f"    ! {warning}", 6) for warning in one["warnings"]]
    lines += [screen.wrapped(f"  ! {warning}", 4) for warning in view["warnings"]]
    return "\n".join(lines)
