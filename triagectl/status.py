# SPDX-License-Identifier: GPL-2.0-only
"""`triagectl status`: each disk's scheduler, its origin, and the effect of a process's priority."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from triagectl import debugfs, ioprio, processview, screen, setby, sysfs
from triagectl.errors import RequestError
from triagectl.processes import of_unit
from triagectl.sysfs import Disk
from triagectl.system import System


@dataclass(frozen=True)
class Options:
    """The user's request; without `disks`, `pid` and `unit` it covers all disks."""

    disks: Sequence[str]
    pid: int | None = None
    unit: str | None = None
    record: bool = False
    json: bool = False


def run(system: System, options: Options) -> int:
    """Print the state of each disk or, with --pid or --unit, of each process.

    With --record write the schedulers to a file, and print no state.
    """
    if options.record:
        found = setby.record(system)
        print(json.dumps(found) if options.json else f"wrote down {len(found)} schedulers")
        return 0
    if options.pid is not None or options.unit is not None:
        return _processes(system, options)
    disks = [sysfs.find(system, name) for name in options.disks] or sysfs.shown(system)
    if not disks:
        raise RequestError("there is no disk here that takes a scheduler: name one")
    every = [about(system, disk) for disk in disks]
    if options.json:
        print(json.dumps({"disks": every}))
    else:
        print("\n\n".join(_disk(one) for one in every))
    return 0


def _processes(system: System, options: Options) -> int:
    if options.unit is not None:
        pids = of_unit(system, options.unit)
    else:
        assert options.pid is not None
        pids = [options.pid]
    views = []
    devices = sysfs.Devices(system)
    for pid in pids:
        try:
            views.append(processview.about(system, pid, devices, options.disks))
        except RequestError:
            # A process of a unit may just have ended.
            if options.unit is None:
                raise
    if options.json:
        print(json.dumps({"processes": views}))
    else:
        print("\n\n".join(processview.text(view) for view in views))
    return 0


def about(system: System, disk: Disk) -> dict[str, Any]:
    """Return everything that `status` prints about a disk."""
    found: dict[str, Any] = {
        "disk": disk.name,
        "scheduler": disk.scheduler,
        "takes_schedulers": disk.takes_schedulers,
        "offered": disk.schedulers,
        "rotational": disk.rotational,
        "hardware_queues": disk.hardware_queues,
        "nr_requests": disk.number("queue/nr_requests"),
        "wbt_lat_usec": disk.number("queue/wbt_lat_usec"),
        "stack": disk.stack,
        "below": sorted({base.name for base in sysfs.bases(system, disk)} - {disk.name}),
        "above": disk.above,
        "ionice": ioprio.SCHEDULERS.get(disk.scheduler, "is not known to triagectl"),
        "set_by": setby.as_json(setby.verdict(system, disk)),
        "tunables": disk.tunables,
        "triage": None,
    }
    if disk.scheduler == "triage":
        found["triage"] = _triage(system, disk)
    return found


def _triage(system: System, disk: Disk) -> dict[str, Any]:
    tunables = disk.tunables
    # No tunable names the mode, but the default quantum is 50 us for flash and 50 ms for a disk.
    mode = "disk" if int(tunables.get("quantum", "0")) >= 10000 else "flash"
    limits = {
        name: int(value)
        for name, value in tunables.items()
        if name.startswith("limit_") and value != "0"
    }
    inside = debugfs.inside(system, disk.name)
    return {
        "mode": mode,
        "mode_fits": (mode == "disk") == disk.rotational,
        "classes": {of: _members(of, tunables) for of in debugfs.CLASSES},
        "limits": limits,
        "inside": None if inside is None else inside.depth,
        "queued": None if inside is None else inside.queued,
    }


def _members(of: str, tunables: dict[str, str]) -> str:
    """Return the I/O priorities that belong to one of triage's classes."""
    levels = [
        level
        for level in range(8)
        if ioprio.triage_class(ioprio.Priority(ioprio.BE, level), tunables) == of
    ]
    if not levels:
        text = ""
    elif levels[0] == levels[-1]:
        text = f"be/{levels[0]}"
    else:
        text = f"be/{levels[0]} to {levels[-1]}"
    more = {"HIGH": "rt", "NORMAL": "none", "LOW": "idle"}[of]
    return f"{more}, {text}" if text else more


def _disk(one: dict[str, Any]) -> str:
    kind = one["stack"] or ("disk with an arm" if one["rotational"] else "flash")
    if not one["takes_schedulers"]:
        below = ", ".join(one["below"]) or "the devices below"
        head = f"{one['disk']}  {kind}: takes no scheduler. Choose it on {below}"
        return screen.wrapped(head, 2)
    queues = one["hardware_queues"]
    head = (
        f"{one['disk']}  [{one['scheduler']}]  {kind}, {queues} hardware "
        f"queue{'' if queues == 1 else 's'}, {one['nr_requests']} tags"
    )
    lines = [screen.plain(head)]
    by = one["set_by"]

    def line(name: str, text: str) -> None:
        lines.append(screen.wrapped(f"  {name:<8} {text}", 11))

    if one["above"]:
        above = ", ".join(one["above"])
        line("above", f"its requests come from {above}, which has the scheduler; not this one")
    line("set by", by["text"])
    line("changed", f"since the boot: {by['changed']}")
    if one["takes_schedulers"]:
        line("ionice", f"{one['scheduler']} {one['ionice']}")
    if one["triage"]:
        _triage_lines(one["triage"], line)
    if one["wbt_lat_usec"]:
        line("wbt", f"buffered writes are held back first (wbt_lat_usec {one['wbt_lat_usec']})")
    return "\n".join(lines)


def _triage_lines(inside: dict[str, Any], line: Any) -> None:
    mode = inside["mode"]
    fits = "" if inside["mode_fits"] else ", which queue/rotational does not agree with"
    line("mode", f"{mode}{fits}")
    line("classes", "; ".join(f"{of}: {text}" for of, text in inside["classes"].items()))
    limits = [f"{name} {value}" for name, value in inside["limits"].items()]
    line("limits", ", ".join(limits) or "none")
    depth = inside["inside"]
    if depth is None:
        line("budget", "not visible: debugfs is root's")
    elif depth["pressed"]:
        late = f", {depth['late']} of {depth['judged']} urgent requests late"
        line(
            "budget",
            f"bulk is held: it may have {screen.duration(depth['budget'])} in the device, and "
            f"has {screen.duration(depth['bulk'])}{late}",
        )
    else:
        line("budget", "bulk is not held: no urgent request in the last second")
