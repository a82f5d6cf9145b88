# SPDX-License-Identifier: GPL-2.0-only
"""`triagectl top`: show which processes use disks, their latencies, and whom they wait behind."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triagectl import counters, debugfs, prometheus, screen, sysfs, times, tracefs
from triagectl.counters import Counts
from triagectl.errors import RequestError
from triagectl.processes import Table
from triagectl.requests import Matcher
from triagectl.sampling import Sampler
from triagectl.sysfs import Disk
from triagectl.system import System
from triagectl.usage import Account, Usage

EVENTS = (
    "block/block_bio_queue",
    "block/block_bio_backmerge",
    "block/block_rq_issue",
    "block/block_rq_complete",
    *tracefs.SELDOM,
)
#: The times of requests are kept for this long, in s, so that there are enough for a P99.
_MEMORY_S = 10.0
#: The size of each CPU's trace buffer, in KiB. It is enough for the events of several time windows
#: of the Sampler.
BUFFER_KIB = 256
_ROWS = 12


@dataclass(frozen=True)
class Options:
    """The user's request. With a `count` of 0 the screens go on until a signal."""

    disks: Sequence[str]
    interval: float = 2.0
    count: int = 0
    json: bool = False
    prometheus: Path | None = None


def chosen(system: System, names: Sequence[str]) -> list[Disk]:
    """Return the disks of these names; for a stacked device, the disks below it.

    Without names, return all disks for which users choose a scheduler, except those that are
    hidden or below a device with a scheduler. Raise RequestError if nothing can be shown.
    """
    if names:
        found = {disk.name: disk for disk in (sysfs.find(system, name) for name in names)}
        bases = [base for disk in found.values() for base in sysfs.bases(system, disk)]
        refuse_hidden(bases)
        return list({disk.name: disk for disk in bases}.values())
    disks = [disk for disk in sysfs.shown(system) if not (disk.hidden or disk.above)]
    if not disks:
        raise RequestError("there is no disk here that takes a scheduler: name one")
    return disks


def refuse_hidden(disks: Sequence[Disk]) -> None:
    """Raise RequestError if a disk has no device number: events tell disks apart by this number."""
    if hidden := [disk.name for disk in disks if disk.hidden]:
        raise RequestError(
            f"the kernel does not tell which of its events are of {', '.join(hidden)}, a path of "
            "NVMe multipath"
        )


def parts(disks: Sequence[Disk]) -> dict[int, int]:
    """Return the disk of each partition, by device number."""
    return {number: disk.dev for disk in disks for _, number in disk.partitions}


def devices(disks: Sequence[Disk]) -> list[int]:
    """Return the device numbers of disks and partitions."""
    return [disk.dev for disk in disks] + list(parts(disks))


def run(system: System, options: Options) -> int:
    """Show the disks, `count` times or until a signal."""
    disks = chosen(system, options.disks)
    if options.prometheus is not None:
        prometheus.check(options.prometheus)
    with tracefs.instance(system, EVENTS, devices(disks), BUFFER_KIB) as instance:
        matcher = Matcher(parts(disks), finished=lambda _: None)
        schedulers = {disk.dev: (disk.scheduler, disk.tunables) for disk in disks}
        intervals = max(1, round(_MEMORY_S / options.interval))
        usage = Usage(Table(system), schedulers, matcher.inside, intervals)
        matcher.finished, matcher.gave_up = usage.finished, usage.gave_up
        matcher.issued = usage.issued
        sampler = Sampler(instance, matcher)
        before = {disk.name: counters.of(disk) for disk in disks}
        shown = 0
        begin = time.monotonic()
        while True:
            sampler.run(time.monotonic() + options.interval)
            now = time.monotonic()
            after = {disk.name: counters.of(disk) for disk in disks}
            views = [
                view(system, disk, after[disk.name].since(before[disk.name]), now - begin, usage)
                for disk in disks
            ]
            about = {
                "sampled": sampler.seen_s / (now - begin),
                "lost_pages": instance.lost,
                "ambiguous": matcher.ambiguous,
            }
            shown += 1
            _show(views, about, options)
            if shown == options.count:
                return 0
            before, begin, sampler.seen_s = after, now, 0.0
            schedulers.update({disk.dev: (disk.scheduler, disk.tunables) for disk in disks})
            usage.turn()


def _show(views: list[dict[str, Any]], about: dict[str, Any], options: Options) -> None:
    if options.prometheus is not None:
        prometheus.write(options.prometheus, views)
    if options.json:
        print(json.dumps({"time": round(time.time(), 3), **about, "disks": views}), flush=True)
        return
    text = rendered(views, about, options.interval)
    # Move the cursor home and clear the screen: every terminal knows these sequences.
    print(f"\x1b[H\x1b[2J{text}" if sys.stdout.isatty() else text + "\n", flush=True)


