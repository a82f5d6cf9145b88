# SPDX-License-Identifier: GPL-2.0-only
"""`triagectl try`: try settings for some minutes, by turns with the old ones, and compare.

Time is cut into pairs of blocks. One block of each pair has the old settings, the other one has the
tried settings, and a toss decides which comes first. The module `compare` says why.
"""

import contextlib
import json
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from triagectl import compare, counters, screen, setby, sysfs, top, tracefs, wayback
from triagectl.errors import CtlError, RequestError
from triagectl.requests import Matcher, Request
from triagectl.sampling import Sampler
from triagectl.sysfs import Disk
from triagectl.system import System
from triagectl.times import Sample

#: The time to wait after a change, in s, until the requests queued before it are done.
_SETTLE_S = 3.0
#: The number of pairs of blocks in a short trial, and in a long one. A figure may still have a
#: verdict if one of 12 pairs, or three of 20, go against the others.
_PAIRS, _PAIRS_MOST = 12, 20
#: A trial is long if each block of the 20 pairs, with the wait before it, has at least this time,
#: in s.
_LONG_S = 10.0
#: The shortest block, in s: a shorter one would seldom have enough requests for a P99.
_BLOCK_LEAST_S = 1.0
#: The shortest time under the tried settings, in s, that is enough for a verdict.
SHORTEST_S = _PAIRS * (_SETTLE_S + _BLOCK_LEAST_S)
#: The keeper (wayback.py) takes a trial for hung only if its blocks are late by more than this time
#: on average, in s. A block may be late because the sampler waits for the last requests of its
#: window. The time that a change of settings takes is not counted.
_LATE_S = 3.0

#: Report the requests that are in no P99 from this share on: they may include the slowest 1 %.
_LEFT_OUT_TOLD = 0.01

#: Figures for which more is better; all others are times.
_MORE = ("requests/s", "bytes read/s", "bytes written/s")


@dataclass(frozen=True)
class Options:
    """The user's request."""

    disk: str
    scheduler: str | None
    tunables: Mapping[str, str]
    seconds: float
    json: bool = False
    undo: bool = False


@dataclass
class Block:
    """The figures of one block of time, by name."""

    figures: dict[str, float] = field(default_factory=dict)


@dataclass
class _Latencies:
    """Times of one block's requests, dropped once the block's percentiles are known."""

    read: Sample = field(default_factory=Sample)
    write: Sample = field(default_factory=Sample)
    count: int = 0

    def finished(self, request: Request) -> None:
        """Add a request's time. If the matcher gave the request up, add its age at that moment."""
        if request.discard:
            # The kernel does not count discards as writes. No event reports a merged discard's end.
            return
        self.count += 1
        took = max(0, (request.completed or request.until) - request.queued)
        (self.write if request.write else self.read).add(took)


@dataclass(frozen=True)
class Seen:
    """How many requests a trial has seen.

    timed       those that count in a P99
    ambiguous   those in no P99, because another one had the same sector at the same time
    lost_pages  how often a trace buffer was full: the requests that were waiting then are in no P99
    """

    timed: int = 0
    ambiguous: int = 0
    lost_pages: int = 0


class Meter:
    """Measures a disk in blocks of time. Counts are exact, percentiles are of sampled requests.

    All blocks have the same length, because a P99 varies more in a shorter block.
    """

    def __init__(self, disk: Disk, sampler: Sampler | None, block_s: float) -> None:
        self._disk = disk
        self._sampler = sampler
        self._timed = 0
        self.block_s = block_s

    def seen(self) -> Seen:
        """Return how many requests were seen in all blocks so far."""
        if self._sampler is None:
            return Seen()
        return Seen(self._timed, self._sampler.matcher.ambiguous, self._sampler.instance.lost)

    def block(self) -> Block:
        """Measure the disk for `block_s` seconds. Return the figures of this block."""
        found = _Latencies()
        before, begin = counters.of(self._disk), time.monotonic()
        if self._sampler is not None:
            matcher = self._sampler.matcher
            matcher.finished = matcher.gave_up = found.finished
            self._sampler.run(begin + self.block_s)
            # The next block may have other settings: it must not count this block's requests.
            self._sampler.end()
            self._timed += found.count
        else:
            time.sleep(self.block_s)
        counts = counters.of(self._disk).since(before)
        took = time.monotonic() - begin
        figures = {
            "requests/s": counts.requests / took,
            "bytes read/s": counts.read_bytes / took,
            "bytes written/s": counts.written_bytes / took,
        }
        for name, count, ms, histogram in (
            ("read", counts.reads, counts.read_ms, found.read),
            ("write", counts.writes, counts.write_ms, found.write),
        ):
            if count:
                figures[f"{name} mean"] = ms * 1e6 / count
            if (value := histogram.quantile(0.99)) is not None:
                figures[f"{name} P99"] = float(value)
        return Block(figures)


