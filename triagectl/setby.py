# SPDX-License-Identifier: GPL-2.0-only
"""Find the user or program that set a disk's scheduler.

The kernel keeps no record, so this module weighs evidence. It lists every source that would choose
a scheduler, in the order in which they take effect. It compares the disk's scheduler with the
choice of the last certain source.
"""

import json
import platform
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from triagectl import tuned, udev, wayback
from triagectl.sysfs import Disk
from triagectl.system import System, names, read

_SEEN = "run/triagectl/schedulers.json"
#: The driver of these disks wants no scheduler (BLK_MQ_F_NO_SCHED_BY_DEFAULT).
_NONE_BY_DEFAULT = r"loop\d"
#: Only the flags in debugfs tell the kernel's default for these disks. The driver may want no
#: scheduler (null_blk.no_sched), support none, or change the number of hardware queues later.
_UNSURE = ("dm-", "md", "nbd", "nullb")


@dataclass(frozen=True)
class Source:
    """The kernel's default or a line of a configuration that would choose a scheduler.

    kind     kernel, udev, tmpfiles, tuned, sysfsutils
    value    the scheduler that it would choose; None if that is not known
    where    file and line; empty for the kernel
    certain  whether the disk is sure to have had that scheduler after this source took effect
    """

    kind: str
    value: str | None
    where: str
    certain: bool = True


@dataclass(frozen=True)
class Verdict:
    """The origin of a disk's scheduler.

    by       a source's kind, triagectl, `module gone`, or `hand`: a person or unknown program
    text     a sentence on the origin
    default  the kernel's choice for the disk
    changed  a sentence on changes since the machine started
    """

    by: str
    text: str
    default: str
    changed: str
    sources: tuple[Source, ...]


def verdict(system: System, disk: Disk) -> Verdict:
    """Return the origin of a disk's scheduler, and whether the scheduler changed since the boot."""
    default, certain = kernel_default(system, disk)
    sources = [Source("kernel", default, "", certain)]
    before = [default] if certain else disk.schedulers
    # The kernel tells udev nothing of a hidden disk.
    for rule in [] if disk.hidden else udev.rules(system, disk, before):
        sources.append(Source("udev", rule.value, str(rule), rule.certain))
    for line in tuned.lines(system, disk):
        kind = {"systemd-tmpfiles": "tmpfiles"}.get(line.program, line.program)
        sources.append(Source(kind, line.value, str(line)))
    by, text, changed = _weighed(system, disk, sources)
    seen = _seen(system).get(disk.name)
    trying = by == "triagectl"  # then `changed` already names the scheduler before the try
    if (
        seen
        and not trying
        and disk.is_still(seen.get("diskseq"))
        and seen["scheduler"] != disk.scheduler
    ):
        changed = f"yes: at {seen['at']} it was {seen['scheduler']}"
    return Verdict(by, text, default, changed, tuple(sources))


def _weighed(system: System, disk: Disk, sources: Sequence[Source]) -> tuple[str, str, str]:
    """Return the scheduler's origin, a sentence on it, and a sentence on changes since the boot."""
    has = disk.scheduler
    trying = wayback.pending(system, disk.name)
    if trying is not None and wayback.alive(trying["pid"], trying["started"]):
        text = f"`triagectl try`, process {trying['pid']}, until {trying['ends']}"
        return "triagectl", text, f"yes: {trying['before']['scheduler']} before the try"
    if trying is not None:
        text = f"a `triagectl try` that was not put back: `triagectl try {disk.name} --undo`"
        return "triagectl", text, f"yes: {trying['before']['scheduler']} before the try"
    # Leave out sources whose choice is not known, such as a rule that runs a program.
    sure = [source for source in sources if source.value is not None and source.certain]
    due = sure[-1] if sure else sources[0]
    if due.value == has:
        return due.kind, _said(due), "no sign of it"
    perhaps = [s for s in sources if s not in sure and s.value in (has, None)]
    if perhaps:
        source = perhaps[-1]
        return source.kind, f"perhaps {_said(source)}", "not known"
    earlier = [source for source in sure if source.value == has]
    if not available(system, disk, due.value):
        text = (
            f"{_said(due)} asks for {due.value}, which this kernel does not have: "
            f"build it for {platform.release()}"
        )
        return "module gone", text, "no: the choice could not be carried out"
    where = f"; {_said(due)} would choose {due.value}"
    if earlier and earlier[-1].kind != "kernel":
        text = f"{_said(earlier[-1])} had it so, or a person or program chose it again{where}"
        return "hand", text, f"yes, or {due.kind} did not run"
    text = f"a person, or a program that leaves no trace{where}"
    if due.kind == "kernel" and due.certain:
        return "hand", text, f"yes: the kernel chose {due.value}"
    return "hand", text, f"yes, or {due.kind} did not run" if due.certain else "not known"


def _said(source: Source) -> str:
    if source.kind == "kernel":
        return "the kernel's default"
    return f"{source.kind}, {source.where}"


def kernel_default(system: System, disk: Disk) -> tuple[str, bool]:
    """Return the scheduler that the kernel itself chooses for a disk, and whether that is sure.

    The kernel chooses mq-deadline for a disk with one hardware queue, or with several that share
    their tags, unless the driver wants no scheduler.
    """
    if not disk.takes_schedulers or re.match(_NONE_BY_DEFAULT, disk.name):
        return "none", True
    fallback = "mq-deadline" if "mq-deadline" in disk.schedulers else "none"
    top = system.debugfs()
    flags = read(top / "block" / disk.name / "hctx0/flags") if top else None
    if flags is not None:
        if "NO_SCHED" in flags:
            return "none", True
        one = disk.hardware_queues == 1 or "TAG_HCTX_SHARED" in flags
        return (fallback if one else "none"), True
    if disk.hardware_queues == 1:
        return fallback, not disk.name.startswith(_UNSURE)
    return "none", disk.name.startswith("nvme")


def available(system: System, disk: Disk, scheduler: str | None) -> bool:
    """Return whether the kernel has a scheduler, or would load a module that has it."""
    if scheduler in disk.schedulers:
        return True
    modules = system.path(f"lib/modules/{platform.release()}")
    wanted = f"{scheduler}-iosched"
    listed = (read(modules / "modules.dep") or "") + (read(modules / "modules.builtin") or "")
    return f"/{wanted}.ko" in listed or f"alias {wanted} " in (
        read(modules / "modules.alias") or ""
    )


def record(system: System) -> dict[str, Any]:
    """Write each disk's scheduler to the file _SEEN, so that a later verdict() notices a change.

    Return what was written.
    """
    found = {
        name: {
            "scheduler": disk.scheduler,
            "diskseq": disk.number("diskseq"),
            "at": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        for name in names(system.path("sys/block"))
        if (disk := Disk(name, system.path("sys/block") / name)).takes_schedulers
    }
    path = system.path(_SEEN)
    path.parent.mkdir(mode=0o755, exist_ok=True)
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(found, indent=1) + "\n")
    scratch.replace(path)
    return found


def _seen(system: System) -> dict[str, Any]:
    try:
        found = json.loads(system.read(_SEEN) or "{}")
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def as_json(found: Verdict) -> dict[str, Any]:
    """Return a verdict for JSON."""
    return asdict(found)
