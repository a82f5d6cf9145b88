# SPDX-License-Identifier: GPL-2.0-only
"""`triagectl try`: try settings for some minutes, and measure before, meanwhile and after."""

import contextlib
import json
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
#: The most blocks for each phase of a trial: enough to compare, and few enough to be long.
_BLOCKS = 12
#: The shortest block, in s: a shorter one would have no P99.
_BLOCK_LEAST_S = 1.0

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
    """The figures of some seconds."""

    figures: dict[str, float] = field(default_factory=dict)


@dataclass
class _Latencies:
    """Times of the requests of one block. They are forgotten once its percentiles are known."""

    read: Sample = field(default_factory=Sample)
    write: Sample = field(default_factory=Sample)

    def finished(self, request: Request) -> None:
        """Count a request that is done."""
        took = max(0, request.completed - request.queued)
        (self.write if request.write else self.read).add(took)


class Meter:
    """Measures a disk in blocks of time. Counts are exact, percentiles are of sampled requests.

    All blocks have the same length, because a P99 varies less in a longer one.
    """

    def __init__(self, disk: Disk, sampler: Sampler | None, block_s: float) -> None:
        self._disk = disk
        self._sampler = sampler
        self._block_s = block_s

    def block(self) -> Block:
        """Measure for the length of a block."""
        found = _Latencies()
        before, begin = counters.of(self._disk), time.monotonic()
        if self._sampler is not None:
            self._sampler.matcher.finished = found.finished
            self._sampler.run(begin + self._block_s)
        else:
            time.sleep(self._block_s)
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

    def blocks(self, seconds: float, what: str) -> list[Block]:
        """Measure for some seconds in blocks. Show `what` with the progress."""
        found = []
        for left in range(round(seconds / self._block_s), 0, -1):
            _tell(f"{what}: {left * self._block_s:.0f} s to go")
            found.append(self.block())
        return found


def block_length(seconds: float) -> float:
    """Return the length of a trial's blocks. Half of the trial's time is a whole number of them."""
    pairs = int(min(_BLOCKS, max(compare.BLOCKS, seconds / _BLOCK_LEAST_S)) / 2)
    return seconds / (2 * pairs)


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
    with _meter(system, disk, block_length(options.seconds)) as meter:
        # Half the trial's time before, and half of it after: as many blocks as are tried.
        around = options.seconds / 2
        keeper_s = around + options.seconds + _SETTLE_S
        with wayback.kept(system, disk, tried, keeper_s) as left:
            before = meter.blocks(around, "before")
            _apply(disk, options)
            time.sleep(_SETTLE_S)
            during = meter.blocks(options.seconds, f"with {_named(options)}")
            changed = disk.scheduler != tried
        time.sleep(_SETTLE_S)
        after = meter.blocks(around, "put back")
    _tell("")
    verdicts = _verdicts([*before, *after], during)
    idle = any(not block.figures["requests/s"] for block in [*before, *during, *after])
    answer = "unknown" if changed or idle else compare.summary(verdicts)
    if options.json:
        print(json.dumps(_json(disk, options, answer, verdicts, left)))
    else:
        print(_text(disk, options, answer, verdicts))
    if changed:
        raise CtlError(
            f"something else chose another scheduler for {disk.name} meanwhile: "
            f"`triagectl status {disk.name}` says what may have"
        )
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
    """Return a meter. If tracefs cannot be used, it measures no percentiles."""
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


def _verdicts(before: Sequence[Block], after: Sequence[Block]) -> list[compare.Verdict]:
    names = dict.fromkeys(name for block in [*before, *after] for name in block.figures)
    found = []
    for name in names:
        was = [block.figures[name] for block in before if name in block.figures]
        now = [block.figures[name] for block in after if name in block.figures]
        verdict = compare.compared(name, was, now, name in _MORE)
        if verdict is not None:
            found.append(verdict)
    return found


_SENTENCES = {
    "helped": "It helped: nothing that was measured got worse.",
    "harmed": "It harmed: nothing that was measured got better.",
    "mixed": "Mixed: some of it got better, some worse. The choice is yours.",
    "no difference": "No difference was seen.",
    "unknown": "There was too little load to judge, or none for a part of the time.",
}


def _value(name: str, value: float) -> str:
    return screen.amount(value) if name in _MORE else screen.duration(round(value))


def _text(disk: Disk, options: Options, answer: str, verdicts: Sequence[compare.Verdict]) -> str:
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
    head = ("", "before, after", "tried", "ratio", "99 % interval", "")
    lines = [f"{disk.name}: {_named(options)} for {options.seconds:.0f} s"]
    if rows:
        lines += ["", screen.table(head, rows)]
    lines += ["", _SENTENCES[answer], f"{disk.name} has {disk.scheduler} again."]
    return "\n".join(lines)


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
        "answer": answer,
        "figures": [asdict(verdict) | {"answer": verdict.answer} for verdict in verdicts],
        "now": disk.scheduler,
        "not_put_back": list(left),
    }
