# SPDX-License-Identifier: GPL-2.0-only
"""`triagectl explain`: record some seconds, and say why the slowest requests were slow."""

import heapq
import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from triagectl import causes, counters, ioprio, screen, top, tracefs
from triagectl.causes import Cause, Place, Seen
from triagectl.errors import RequestError
from triagectl.processes import Table
from triagectl.requests import Matcher, Request
from triagectl.sampling import Sampler
from triagectl.sysfs import Disk
from triagectl.system import System

EVENTS = (
    *top.EVENTS,
    "block/block_getrq",
    "block/block_rq_insert",
)
_TRIAGE = ("triage/triage_dispatch", "triage/triage_hold")
_BUFFER_KIB = 4096
#: The share of a core that a recording may use. It is large so that the recording seldom pauses: in
#: a pause, requests that delay others would be missed. A recording usually lasts only some seconds.
_CPU_LIMIT = 0.9
#: A recording ends early at this many requests. Each takes 0.3 kB of memory.
_KEPT_MOST = 300_000
_SLICE_S = 0.25


@dataclass(frozen=True)
class Options:
    """The user's request."""

    disks: Sequence[str]
    seconds: float = 10.0
    count: int = 5
    pid: int | None = None
    json: bool = False


@dataclass
class Recording:
    """The requests that were seen, and the times of the event triage_hold, by device number."""

    requests: dict[int, list[Request]] = field(default_factory=lambda: defaultdict(list))
    held: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    count: int = 0

    def finished(self, request: Request) -> None:
        """Keep a request that is done, or that the matcher no longer follows."""
        self.requests[request.dev].append(request)
        self.count += 1

    def gave_up(self, request: Request) -> None:
        """Keep a request that is not done, if it got a tag or came to the device."""
        if request.got or request.issued:
            self.finished(request)

    def hold(self, dev: int, at: int) -> None:
        """Keep the time of an event triage_hold: triage sent nothing though requests waited."""
        self.held[dev].append(at)


def run(system: System, options: Options) -> int:
    """Record, and say why the slowest requests were slow."""
    disks = top.chosen(system, options.disks)
    if options.pid is not None and system.contained():
        raise RequestError(
            "process numbers in a container are not those of the kernel's events: "
            "give `explain --pid` outside of it"
        )
    recording = Recording()
    matcher = Matcher(
        top.parts(disks),
        finished=recording.finished,
        gave_up=recording.gave_up,
        held=recording.hold,
    )
    begin = time.monotonic()
    before = {disk.name: counters.of(disk) for disk in disks}
    with tracefs.instance(
        system, EVENTS, top.devices(disks), _BUFFER_KIB, optional=_TRIAGE
    ) as instance:
        sampler = Sampler(instance, matcher, limit=_CPU_LIMIT, context=True)
        while time.monotonic() < begin + options.seconds and recording.count < _KEPT_MOST:
            sampler.run(min(time.monotonic() + _SLICE_S, begin + options.seconds))
        took = time.monotonic() - begin
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        # Keep unfinished requests too: one that the device never answers is the slowest of all.
        for request in matcher.unfinished():
            recording.gave_up(request)
        share = sampler.seen_s / took
    table = Table(system)
    done = {disk.name: counters.of(disk).since(before[disk.name]).requests for disk in disks}
    views = [
        _about(disk, recording, table, options, now) | {"completed": done[disk.name]}
        for disk in disks
    ]
    about = {
        "seconds": took,
        "recorded": min(1.0, share),
        "ambiguous": matcher.ambiguous,
        "lost_pages": instance.lost,
    }
    if options.json:
        print(json.dumps({**about, "disks": views}))
    else:
        print("\n\n".join(_text(view, about) for view in views))
    return 0


def place(disk: Disk) -> Place:
    """Return a disk's scheduler and settings."""
    return Place(
        disk.scheduler,
        disk.tunables,
        disk.number("queue/nr_requests") or 1,
        max(1, disk.hardware_queues),
        disk.number("queue/wbt_lat_usec") or 0,
        disk.rotational,
    )


def _about(
    disk: Disk, recording: Recording, table: Table, options: Options, now: int
) -> dict[str, Any]:
    requests = recording.requests[disk.dev]
    setup = place(disk)

    def class_of(request: Request) -> str:
        if request.of:
            return request.of
        priority = table.of(request.tid, request.comm).priority
        if request.ioprio is not None and request.ioprio >> 13:
            priority = ioprio.decoded(request.ioprio)
        return ioprio.group(priority, setup.scheduler, dict(setup.tunables))

    seen = Seen(setup, requests, class_of, recording.held[disk.dev])
    wanted = [
        request
        for request in requests
        if options.pid in (None, table.of(request.tid, request.comm).pid)
    ]
    slowest = heapq.nlargest(options.count, wanted, key=lambda r: r.end(now) - r.queued)
    return {
        "disk": disk.name,
        "scheduler": setup.scheduler,
        "seen": len(requests),
        "slowest": [_one(request, seen, table, now) for request in slowest],
    }


def _one(request: Request, seen: Seen, table: Table, now: int) -> dict[str, Any]:
    process = table.of(request.tid, request.comm)
    spent = causes.parts(request, now)
    cause = causes.find(request, seen, now)
    return {
        "total_ns": request.end(now) - request.queued,
        "done": bool(request.completed),
        "write": request.write,
        "bytes": request.bytes,
        "sector": request.sector,
        "pid": process.pid,
        "name": process.name,
        "class": seen.class_of(request),
        "reason": request.reason,
        "tag_ns": spent.tag,
        "queue_ns": spent.queue,
        "device_ns": spent.device,
        "requeued": request.requeues,
        "cause": cause.name,
        "text": cause.text,
        "do": cause.do,
        "others": _others(cause, table),
    }


def _others(cause: Cause, table: Table) -> list[dict[str, Any]]:
    found: Counter[tuple[int, str]] = Counter()
    for tid, count in cause.others.items():
        process = table.of(tid, b"")
        found[process.pid, process.name] += count
    return [
        {"pid": pid, "name": name, "requests": count} for (pid, name), count in found.most_common(3)
    ]


def _text(view: dict[str, Any], about: dict[str, Any]) -> str:
    share = about["recorded"]
    seen = "all" if share > 0.95 else f"{share:.0%} of the time"
    lines = [
        f"{view['disk']} [{view['scheduler']}]: {view['seen']} requests seen in "
        f"{about['seconds']:.1f} s ({seen})"
    ]
    for number, one in enumerate(view["slowest"], 1):
        what = "write" if one["write"] else "read"
        state = "" if one["done"] else ", not done yet"
        parts = "  ".join(
            f"{name} {screen.duration(one[f'{name}_ns'])}" for name in ("tag", "queue", "device")
        )
        reason = f", sent as {one['reason']}" if one["reason"] else ""
        lines += [
            "",
            f"{number}. {screen.duration(one['total_ns'])}  {what} of {one['bytes'] / 1024:g} KiB "
            f"by {screen.plain(one['name'])} ({one['pid']}), {one['class']}{state}",
            f"   {parts}{reason}",
            screen.wrapped(f"   {one['cause']}: {one['text']}", 5),
        ]
        if one["others"]:
            named = ", ".join(
                f"{other['name']} ({other['pid']}) {other['requests']}" for other in one["others"]
            )
            lines.append(screen.wrapped(f"   whose: {named}", 5))
        lines.append(screen.wrapped(f"   do: {one['do']}", 5))
    if not view["slowest"]:
        lines.append("  no request was seen")
    return "\n".join(lines)
