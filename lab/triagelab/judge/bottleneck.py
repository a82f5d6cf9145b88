# SPDX-License-Identifier: GPL-2.0-only
"""Name the bottleneck under each scheduler: the device, the CPU, both or neither."""

from triagelab.base import metrics
from triagelab.judge.figures import listed
from triagelab.judge.lookup import View
from triagelab.run import machines

SATURATED = 0.9  # device or CPU is a bottleneck if at least this share of its capacity is used


def named(view: View, scheduler: str) -> str:
    """Return "device", "CPU" or "device and CPU", whichever is saturated, else "neither".

    If the CPU's utilisation is unknown, return "not measured". If only the device's utilisation is
    unknown and the CPU is not saturated, return "not the CPU".
    """
    cpu = view.row(scheduler, None, "cpu_utilisation")
    device = view.row(scheduler, None, "device_utilisation")
    if cpu is None:
        return "not measured"
    busy = [
        name
        for name, row in (("device", device), ("CPU", cpu))
        if row is not None and row["mean"] >= SATURATED
    ]
    if busy:
        return listed(busy)
    return "neither" if device is not None else "not the CPU"


def sentences(view: View, machine: str) -> list[str]:
    """Return sentences that name the bottleneck under each scheduler."""
    processor = "CPU" if machines.kind(machine).is_here else "virtual CPU"
    groups: dict[tuple[str, str], list[str]] = {}
    for scheduler in view.schedulers:
        kind, part = named(view, scheduler), fullest_part(view, scheduler)
        groups.setdefault((kind, part), []).append(scheduler)
    return [
        _limit(kind, f"device (its {part})" if part else "device", names, view, processor)
        for (kind, part), names in groups.items()
    ]


def fullest_part(view: View, scheduler: str) -> str:
    """Return the name of the device's most used part; empty if its parts are not known."""
    used = {
        part: row["mean"]
        for part in view.parts
        if (row := view.row(scheduler, None, metrics.part(part).name)) is not None
    }
    return max(used, key=lambda part: used[part], default="")


def _limit(kind: str, named: str, names: list[str], view: View, processor: str) -> str:
    who = everyone(names, view)
    cpu = _range(view, names, "cpu_utilisation")
    device = _range(view, names, "device_utilisation")
    busy = _range(view, names, "device_busy")
    return {
        "device": f"Under {who} the {named} was the bottleneck: it ran at {device} of its "
        f"capacity, the {processor} at {cpu}.",
        "CPU": f"Under {who} the {processor} was the bottleneck ({cpu} busy"
        + (f", the {named} at {device} of its capacity" if device else "")
        + "): the figures show the cost of the code, not how well the device is shared.",
        "device and CPU": f"Under {who} both the {named} ({device} of its capacity) and the "
        f"{processor} ({cpu}) were saturated: the two limits cannot be told apart.",
        "neither": f"Under {who} neither was saturated: the {named} ran at {device} of its "
        f"capacity, the {processor} at {cpu}. Either the scheduler held requests back or the jobs "
        "asked for no more.",
        "not the CPU": f"Under {who} the {processor} was not the bottleneck ({cpu} busy). The "
        f"device's capacity is unknown, and so is whether it was saturated; a request "
        f"was in flight {busy} of the time.",
        "not measured": f"Under {who} the runs were too short to measure utilisation.",
    }[kind]


def saturation(view: View) -> str:
    """Return a chart title that names the schedulers under which the device was saturated."""
    ranked = [name for name in view.schedulers if view.row(name, None, "device_utilisation")]
    full = [name for name in ranked if "device" in named(view, name).split()]
    rest = [name for name in ranked if name not in full]
    limiting = dict.fromkeys(part for name in full or rest if (part := fullest_part(view, name)))
    device = f"device (its {listed(limiting)})" if limiting else "device"
    used = _range(view, ranked, "device_utilisation")
    if not rest:
        return f"The {device} was saturated under {everyone(full, view)} ({used} used)"
    if not full:
        return f"The {device} was not saturated under {everyone(rest, view)} ({used} used)"
    return (
        f"The {device} was saturated under {listed(full)} "
        f"({_range(view, full, 'device_utilisation')} used), not under {listed(rest)} "
        f"({_range(view, rest, 'device_utilisation')})"
    )


def everyone(names: list[str], view: View) -> str:
    """Return the names as text; "every scheduler" if they are all schedulers of the view."""
    return "every scheduler" if names == view.schedulers and len(names) > 1 else listed(names)


def _range(view: View, names: list[str], metric: str) -> str:
    means = [
        row["mean"] * 100 for name in names if (row := view.row(name, None, metric)) is not None
    ]
    if not means:
        return ""
    low, high = f"{min(means):.0f}", f"{max(means):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"
