# SPDX-License-Identifier: GPL-2.0-only
"""Add up sampled requests by disk, class and process, over the last seconds."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from triagectl import ioprio
from triagectl.processes import Process, Table
from triagectl.requests import Request
from triagectl.times import Times

#: `issued()` examines one request in seven. The number is a prime, so that it does not always meet
#: the same process when several processes take turns.
_BEHIND_EACH = 7


@dataclass
class Account:
    """Requests of one process in one class.

    looks   how many of this account's requests were examined when they were sent to the disk
    behind  for each thread, how many of its requests were in the disk then, summed over `looks`
    """

    process: Process
    of: str
    requests: int = 0
    bytes: int = 0
    served_ns: int = 0
    queue: Times = field(default_factory=Times)
    device: Times = field(default_factory=Times)
    total: Times = field(default_factory=Times)
    looks: int = 0
    behind: Counter[int] = field(default_factory=Counter)

    def add(self, request: Request) -> None:
        """Count a completed request."""
        self.requests += 1
        self.bytes += request.bytes
        self.served_ns += request.served
        self.queue.add(max(0, request.waited))
        self.device.add(max(0, request.served))
        self.total.add(max(0, request.waited + request.served))

    def merge(self, other: "Account") -> None:
        """Add the counts of another account."""
        self.requests += other.requests
        self.bytes += other.bytes
        self.served_ns += other.served_ns
        self.queue.merge(other.queue)
        self.device.merge(other.device)
        self.total.merge(other.total)
        self.looks += other.looks
        self.behind.update(other.behind)


#: Device number of the disk, process ID, class.
Key = tuple[int, int, str]


@dataclass
class Usage:
    """The accounts of the last intervals.

    schedulers  scheduler and tunables of each disk: they determine a priority's class
    inside      the matcher's `inside`: for each disk, how many requests of each thread it has
    """

    table: Table
    schedulers: Mapping[int, tuple[str, dict[str, str]]]
    inside: Mapping[int, Counter[int]]
    intervals: int

    def __post_init__(self) -> None:
        self._past: deque[dict[Key, Account]] = deque(maxlen=self.intervals)
        self._now: dict[Key, Account] = {}
        self._threads: dict[tuple[int, int, int | None], Account] = {}
        self._past.append(self._now)
        self._issued = 0

    def turn(self) -> None:
        """Begin a new interval, and forget the oldest."""
        self.table.turn()
        self._now = {}
        self._threads = {}
        self._past.append(self._now)

    def _account(self, request: Request) -> Account:
        short = (request.dev, request.tid, request.ioprio)
        found = self._threads.get(short)
        if found is None:
            process = self.table.of(request.tid, request.comm)
            priority = process.priority
            if request.ioprio is not None and request.ioprio >> 13:
                priority = ioprio.decoded(request.ioprio)
            scheduler, tunables = self.schedulers[request.dev]
            of = ioprio.group(priority, scheduler, tunables)
            key = (request.dev, process.pid, of)
            found = self._now.setdefault(key, Account(process, of))
            self._threads[short] = found
        return found

    def issued(self, request: Request) -> None:
        """For one request in seven, count each thread's requests that the disk already has."""
        self._issued += 1
        if self._issued % _BEHIND_EACH:
            return
        account = self._account(request)
        account.looks += 1
        behind = account.behind
        for tid, count in self.inside[request.dev].items():
            behind[tid] += count

    def finished(self, request: Request) -> None:
        """Count a request that is done."""
        self._account(request).add(request)

    def gave_up(self, request: Request) -> None:
        """Count a request that is not done, if the device has it."""
        if request.issued:
            self.finished(request)

    def accounts(self, dev: int, latest: bool = False) -> list[Account]:
        """Return a disk's accounts over all intervals, or of the latest one; busiest first."""
        found: dict[Key, Account] = {}
        for interval in [self._now] if latest else self._past:
            for key, account in interval.items():
                if key[0] == dev:
                    into = found.setdefault(key, Account(account.process, account.of))
                    into.process = account.process  # its name may have changed
                    into.merge(account)
        return sorted(found.values(), key=lambda account: -account.served_ns)

    def behind(self, account: Account) -> list[tuple[Process, float]]:
        """Return the processes, at most three, that the account's requests meet most in the disk.

        Each comes with the average number of its requests that were in the disk when the account
        sent one. The account's own process is left out.
        """
        found: Counter[Process] = Counter()
        for tid, count in account.behind.items():
            other = self.table.of(tid, b"")
            if other.pid != account.process.pid:
                found[other] += count
        return [(process, count / account.looks) for process, count in found.most_common(3)]
