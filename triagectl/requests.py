# SPDX-License-Identifier: GPL-2.0-only
"""Put requests together from the trace events of the block layer.

An event names its request only by device and sector. Two requests at the same sector at the same
time cannot be told apart: both are left out, and counted as `ambiguous`. io_uring first submits a
bio without waiting for a tag. If no tag is free, it submits the bio again, and waits. Both attempts
are one request.
"""

import errno
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from triagectl.ringbuffer import Event

SECTOR = 512


def text(field: bytes) -> bytes:
    """Return a text field up to its zero byte. The bytes after it are left from earlier text."""
    return field.partition(b"\0")[0]


@dataclass(slots=True)
class Request:
    """One request, with the times of its events in ns. 0 means that the event was not seen.

    queued     its first bio came to the block layer (the first attempt, if io_uring made two)
    got        it got a tag
    inserted   it was given to the scheduler
    issued     the driver got it
    completed  the device finished it
    until      the matcher stopped following it before it was done
    beside     how many requests the device had when it got this one
    discard    it frees sectors. If it is merged into another discard, it seems to wait for ever
    refused    its bio ended because no tag was free: the submitter will submit the bio again
    twice      another request had the same sector at the same time
    """

    dev: int
    sector: int
    sectors: int
    write: bool
    sync: bool
    tid: int
    comm: bytes
    queued: int = 0
    got: int = 0
    inserted: int = 0
    issued: int = 0
    completed: int = 0
    until: int = 0
    ioprio: int | None = None
    requeues: int = 0
    beside: int = 0
    discard: bool = False
    refused: bool = False
    twice: bool = False
    of: str = ""
    reason: str = ""

    def end(self, now: int) -> int:
        """Return when it was done. If it is not done, return `until` or else `now`."""
        return self.completed or self.until or now

    @property
    def waited(self) -> int:
        """Return the time from its first bio until the driver got it, in ns."""
        return self.issued - self.queued

    @property
    def served(self) -> int:
        """Return the time in the device, in ns. If the request is not done, count up to `until`."""
        return (self.completed or self.until) - self.issued

    @property
    def bytes(self) -> int:
        """Return its length in bytes."""
        return self.sectors * SECTOR


