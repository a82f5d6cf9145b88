# SPDX-License-Identifier: GPL-2.0-only
"""Find why a request was slow: the part of its life that took longest, and the cause there."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from triagectl.requests import SECTOR, Request

#: A device that has requests and answers none for this time has stalled. No lone request takes so
#: long: a disk with an arm takes 10 to 20 ms.
STALL_NS = 50_000_000
#: Other requests in the device are the cause only if the slow one takes at least this many times as
#: long there as a lone request.
_SLOW = 2.0
#: A lone request is assumed to take the median time of similar requests that were alone in the
#: device. If fewer than this many were recorded, _FLASH_NS is assumed, or _ARM_NS on a disk with an
#: arm.
_ALONE_LEAST = 5
_FLASH_NS = 500_000
_ARM_NS = 15_000_000
#: A limit of a class (limit_iops_low and the like) is the cause only if the class sent about what
#: the limit allows: within this factor, give or take one request.
_LIMIT_SLACK = 1.3
#: Tags are the cause if at least this share of them was taken for a fifth of the wait. A scheduler
#: may refuse the rest to the submitter of the slow request.
_TAGS_TAKEN = 0.9
#: And at least this share was taken for half of the wait. It is smaller, because a tag has no owner
#: while it passes to the next request, and the next thread may have to wait for a CPU.
_TAGS_USUAL = 0.75
#: Count the taken tags at this many moments of a wait.
_MOMENTS = 19
_NEVER = 1 << 63
_CLASS_ORDER = {"HIGH": 0, "rt": 0, "NORMAL": 1, "be": 1, "LOW": 2, "idle": 2}


@dataclass(frozen=True)
class Place:
    """A disk's scheduler and settings.

    tags    the most requests that one hardware queue may have
    queues  the number of hardware queues
    """

    scheduler: str
    tunables: Mapping[str, str]
    tags: int
    queues: int
    wbt_us: int = 0
    rotational: bool = False


@dataclass(frozen=True)
class Seen:
    """Everything that was recorded about one disk.

    class_of  returns the class in which the scheduler puts a request
    held      the moments, in ns, at which triage sent nothing though requests were queued
    """

    place: Place
    requests: Sequence[Request]
    class_of: Callable[[Request], str]
    held: Sequence[int] = field(default_factory=list)

    @cached_property
    def silences(self) -> list[tuple[int, int]]:
        """Return start and end of each stall.

        In a stall the device has requests and answers none, for STALL_NS or longer.
        """
        steps = []
        for request in self.requests:
            if request.issued:
                steps.append((request.issued, 1))
                # After `until` nothing is known about a request: assume that it has left.
                steps.append((request.end(_NEVER), -1))
        found, inside, since = [], 0, 0
        for at, step in sorted(steps):
            if at == _NEVER:
                found.append((since, at))
                break
            if step < 0:
                found.append((since, at))
            if step < 0 or not inside:
                since = at
            inside += step
        return [silence for silence in found if silence[1] - silence[0] >= STALL_NS]


@dataclass(frozen=True)
class Cause:
    """The cause of a slow request, with advice.

    name    depth, tag, aging, limit, stall, priority, budget, order, idle, writeback,
            device, unknown
    do      the advice: a possible remedy
    others  for each thread, how many of its requests contributed
    """

    name: str
    text: str
    do: str
    others: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True)
class Parts:
    """A request's times, in ns: until it got a tag, in the scheduler, in the device."""

    tag: int
    queue: int
    device: int


def parts(request: Request, now: int) -> Parts:
    """Return how long a request spent in each part.

    If the request is not done, count up to its `until`, or else up to `now`.
    """
    now = request.until or now
    got = request.got or now
    issued = request.issued or (now if request.got else got)
    return Parts(
        tag=max(0, got - request.queued),
        queue=max(0, issued - got),
        device=max(0, (request.completed or now) - issued) if request.issued else 0,
    )


def find(request: Request, seen: Seen, now: int) -> Cause:
    """Return why a request was slow."""
    now = request.until or now
    spent = parts(request, now)
    if spent.device >= max(spent.queue, spent.tag):
        return _in_device(request, seen, now)
    begin = request.queued if spent.tag > spent.queue else request.got
    end = begin + max(spent.tag, spent.queue)
    # Requests behind a stalled device wait in the scheduler or for a tag: check for a stall first.
    stalled = _stall(seen, begin, end)
    if stalled >= STALL_NS and stalled >= (end - begin) / 2:
        return _stalled(stalled)
    return _for_a_tag(request, seen) if spent.tag > spent.queue else _in_queue(request, seen, end)


