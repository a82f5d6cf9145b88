# SPDX-License-Identifier: GPL-2.0-only
"""Putting a disk back as it was, whatever has ended the run.

How it was is written down before anything is changed. Who is killed cannot put anything
back, so the next run does, from that record; and tries again where that failed. It is
where every run on this computer finds it, whatever its cache folder, and goes with the
kernel that it is about.
"""

import contextlib
import fcntl
import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from triagelab import cache, tools
from triagelab.disks import Disk
from triagelab.execute import write_json

RECORDS = Path("/run/triage")

_WBT = "wbt_lat_usec"
_MODULES = Path("/sys/module")


@dataclass(frozen=True)
class Before:
    """How a disk was.

    boot       since when its settings have a meaning
    sequence   the kernel's number of this disk; another that gets its name has another
    settings   file in its queue folder -> value, of all that can be written
    modules    the kernel modules that were loaded since, by us
    """

    disk: str
    boot: str
    sequence: str
    scheduler: str
    settings: dict[str, str]
    modules: list[str]

    @property
    def record(self) -> Path:
        """Where it is written down."""
        return _record(self.disk, self.sequence)


@contextlib.contextmanager
def noted(disk: Disk) -> Iterator[Before]:
    """How the disk is, written down; and locked, so that it is known that we live.

    What could not be put back is not how it is: it is as a run before found it.
    """
    RECORDS.mkdir(mode=0o700, parents=True, exist_ok=True)  # who can open a lock can hold it
    record = _record(disk.name, disk.about("diskseq"))
    with cache.locked(_lock(record)):
        before = _recorded(record) if record.exists() else _as_it_is(disk)
        _write_down(before)
        yield before


def note_module(before: Before, name: str) -> None:
    """Write down that the kernel module `name` is about to be loaded, unless it is already."""
    if not (_MODULES / name).exists() and name not in before.modules:
        before.modules.append(name)
        _write_down(before)


def put_back(before: Before) -> None:
    """Give the disk its scheduler and settings back; what is as it was is not touched."""
    queue = Disk(before.disk).queue
    if Disk(before.disk).scheduler != before.scheduler:
        _write(queue / "scheduler", before.scheduler)
    for name, value in before.settings.items():
        if name == _WBT and _read(queue / name) != value:
            _write(queue / name, "-1")  # the kernel's own choice, which it may change by itself
        if _read(queue / name) != value:
            _write(queue / name, value)
            if name == "nr_requests":  # twice: 6.12 tells the scheduler of the number before
                _write(queue / name, value)


def finish(before: Before) -> list[str]:
    """Put everything back; returns what could not be put back. If nothing, forget the record."""
    is_there = _is_there(before)
    if is_there:
        put_back(before)
    left = [*_remove(before.modules), *(_different(before) if is_there else ())]
    if not left:
        before.record.unlink(missing_ok=True)
    return left


def recover() -> list[str]:
    """Put back what earlier runs have left; returns a sentence on each, and what is left yet."""
    told: list[str] = []
    for path in sorted(RECORDS.glob("*.json")):
        with _lock(path).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # that run goes on
            if path.exists():
                told += _recovered(_recorded(path))
    return told


def _recovered(before: Before) -> Iterator[str]:
    if before.boot != _boot():
        before.record.unlink()  # nothing of it has outlived the kernel
        return
    how = "it is put back as it was before" if _is_there(before) else "that disk is gone"
    yield f"a run has left {Disk(before.disk).path} changed; {how}"
    yield from finish(before)


def _as_it_is(disk: Disk) -> Before:
    return Before(
        disk.name, _boot(), disk.about("diskseq"), disk.scheduler, dict(_settings(disk)), []
    )


def _is_there(before: Before) -> bool:
    """Whether it is still that disk."""
    return Disk(before.disk).about("diskseq") == before.sequence


def _settings(disk: Disk) -> Iterator[tuple[str, str]]:
    """What can be written and read, the scheduler's own last: others change those."""
    for path in [*sorted(disk.queue.glob("*")), *sorted(disk.queue.glob("iosched/*"))]:
        if path.is_file() and path.name != "scheduler" and path.stat().st_mode & 0o200:
            value = _read(path)
            if value is not None:
                yield str(path.relative_to(disk.queue)), value


def _different(before: Before) -> Iterator[str]:
    """What is not as it was."""
    disk = Disk(before.disk)
    now = {"scheduler": disk.scheduler} | dict(_settings(disk))
    for name, value in {"scheduler": before.scheduler, **before.settings}.items():
        if now.get(name) != value:
            yield f"{disk.queue / name} is {now.get(name)} and could not be set to {value} again"


def _remove(modules: list[str]) -> Iterator[str]:
    for name in reversed(modules):
        if (_MODULES / name).exists():
            command = [tools.path(tools.RMMOD), name]
            # In a session of its own: a terminal's Ctrl-C, which waits for us, would end it.
            done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
            if done.returncode:
                yield f"the module {name} stays loaded: {done.stderr.strip()}"


def _write_down(before: Before) -> None:
    write_json(before.record, asdict(before))


def _recorded(record: Path) -> Before:
    return Before(**json.loads(record.read_text()))


def _record(disk: str, sequence: str) -> Path:
    """A disk that is gone may have left modules, and is not that which has its name now."""
    return RECORDS / f"{disk}-{sequence}.json"


def _lock(record: Path) -> Path:
    return record.with_suffix(".lock")


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _write(path: Path, value: str) -> None:
    """Write a setting; what refuses it is found in `_different`."""
    try:
        path.write_text(value)
    except OSError:
        return
