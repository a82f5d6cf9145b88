# SPDX-License-Identifier: GPL-2.0-only
"""Putting a disk back as it was, whatever has ended the run.

How it was is written down in the cache folder before anything is changed. Who is
killed cannot put anything back, so the next run does, from that record.
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
        return _records() / f"{self.disk}.json"


@contextlib.contextmanager
def noted(disk: Disk) -> Iterator[Before]:
    """How the disk is, written down; and locked, so that it is known that we live."""
    before = Before(
        disk.name, _boot(), disk.about("diskseq"), disk.scheduler, dict(_settings(disk)), []
    )
    with cache.locked(_lock(disk.name)):
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
    """Put everything back and forget the record; returns what could not be put back."""
    put_back(before)
    left = [*_remove(before.modules), *_different(before)]
    before.record.unlink(missing_ok=True)
    return left


def recover() -> list[str]:
    """Put back what runs that were killed have left; returns a sentence on each."""
    told: list[str] = []
    for path in sorted(_records().glob("*.json")):
        with _lock(path.stem).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # that run goes on
            if path.exists():
                told += _recovered(Before(**json.loads(path.read_text())))
    return told


def _recovered(before: Before) -> Iterator[str]:
    disk = Disk(before.disk)
    if before.boot != _boot():
        before.record.unlink()  # nothing of it has outlived the kernel
    elif disk.about("diskseq") != before.sequence:
        yield f"a run on {disk.path} was killed, and that disk is gone"
        yield from _remove(before.modules)
        before.record.unlink()
    else:
        yield f"a run on {disk.path} was killed; it is put back as it was before"
        yield from finish(before)


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
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                yield f"the module {name} stays loaded: {done.stderr.strip()}"


def _write_down(before: Before) -> None:
    before.record.parent.mkdir(parents=True, exist_ok=True)
    write_json(before.record, asdict(before))


def _records() -> Path:
    return cache.root() / "host"


def _lock(disk: str) -> Path:
    return _records() / f"{disk}.lock"


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