def _stalled(ns: int) -> Cause:
    return Cause(
        "stall",
        f"the device answered nothing for {ns / 1e6:.0f} ms, though it had requests",
        "no scheduler helps: look at `dmesg` for resets and errors, and at the drive's health; "
        "drives also stop for a cache flush, for garbage collection and to wake up",
    )


def _stall(seen: Seen, begin: int, end: int) -> int:
    """Return the longest time between `begin` and `end` that belongs to one stall, in ns."""
    return max((min(right, end) - max(left, begin) for left, right in seen.silences), default=0)


def _there(since: int, other: Request, time: int) -> bool:
    """Return whether `other` had a tag, or was in the device, at a time.

    `since` is when `other` got the tag, or came to the device; 0 means never. After `other.until`
    nothing is known about `other`: assume that it has left.
    """
    return 0 < since <= time < other.end(_NEVER)


def _in_device(request: Request, seen: Seen, now: int) -> Cause:
    end = request.completed or now
    took = end - request.issued
    stalled = _stall(seen, request.issued, end)
    if stalled >= STALL_NS and stalled >= took / 2:
        return _stalled(stalled)
    others = Counter(
        other.tid
        for other in seen.requests
        if other is not request and _there(other.issued, other, request.issued)
    )
    depth = others.total()
    if depth and took >= _SLOW * _alone(request, seen):
        text = (
            f"the device had {depth} request{'' if depth == 1 else 's'} when this one came, and "
            "none can be overtaken there"
        )
        if seen.place.scheduler == "triage":
            do = "raise exchange, or lower a target that is set, so that bulk has less in there"
        else:
            do = (
                f"{seen.place.scheduler} let so many in: try triage (`triagectl try`), or have "
                "the others ask for less at once"
            )
        return Cause("depth", text, do, others)
    return Cause(
        "device",
        f"the device took that long for it with {depth} other requests inside",
        "a scheduler changes nothing here: it is the device's own time for such a request",
    )