def pairs_in(seconds: float) -> int:
    """Return a trial's number of pairs of blocks, from its time under the tried settings, in s."""
    return _PAIRS_MOST if seconds >= _PAIRS_MOST * _LONG_S else _PAIRS


def block_length(seconds: float) -> float:
    """Return the length of a trial's blocks, without the wait before each."""
    return seconds / pairs_in(seconds) - _SETTLE_S


def drawn(pairs: int, chance: random.Random) -> list[bool]:
    """Draw the order of the blocks. Return for each whether it has the tried settings.

    The tosses must be independent of each other and of the load: `compare` relies on that.
    """
    tosses = [chance.random() < 0.5 for _ in range(pairs)]
    return [tries for toss in tosses for tries in (toss, not toss)]


class Arms:
    """The two settings of a disk that a trial compares: the old and the tried ones."""

    def __init__(self, system: System, disk: Disk, options: Options) -> None:
        self._system = system
        self._disk = disk
        self._options = options
        self._scheduler = {False: disk.scheduler, True: options.scheduler or disk.scheduler}
        self._tries = False

    def choose(self, tries: bool) -> None:
        """Give the disk the tried or the old settings, unless something else chose a scheduler."""
        with wayback.changing(self._system, self._disk) as state:
            if tries == self._tries or self.changed():
                return
            if tries:
                _apply(self._disk, self._options)
            else:
                wayback.restore(self._system, self._disk, state)
            self._tries = tries

    def confirm(self) -> None:
        """Raise CtlError if the trial has ended: then the disk may have other settings."""
        wayback.confirm(self._system, self._disk)

    def changed(self) -> bool:
        """Return whether the disk has another scheduler than the one that this trial chose."""
        return self._disk.scheduler != self._scheduler[self._tries]


def measured(arms: Arms, meter: Meter, order: Sequence[bool], seconds: float) -> list[Block]:
    """Measure one block for each item of `order`; fewer if something else chose a scheduler."""
    found: list[Block] = []
    for number, tries in enumerate(order):
        left = 2 * seconds * (1 - number / len(order))
        _tell(f"{'with' if tries else 'without'} the settings on trial: {left:.0f} s to go")
        arms.choose(tries)
        time.sleep(_SETTLE_S)
        block = meter.block()
        # First check whether something ended the trial, as `--undo` does: this may also have
        # changed the scheduler.
        arms.confirm()
        if arms.changed():
            break
        found.append(block)
    return found