def view(
    system: System, disk: Disk, counts: Counts, seconds: float, usage: Usage
) -> dict[str, Any]:
    """Return all that is shown about a disk. The disk's totals are exact; the rest is sampled."""
    accounts = usage.accounts(disk.dev)
    latest = {(a.process.pid, a.of): a for a in usage.accounts(disk.dev, latest=True)}
    # If sampling paused for the whole interval, use the shares of earlier intervals.
    latest = latest or {(a.process.pid, a.of): a for a in accounts}
    every = list(latest.values())
    sampled = sum(account.requests for account in every)
    sampled_bytes = sum(account.bytes for account in every)
    served = sum(account.served_ns for account in every)

    def rates(of: Sequence[Account]) -> dict[str, Any]:
        mine = sum(account.requests for account in of)
        mine_bytes = sum(account.bytes for account in of)
        return {
            "iops": counts.requests / seconds * mine / sampled if sampled else 0.0,
            "bytes_per_s": counts.bytes / seconds * mine_bytes / sampled_bytes
            if sampled_bytes
            else 0.0,
            "share": sum(account.served_ns for account in of) / served if served else 0.0,
        }

    def percentiles(of: Sequence[Account]) -> dict[str, Any]:
        found: dict[str, Any] = {"requests_timed": sum(account.requests for account in of)}
        for part in ("queue", "device", "total"):
            every = times.merged(getattr(account, part) for account in of)
            found[f"{part}_p50_ns"] = every.quantile(0.5)
            found[f"{part}_p99_ns"] = every.quantile(0.99)
        return found

    processes = [
        {
            "pid": account.process.pid,
            "name": account.process.name,
            "class": account.of,
            **rates([latest[key]] if (key := (account.process.pid, account.of)) in latest else []),
            **percentiles([account]),
            "behind": [
                {"pid": other.pid, "name": other.name, "requests": round(mean, 2)}
                for other, mean in usage.behind(account)
            ],
        }
        for account in accounts
    ]
    processes.sort(key=lambda row: -row["share"])
    classes = [
        {
            "class": of,
            **rates([account for account in every if account.of == of]),
            **percentiles([account for account in accounts if account.of == of]),
        }
        for of in sorted({account.of for account in accounts}, key=_order)
    ]
    return {
        "disk": disk.name,
        "scheduler": disk.scheduler,
        "iops": counts.requests / seconds,
        "read_bytes_per_s": counts.read_bytes / seconds,
        "written_bytes_per_s": counts.written_bytes / seconds,
        "busy": min(1.0, counts.busy_ms / 1000 / seconds),
        "in_flight": counts.in_flight,
        "classes": classes,
        "processes": processes,
        "triage": _triage(system, disk),
    }


_CLASSES = ("HIGH", "rt", "NORMAL", "be", "LOW", "idle", "?")


def _order(name: str) -> int:
    return _CLASSES.index(name)


def _triage(system: System, disk: Disk) -> dict[str, Any] | None:
    """Return the state from triage's files in debugfs; None if they are not there."""
    inside = debugfs.inside(system, disk.name) if disk.scheduler == "triage" else None
    if inside is None:
        return None
    return {
        "queued": inside.queued,
        "in_flight": inside.in_flight,
        **{
            name: inside.depth.get(name)
            for name in ("pressed", "budget", "bulk", "urgent", "target", "judged", "late")
        },
    }


def rendered(views: Sequence[dict[str, Any]], about: dict[str, Any], interval: float) -> str:
    """Return the text of a screen."""
    share = about["sampled"]
    if share:
        seen = "all requests timed" if share > 0.95 else f"timed 1 moment in {1 / share:.0f}"
    else:
        seen = "none timed: this was a pause"
    lines = [f"triagectl top  {time.strftime('%H:%M:%S')}  every {interval:g} s, {seen}"]
    for one in views:
        lines += ["", *_disk(one)]
    return "\n".join(lines)


def _disk(one: dict[str, Any]) -> list[str]:
    duration: Callable[[int | None], str] = screen.duration
    head = (
        f"{one['disk']} [{one['scheduler']}]  {screen.amount(one['iops'])} IOPS  "
        f"read {screen.amount(one['read_bytes_per_s'])}B/s  "
        f"write {screen.amount(one['written_bytes_per_s'])}B/s  "
        f"busy {one['busy']:.0%}  in flight {one['in_flight']}"
    )
    lines = screen.wrapped(head, 2).split("\n")
    inside = one["triage"]
    if inside:
        lines.append(
            f"  queued {'/'.join(map(str, inside['queued']))} (HIGH/NORMAL/LOW)  "
            + (
                f"bulk held to {duration(inside['budget'])}, has {duration(inside['bulk'])}"
                if inside["pressed"]
                else "bulk is not held"
            )
        )
    if not one["processes"]:
        return [*lines, "  no request was seen"]

    def row(cells: Sequence[str], behind: str) -> str:
        pid, name, of, use, iops, size, *four = cells
        return (
            f"{pid:>7} {screen.plain(name):<13.13} {of:<6} {use:>4} {iops:>5} {size:>5}"
            + "".join(f" {cell:>5}" for cell in four)
            + f"  {screen.plain(behind):<9.9}"
        ).rstrip()

    lines.append(f"{'':47}queue       device")
    heads = ("PID", "NAME", "CLASS", "USE", "IOPS", "B/s", "P50", "P99", "P50", "P99")
    lines.append(row(heads, "BEHIND"))

    def cells(name: tuple[str, str, str], what: dict[str, Any]) -> list[str]:
        return [
            *name,
            f"{what['share']:.0%}",
            screen.amount(what["iops"]),
            screen.amount(what["bytes_per_s"]),
            *(duration(what[f"{part}_p{q}_ns"]) for part in ("queue", "device") for q in (50, 99)),
        ]

    for of in one["classes"]:
        lines.append(row(cells(("", "all", of["class"]), of), ""))
    for process in one["processes"][:_ROWS]:
        behind = process["behind"][0]["name"] if process["behind"] else ""
        named = (str(process["pid"]), process["name"], process["class"])
        lines.append(row(cells(named, process), behind))
    if len(one["processes"]) > _ROWS:
        lines.append(f"        and {len(one['processes']) - _ROWS} more processes")
    return lines
