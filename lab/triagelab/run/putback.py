# SPDX-License-Identifier: GPL-2.0-only
"""Restore a disk's settings after an experiment on `host`, even if the lab was killed.

The lab records the settings before it changes anything. If it is killed, or cannot restore a
setting, the next experiment on `host` restores the settings from the record. The records of all
users are in one folder, /run/triage. A reboot deletes the records and undoes the changes.
"""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from triagelab.base import files, tools
from triagelab.run.disks import Disk

RECORDS = Path("/run/triage")

_WBT = "wbt_lat_usec"
_MODULES = Path("/sys/module")


@dataclass(frozen=True)
class Before:
    """A disk's settings before the experiment.

    boot       the id of the boot in which the settings were recorded
    sequence   the disk's `diskseq`: a disk that later gets the same name has another number
    settings   file in the queue folder -> value, for each writable file except `scheduler`
    modules    kernel modules that the lab has loaded since, or has tried to load
    """

    disk: str
    boot: str
    sequence: str
    scheduler: str
    settings: dict[str, str]
    modules: list[str]

    @property
    def record(self) -> Path:
        """Return the path of the record."""
        return _record(self.disk, self.sequence)


@contextlib.contextmanager
def noted(disk: Disk) -> Iterator[Before]:
    """Record the disk's settings, and yield the record.

    Hold the record's lock during the block, so that recover() leaves the disk alone. If an earlier
    experiment could not restore the disk, keep and yield its record.
    """
    RECORDS.mkdir(mode=0o700, parents=True, exist_ok=True)  # others must not take the locks
    record = _record(disk.name, disk.about("diskseq"))
    with files.locked(_lock(record)):
        before = _recorded(record) if record.exists() else _as_it_is(disk)
        _write_down(before)
        yield before


def note_module(before: Before, name: str) -> None:
    """Record that the lab will load kernel module `name`, unless it is loaded already."""
    if not (_MODULES / name).exists() and name not in before.modules:
        before.modules.append(name)
        _write_down(before)


def put_back(before: Before) -> None:
    """Restore the disk's scheduler and those of its settings that have changed."""
    queue = Disk(before.disk).queue
    if Disk(before.disk).scheduler != before.scheduler:
        _write(queue / "scheduler", before.scheduler)
    for name, value in before.settings.items():
        if name == _WBT and _read(queue / name) != value:
            _write(queue / name, "-1")  # -1: the kernel chooses the value, now and later
        if _read(queue / name) != value:
            _write(queue / name, value)
            if name == "nr_requests":  # twice: Linux 6.12 passes the scheduler the old number
                _write(queue / name, value)


def finish(before: Before) -> list[str]:
    """Restore the disk, and remove the modules that the lab loaded.

    Return a message for each failure. If there is none, delete the record.
    """
    is_there = _is_there(before)
    if is_there:
        put_back(before)
    left = [*_remove(before.modules), *(_different(before) if is_there else ())]
    if not left:
        before.record.unlink(missing_ok=True)
    return left


def recover() -> list[str]:
    """Restore the disks that earlier experiments left changed, and remove the modules they loaded.

    Return a message for each disk that was left changed since the last boot, and for each failure.
    """
    told: list[str] = []
    for path in sorted(RECORDS.glob("*.json")):
        with files.locked_if_free(_lock(path)) as ours:
            if ours and path.exists():  # if the lock is taken, that experiment still goes on
                told += _recovered(_recorded(path))
    return told


def _recovered(before: Before) -> Iterator[str]:
    if before.boot != _boot():
        before.record.unlink()  # the reboot has undone all changes
        return
    how = "it is put back as it was before" if _is_there(before) else "that disk is gone"
    yield f"a run has left {Disk(before.disk).path} changed; {how}"
    yield from finish(before)


def _as_it_is(disk: Disk) -> Before:
    return Before(
        disk.name, _boot(), disk.about("diskseq"), disk.scheduler, dict(_settings(disk)), []
    )


def _is_there(before: Before) -> bool:
    """Return whether the disk that now has the recorded name is the recorded disk."""
    return Disk(before.disk).about("diskseq") == before.sequence


def _settings(disk: Disk) -> Iterator[tuple[str, str]]:
    """Yield file and value of each setting that can be read and written, except the scheduler.

    The scheduler's tunables come last, because a change of another setting may change them.
    """
    for path in [*sorted(disk.queue.glob("*")), *sorted(disk.queue.glob("iosched/*"))]:
        if path.is_file() and path.name != "scheduler" and path.stat().st_mode & 0o200:
            value = _read(path)
            if value is not None:
                yield str(path.relative_to(disk.queue)), value


def _different(before: Before) -> Iterator[str]:
    """Yield a message for each setting that differs from the record."""
    disk = Disk(before.disk)
    now = {"scheduler": disk.scheduler} | dict(_settings(disk))
    for name, value in {"scheduler": before.scheduler, **before.settings}.items():
        if now.get(name) != value:
            yield f"{disk.queue / name} is {now.get(name)} and could not be set to {value} again"


def _remove(modules: list[str]) -> Iterator[str]:
    for name in reversed(modules):
        if (_MODULES / name).exists():
            command = [tools.path(tools.RMMOD), name]
            # Ctrl-C on the terminal must not end rmmod, so rmmod has a session of its own.
            done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
            if done.returncode:
                yield f"the module {name} stays loaded: {done.stderr.strip()}"


def _write_down(before: Before) -> None:
    files.write_json(before.record, asdict(before))


def _recorded(record: Path) -> Before:
    return Before(**json.loads(record.read_text()))


def _record(disk: str, sequence: str) -> Path:
    """Return the path of the record of the disk with this name and sequence."""
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
    """Write a setting. Ignore errors, because _different() finds settings with a wrong value."""
    try:
        path.write_text(value)
    except OSError:
        return