def _tell(text: str) -> None:
    """Show the progress, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="" if text else "\r", file=sys.stderr, flush=True)


def run(system: System, options: Options) -> int:
    """Try the settings, and say whether they helped."""
    disk = sysfs.find_scheduled(system, options.disk)
    if options.undo:
        return _undo(system, disk)
    if options.scheduler is None and not options.tunables:
        raise RequestError("say what to try: --scheduler NAME, --set TUNABLE=VALUE or both")
    tried = options.scheduler or disk.scheduler
    if not setby.available(system, disk, tried):
        raise RequestError(
            f"this kernel has no scheduler '{tried}', nor a module {tried}-iosched. "
            f"{disk.name} offers {', '.join(disk.schedulers)}"
        )
    order = drawn(pairs_in(options.seconds), random.SystemRandom())
    keeper_s = 2 * options.seconds + len(order) * _LATE_S
    with (
        _meter(system, disk, block_length(options.seconds)) as meter,
        wayback.kept(system, disk, tried, keeper_s) as left,
    ):
        blocks = measured(Arms(system, disk, options), meter, order, options.seconds)
    _tell("")
    if len(blocks) < len(order):
        stopped = "the trial was stopped"
        if disk.folder.exists():
            stopped = (
                f"something else chose another scheduler for {disk.name} meanwhile: "
                f"`triagectl status {disk.name}` says what may have"
            )
        raise CtlError("; ".join([stopped, *left]))
    verdicts = judged(order, blocks)
    answer = compare.summary(verdicts)
    if options.json:
        print(json.dumps(_json(disk, options, answer, verdicts, left) | asdict(meter.seen())))
    else:
        print(_text(disk, options, answer, verdicts, meter.seen()))
    if left:
        raise CtlError("not all is as before: " + "; ".join(left))
    return 0


def _undo(system: System, disk: Disk) -> int:
    found = wayback.pending(system, disk.name)
    if found is None:
        raise RequestError(f"nothing is being tried on {disk.name}")
    left = wayback.settle(system, disk)
    if left:
        raise CtlError("not all is as before: " + "; ".join(left))
    print(f"{disk.name} has {disk.scheduler} again, with the settings of before")
    return 0


@contextlib.contextmanager
def _meter(system: System, disk: Disk, block_s: float) -> Iterator[Meter]:
    """Yield a meter. If tracefs cannot be used, the meter measures no percentiles."""
    matcher = Matcher(top.parts([disk]), finished=lambda _: None)
    with contextlib.ExitStack() as stack:
        sampler = None
        try:
            top.refuse_hidden([disk])
            devices = top.devices([disk])
            made = tracefs.instance(system, top.EVENTS, devices, top.BUFFER_KIB)
            sampler = Sampler(stack.enter_context(made), matcher)
        except RequestError as error:
            print(f"triagectl: no percentiles: {error}", file=sys.stderr)
        yield Meter(disk, sampler, block_s)


def _apply(disk: Disk, options: Options) -> None:
    """Set the scheduler and tunables to try. Raises RequestError if the kernel refuses them."""
    # If the disk has this scheduler already, leave it, with its tunables as they are.
    if options.scheduler is not None and options.scheduler != disk.scheduler:
        wayback.choose(disk, options.scheduler)
    for name, value in options.tunables.items():
        if name in wayback.QUEUE:
            wayback.write(disk.folder / "queue" / name, value)
        elif name in disk.tunables:
            wayback.write(disk.folder / "queue/iosched" / name, value)
        else:
            known = ", ".join([*disk.tunables, *wayback.QUEUE])
            raise RequestError(f"{disk.scheduler} has no tunable '{name}'. There are: {known}")


def _named(options: Options) -> str:
    words = [options.scheduler or ""]
    return " ".join([*words, *(f"{n}={v}" for n, v in options.tunables.items())]).strip()


def judged(order: Sequence[bool], blocks: Sequence[Block]) -> list[compare.Verdict]:
    """Compare each figure. Leave out a pair if a block lacks the figure, or both values are 0."""
    pairs = []
    for at in range(0, len(order), 2):
        one, other = blocks[at].figures, blocks[at + 1].figures
        pairs.append((other, one) if order[at] else (one, other))
    names = dict.fromkeys(name for pair in pairs for figures in pair for name in figures)
    found = []
    for name in names:
        values = [
            (was[name], now[name])
            for was, now in pairs
            if name in was and name in now and (was[name] or now[name])
        ]
        was, now = [old for old, _ in values], [new for _, new in values]
        verdict = compare.compared(name, was, now, name in _MORE)
        if verdict is not None:
            found.append(verdict)
    return found


_SENTENCES = {
    "helped": "It helped: nothing was seen to get worse.",
    "harmed": "It harmed: nothing was seen to get better.",
    "mixed": "Mixed: some of it got better, some worse. The choice is yours.",
    "no difference": "No difference was seen.",
    "unknown": "Cannot tell: there was too little load for too much of the time.",
    "open": "Cannot tell: the load itself changed more than twofold. Try for longer.",
}


def _value(name: str, value: float) -> str:
    return screen.amount(value) if name in _MORE else screen.duration(round(value))


def _text(
    disk: Disk, options: Options, answer: str, verdicts: Sequence[compare.Verdict], seen: Seen
) -> str:
    rows = [
        (
            verdict.name,
            _value(verdict.name, verdict.before),
            _value(verdict.name, verdict.after),
            f"{verdict.ratio:.2f} x",
            f"[{verdict.low:.2f}, {verdict.high:.2f}]",
            verdict.answer,
        )
        for verdict in verdicts
    ]
    head = ("", "as before", "tried", "ratio", "99 % interval", "")
    lines = [f"{disk.name}: {_named(options)} for {options.seconds:.0f} s"]
    if rows:
        lines += ["", screen.table(head, rows)]
    lines += _left_out(seen)
    sentence = "open" if verdicts and answer == "unknown" else answer
    lines += ["", _SENTENCES[sentence], f"{disk.name} has {disk.scheduler} again."]
    return "\n".join(lines)


def _left_out(seen: Seen) -> list[str]:
    """Return the lines about requests that are in no P99, if they could change the P99."""
    told = []
    share = seen.ambiguous / max(1, seen.timed + seen.ambiguous)
    if share >= _LEFT_OUT_TOLD:
        told.append(
            f"{100 * share:.0f} % of the requests are in no P99: another request had the same "
            "sector at the same time."
        )
    if seen.lost_pages:
        told.append(
            f"Events were lost {seen.lost_pages} times. The requests that were waiting then are in "
            "no P99, so it may be too small."
        )
    return ["", *(screen.wrapped(sentence, 0) for sentence in told)] if told else []


def _json(
    disk: Disk,
    options: Options,
    answer: str,
    verdicts: Sequence[compare.Verdict],
    left: Sequence[str],
) -> dict[str, Any]:
    return {
        "disk": disk.name,
        "scheduler": options.scheduler,
        "tunables": dict(options.tunables),
        "seconds": options.seconds,
        "pairs": pairs_in(options.seconds),
        "answer": answer,
        "figures": [asdict(verdict) | {"answer": verdict.answer} for verdict in verdicts],
        "now": disk.scheduler,
        "not_put_back": list(left),
    }