def _alone(request: Request, seen: Seen) -> float:
    """Estimate how long the device takes, in ns, for a request like this one that is alone in it.

    Use only requests that were alone in it. The times of others depend on an unknown: whether the
    device serves many requests at once or one after the other.
    """
    times = sorted(
        other.served
        for other in seen.requests
        if other.completed
        and other.issued
        and other.beside == 0
        and other.write == request.write
        and other.bytes <= max(2 * request.bytes, SECTOR)
    )
    if len(times) >= _ALONE_LEAST:
        return float(times[len(times) // 2])
    return _ARM_NS if seen.place.rotational else _FLASH_NS


def _for_a_tag(request: Request, seen: Seen) -> Cause:
    waited = (request.got or request.queued + 1) - request.queued
    near = [
        other
        for other in seen.requests
        if other is not request
        and 0 < other.got <= request.queued + waited
        and request.queued < other.end(_NEVER)
    ]
    moments = (request.queued + waited * n // (_MOMENTS + 1) for n in range(1, _MOMENTS + 1))
    counted = (
        Counter(other.tid for other in near if _there(other.got, other, time)) for time in moments
    )
    ranked = sorted(counted, key=Counter.total)
    usual, taken = ranked[_MOMENTS // 2], ranked[_MOMENTS * 4 // 5]
    place = seen.place
    # No event tells which hardware queue a request used. So assume that all taken tags belong to
    # this request's queue.
    if taken.total() >= _TAGS_TAKEN * place.tags and usual.total() >= _TAGS_USUAL * place.tags:
        more = "raise queue/nr_requests, or let the other ask for less at once"
        if place.scheduler == "none":
            more = "without a scheduler tags are the device's own: choose a scheduler, or " + more
        if place.queues == 1:
            told = f"{min(taken.total(), place.tags)} of {place.tags} tags were taken"
        else:
            told = f"{taken.total()} tags were taken, and a hardware queue has {place.tags}"
        return Cause(
            "tag",
            f"{told}, so it had no place",
            more,
            taken,
        )
    if request.write and not request.sync and place.wbt_us:
        return Cause(
            "writeback",
            "writeback throttling held it, so that reads are not slow",
            "set queue/wbt_lat_usec to 0 where a scheduler is to decide that",
        )
    return Cause(
        "unknown",
        f"it waited before the scheduler though only {usual.total()} requests had tags",
        "raise queue/nr_requests where the scheduler is kyber, bfq or triage: they keep some "
        "submitters to a part of the tags. Else look at limits of control groups (io.latency, "
        "io.cost)",
        usual,
    )


def _in_queue(request: Request, seen: Seen, end: int) -> Cause:
    begin = request.got
    ahead = [
        other for other in seen.requests if other is not request and begin <= other.issued <= end
    ]
    of = seen.class_of(request)
    if seen.place.scheduler == "triage":
        limit = _limit(of, seen, request, ahead, end - begin)
        if limit:
            return Cause(
                "limit",
                f"{limit} keeps all requests of {of} to that rate",
                f"raise {limit}, or set it to 0",
                Counter(other.tid for other in ahead if seen.class_of(other) == of),
            )
        aged = [other for other in ahead if other.reason == "aged"]
        if aged and len(aged) >= len(ahead) / 2:
            return Cause(
                "aging",
                f"{len(aged)} of {len(ahead)} requests that went first had waited for as long as "
                "their class may, and then go before all others of their cgroup",
                "raise aging_expire_normal and aging_expire_low, or limit the classes below: "
                "more is overdue than the device can do",
                Counter(other.tid for other in aged),
            )
    before = [other for other in ahead if _rank(seen.class_of(other)) < _rank(of)]
    if before and len(before) >= len(ahead) / 2:
        return Cause(
            "priority",
            f"{len(before)} of {len(ahead)} requests that went first are of a higher class than "
            f"{of}",
            f"give this process a higher priority, or those a lower one; {_share(of, seen)}",
            Counter(other.tid for other in before),
        )
    held = sum(1 for time in seen.held if begin <= time <= end)
    if held and held >= len(ahead) / 2:
        return Cause(
            "budget",
            f"triage held bulk back {held} times meanwhile, for requests that a process waits for",
            "where this process matters more, lower exchange, or raise a target that is set; or "
            "give it a priority",
            Counter(other.tid for other in ahead),
        )
    if not ahead:
        return Cause(
            "idle",
            "no request went first: the scheduler kept it, or its queue was run late",
            "under bfq look at slice_idle, under triage on a disk at anticipation; else at CPUs "
            "that have too much to do",
        )
    own = sum(1 for other in ahead if other.tid == request.tid)
    text = f"{len(ahead)} requests went first, {own} of them of its own thread"
    return Cause(
        "order",
        text,
        "the load is more than the device does: priorities or limits say whose requests matter",
        Counter(other.tid for other in ahead),
    )


def _rank(of: str) -> int:
    return _CLASS_ORDER.get(of, 1)


def _share(of: str, seen: Seen) -> str:
    if seen.place.scheduler == "triage" and of in ("NORMAL", "LOW"):
        return f"share_{of.lower()} is what its class has for sure"
    return "see `triagectl status --pid`"


def _limit(of: str, seen: Seen, request: Request, ahead: Sequence[Request], ns: int) -> str:
    """Return name and value of a limit that may have held a request's class while it waited.

    Such a limit allows about as much as the class sent during this wait. Return an empty text if
    there is none.
    """
    mine = [other for other in ahead if seen.class_of(other) == of]
    kib = [other.bytes / 1024 for other in mine]
    for unit, amount, largest in (
        ("iops", float(len(mine)), 1.0),
        ("kib", sum(kib), max(kib, default=request.bytes / 1024)),
    ):
        name = f"limit_{unit}_{of.lower()}"
        value = int(seen.place.tunables.get(name, "0"))
        allowed = value * ns / 1e9
        # The wait may begin right before or right after the class sent one of its requests. So the
        # limit may allow one request more or less than were sent.
        if (
            value
            and amount - largest <= _LIMIT_SLACK * allowed
            and allowed <= _LIMIT_SLACK * (amount + largest)
        ):
            return f"{name} {value}"
    return ""