@dataclass
class Matcher:
    """Follows requests through events.

    parts     the disk of each partition, by device number. An event of a bio names the partition,
              an event of a request names the disk
    issued    called with each request as the driver gets it
    finished  called with each request that is done, was seen from its start and is not ambiguous
    gave_up   called with each request that is neither done nor ambiguous after the last event
    held      called when triage sends nothing though requests are queued, with disk and time
    open      if true, follow new requests too, not only those that are pending
    inside    for each disk, how many requests of each thread it has
    """

    parts: dict[int, int]
    finished: Callable[[Request], None]
    issued: Callable[[Request], None] | None = None
    gave_up: Callable[[Request], None] | None = None
    held: Callable[[int, int], None] | None = None
    inside: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    pending: dict[tuple[int, int], Request] = field(default_factory=dict)
    ambiguous: int = 0
    unseen: int = 0
    open: bool = True

    def feed(self, events: Iterable[Event]) -> None:
        """Follow the requests through these events, which are in the order of their times."""
        steps = {
            "block_bio_queue": self._queue,
            "block_bio_complete": self._ended_without_request,
            "block_getrq": self._getrq,
            "block_bio_backmerge": self._merged_behind,
            "block_bio_frontmerge": self._merged_before,
            "block_rq_insert": self._insert,
            "block_rq_merge": self._joined,
            "block_rq_issue": self._issue,
            "block_rq_requeue": self._requeue,
            "block_rq_complete": self._complete,
            "triage_dispatch": self._dispatch,
            "triage_hold": self._hold,
        }
        for event in events:
            step = steps.get(event[1])
            if step is not None:
                step(event)

    def give_up(self, now: int) -> None:
        """Report, through gave_up(), each request that is neither done nor ambiguous.

        Call this after the last event. `now` is the time just before the events were turned off,
        so the last events may be a little later.
        """
        if self.gave_up is not None:
            for request in self.unfinished():
                request.until = max(now, request.queued, request.issued)
                self.gave_up(request)

    def unfinished(self) -> Iterator[Request]:
        """Yield each request that is neither done nor ambiguous."""
        return (request for request in self.pending.values() if not request.twice)

    def expire(self, before: int) -> None:
        """Forget requests that came before the time `before`, and that the driver did not get.

        Some of these will have no further event, such as a discard that was merged into another.
        """
        old = [key for key, one in self.pending.items() if not one.issued and one.queued < before]
        for key in old:
            del self.pending[key]

    def forget(self) -> None:
        """Forget all requests. Call this if events may be missing before the next one."""
        self.pending.clear()
        self.inside.clear()

    def _disk(self, dev: int) -> int:
        return self.parts.get(dev, dev)

    def _queue(self, event: Event) -> None:
        if not self.open:
            return
        time, _, tid, dev, sector, sectors, rwbs, comm = event
        if not sectors:
            return  # a flush without data: no sector identifies its request
        dev = self._disk(dev)
        key = (dev, sector)
        other = self.pending.get(key)
        write = not rwbs.startswith(b"R")
        if other is not None:
            if not other.refused or other.issued:
                other.twice = True
                return
            if (other.sectors, other.write) == (sectors, write):
                other.refused = False
                return
        sync = not write or b"S" in text(rwbs)
        request = Request(dev, sector, sectors, write, sync, tid, comm, time)
        request.discard = rwbs.startswith(b"D")
        self.pending[key] = request

    def _ended_without_request(self, event: Event) -> None:
        """Handle a bio that ended without a request: it failed, or no tag was free."""
        _, _, dev, sector, error = event
        key = (self._disk(dev), sector)
        request = self.pending.get(key)
        if request is None or request.twice or request.got or request.issued:
            return
        if error == -errno.EAGAIN:
            request.refused = True
        else:
            del self.pending[key]

    def _getrq(self, event: Event) -> None:
        dev = self._disk(event[3])
        request = self.pending.get((dev, event[4]))
        if request is None:
            # This is the rest of a bio that was split. It had no event block_bio_queue.
            self._queue((*event[:1], "", *event[2:]))
            request = self.pending.get((dev, event[4]))
            if request is None:
                return
        request.got = event[0]

    def _merged_behind(self, event: Event) -> None:
        dev = self._disk(event[3])
        self.pending.pop((dev, event[4]), None)

    def _merged_before(self, event: Event) -> None:
        _, _, _, dev, sector, sectors, *_ = event
        dev = self._disk(dev)
        self.pending.pop((dev, sector), None)
        request = self.pending.pop((dev, sector + sectors), None)
        if request is not None:
            request.sector = sector
            self.pending[dev, sector] = request

    def _joined(self, event: Event) -> None:
        self.pending.pop((event[3], event[4]), None)

    def _insert(self, event: Event) -> None:
        request = self.pending.get((event[3], event[4]))
        if request is not None:
            request.inserted = event[0]

    def _issue(self, event: Event) -> None:
        time, _, _, dev, sector, sectors, ioprio, _, _ = event
        if not sectors:
            return  # a flush: its sector, 0, does not identify it
        request = self.pending.get((dev, sector))
        if request is None:
            self.unseen += 1
            return
        request.issued = time
        request.sectors = sectors
        if ioprio != b"":
            request.ioprio = ioprio
        if self.issued is not None:
            self.issued(request)
        inside = self.inside[dev]
        request.beside = inside.total()
        inside[request.tid] += 1

    def _requeue(self, event: Event) -> None:
        request = self.pending.get((event[3], event[4]))
        if request is not None and request.issued:
            request.issued = 0
            request.requeues += 1
            self._left(request)

    def _dispatch(self, event: Event) -> None:
        _, _, dev, sector, _, _, of, reason = event
        request = self.pending.get((dev, sector))
        if request is not None:
            request.of = text(of).decode()
            request.reason = text(reason).decode()

    def _hold(self, event: Event) -> None:
        if self.held is not None:
            self.held(event[2], event[0])

    def _complete(self, event: Event) -> None:
        time, _, _, dev, sector, sectors = event
        request = self.pending.get((dev, sector))
        if request is None or not request.issued or not sectors:
            return
        del self.pending[dev, sector]
        if sectors < request.sectors:
            # Only a part of the request is done. The rest begins where this part ends.
            request.sector += sectors
            request.sectors -= sectors
            self.pending[dev, request.sector] = request
            return
        request.completed = time
        self._left(request)
        if request.twice:
            self.ambiguous += 2
        else:
            self.finished(request)

    def _left(self, request: Request) -> None:
        inside = self.inside[request.dev]
        inside[request.tid] -= 1
        if inside[request.tid] <= 0:
            del inside[request.tid]
