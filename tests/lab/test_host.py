# SPDX-License-Identifier: GPL-2.0-only
"""Tests of runs on a disk of this computer: a disk in use is refused, and changes are undone.

The tests use loop devices, because root can make these without a spare disk.
"""

import asyncio
import contextlib
import glob
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from triagelab.base import files
from triagelab.base.errors import LabError, RequestError
from triagelab.commands import places
from triagelab.plan.machine import FIO_STARTS, Job
from triagelab.run import disks, host, putback

ROOT = Path(__file__).resolve().parents[2]
SECTORS = 64 << 11

pytestmark = pytest.mark.slow
TUNED = {"nr_requests": "70", "nomerges": "1", "rq_affinity": "2", "wbt_lat_usec": "12345"}


def losetup(*words: object) -> str:
    command = ["losetup", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


#: A program like ./triage, but its first argument is the folder for records of changed disks.
LAUNCHER = """
import pathlib, sys
from triagelab import cli
from triagelab.run import putback
putback.RECORDS = pathlib.Path(sys.argv.pop(1))
sys.exit(cli.main())
"""


@pytest.fixture(autouse=True)
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Redirect the records of changed disks to a folder of the test; return this folder."""
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(putback, "RECORDS", tmp_path / "records")
    return tmp_path / "records"


def locked(path: Path) -> contextlib.AbstractContextManager[None]:
    return files.exclusive(path, "", waiting=lambda: None)


@pytest.fixture(autouse=True)
def nobody_else_measures() -> Iterator[None]:
    """Wait for other runs of these tests, and for real-time measurements on this computer."""
    with locked(Path("/tmp/triage-test-host.lock")):
        with locked(places.REAL_TIME_LOCK):
            pass
        yield


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Path]:
    """Yield a file for a loop device; assert in the end that no loop device uses the file."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a loop device")
    if not Path("/dev/loop-control").exists():
        pytest.skip("this computer has no loop devices: /dev/loop-control is missing")
    path = tmp_path / "disk.img"
    path.touch()
    os.truncate(path, SECTORS * 512)
    yield path
    assert losetup("-j", path) == "", "a loop device was left"


@pytest.fixture
def node(image: Path) -> Iterator[str]:
    """Yield the path of a loop device with a partition; restore its settings in the end."""
    try:
        node = losetup("--find", "--show", "--partscan", image)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop device can be made here: {error.stderr}")
    subprocess.run(["addpart", node, "1", "2048", str(SECTORS - 2048)], check=True)
    found = disks.find(node)
    before = {name: found.about(f"queue/{name}") for name in TUNED}
    scheduler = found.scheduler
    yield node
    # A loop device keeps its settings after its file is gone.
    set_all(found, {"scheduler": scheduler, **before})
    losetup("-d", node)


@pytest.fixture
def disk(node: str, image: Path) -> Iterator[disks.Disk]:
    """Yield a disk, and assert in the end that its content has not changed."""
    before = content(image)
    yield disks.find(node)
    assert content(image) == before, "something was written"


def content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def state(disk: disks.Disk) -> dict[str, str]:
    """Return the readable settings of a disk's queue and scheduler: name in sysfs -> value."""
    found = {}
    for path in [*disk.queue.glob("*"), *disk.queue.glob("iosched/*")]:
        if path.is_file() and (value := disk.about(str(path.relative_to(disk.folder)))):
            found[str(path.relative_to(disk.queue))] = value
    return found


def refused(disk: disks.Disk, may_write: bool = False) -> str:
    """Return the message with which the lab refuses a disk; assert that its state is unchanged."""
    before = state(disk)
    with pytest.raises(RequestError) as error, host.held(disk, may_write):
        pass
    assert state(disk) == before
    assert error.value.exit_status == 2
    return str(error.value)


# ---- finding a disk, and refusing a disk in use -----------------------------------


def test_what_is_no_disk() -> None:
    with pytest.raises(RequestError, match=r"/dev/no: No such file.*whole disks here"):
        disks.find("/dev/no")
    with pytest.raises(RequestError, match="is not a block device"):
        disks.find("/dev/null")


def test_a_partition_names_its_disk(disk: disks.Disk) -> None:
    with pytest.raises(RequestError, match=f"is a partition.*{disk.path}"):
        disks.find(f"{disk.path}p1")


def test_a_disk_that_somebody_has_for_himself(disk: disks.Disk) -> None:
    descriptor = os.open(disk.path, os.O_RDONLY | os.O_EXCL)
    try:
        assert "is in use" in refused(disk)
    finally:
        os.close(descriptor)


def test_a_disk_that_a_program_writes_to(disk: disks.Disk) -> None:
    """The disk is refused even if the program, like QEMU, has not opened it exclusively."""
    with subprocess.Popen(["sleep", "60"], stdin=disk.path.open("r+b")) as program:
        said = refused(disk)
        program.kill()
    assert f"sleep (process {program.pid}) has {disk.name} open for writing" in said


def test_a_partition_somebody_has(disk: disks.Disk) -> None:
    descriptor = os.open(f"{disk.path}p1", os.O_RDONLY | os.O_EXCL)
    try:
        assert "is in use" in refused(disk)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("part", ["", "p1"], ids=["disk", "partition"])
def test_a_mounted_disk(node: str, image: Path, part: str, tmp_path: Path) -> None:
    where = tmp_path / "mounted"
    where.mkdir()
    subprocess.run(["mkfs.ext4", "-qF", node + part], check=True)
    subprocess.run(["mount", "-o", "ro", node + part, where], check=True)
    try:
        before = content(image)
        said = refused(disks.find(node))
        assert f"{Path(node + part).name} is mounted on {where}" in said
        assert content(image) == before
    finally:
        subprocess.run(["umount", where], check=True)


def test_a_disk_below_another(disk: disks.Disk) -> None:
    above = losetup("--find", "--show", "--read-only", f"{disk.path}p1")
    try:
        assert f"{disk.name}p1 is what {Path(above).name} is on" in refused(disk)
    finally:
        losetup("-d", above)


def test_a_disk_that_cannot_be_written_to(image: Path) -> None:
    node = losetup("--find", "--show", "--read-only", image)
    try:
        assert "leave out --allow-write" in refused(disks.find(node), may_write=True)
    finally:
        losetup("-d", node)


def test_who_has_the_disk_is_alone_with_it(disk: disks.Disk, records: Path) -> None:
    with host.held(disk, may_write=False):
        assert "is in use" in refused(disk)
        assert records.stat().st_mode & 0o77 == 0, (
            "other users can open the lock file, and so hold the lock"
        )


def test_reads_alone_cannot_write(disk: disks.Disk, tmp_path: Path) -> None:
    """fio refuses a job that writes, even if the lab has not refused it."""
    job = Job(
        {
            "run": f"sampler {disk.name} out fio job.fio > out/fio.log 2>&1\n",
            "job.fio": f"[writes]\nrw=write\nbs=4k\nsize=1m\nfilename={disk.path}\n",
        }
    )
    with host.held(disk, may_write=False) as held:
        outcome = asyncio.run(held.machine.run(job, tmp_path / "run"))
    assert outcome.status != 0
    assert "fio is in read-only mode" in (tmp_path / "run/out/fio.log").read_text()


def test_a_line_that_is_longer_than_any_buffer_is_written_down(
    disk: disks.Disk, tmp_path: Path
) -> None:
    long = 300_000
    script = f"head -c {long} /dev/zero | tr '\\0' x; echo; echo '{FIO_STARTS}'\n"
    with host.held(disk, may_write=False) as held:
        outcome = asyncio.run(held.machine.run(Job({"run": script}), tmp_path / "run"))
    assert outcome.status == 0
    assert outcome.fio_started_s is not None
    assert len((tmp_path / "run/console.log").read_text().splitlines()[0]) == long


def test_a_run_that_is_cancelled_ends_with_all_its_programs(
    disk: disks.Disk, tmp_path: Path
) -> None:
    """Programs that have left the run's process group end too."""
    job = Job({"run": f"setsid sleep 61 < {disk.path} &\nsleep 62\n"})

    async def cancelled(machine: host.Host) -> None:
        running = asyncio.create_task(machine.run(job, tmp_path / "run"))
        while "sleep" not in programs_on(disk):
            await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not programs_on(disk)

    with host.held(disk, may_write=False) as held:
        asyncio.run(cancelled(held.machine))


def test_what_the_kernel_says_meanwhile_is_kept(disk: disks.Disk, tmp_path: Path) -> None:
    job = Job({"run": f"echo said of {disk.name} > /dev/kmsg\n"})
    with host.held(disk, may_write=False) as held:
        outcome = asyncio.run(held.machine.run(job, tmp_path / "run"))
    assert outcome.status == 0
    (line,) = (outcome.folder / "dmesg.log").read_text().splitlines()
    assert line.endswith(f";said of {disk.name}")


def test_what_the_kernel_no_longer_has_is_not_the_end_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("the kernel's log cannot be read here")
    said = [b"6,1,1,-;first\n", BrokenPipeError, b"6,9,9,-;last\n", BlockingIOError]
    with monkeypatch.context() as patch, host._kernel_log(tmp_path / "log"):
        patch.setattr(os, "read", Mock(side_effect=said))
    first, lost, last = (tmp_path / "log").read_text().splitlines()
    assert (first, last) == ("6,1,1,-;first", "6,9,9,-;last")
    assert "lost" in lost


# ---- the command ------------------------------------------------------------------


def programs_on(disk: disks.Disk) -> list[str]:
    """Return the names of the programs, other than this test, that have the disk open."""
    found = []
    for name in glob.glob("/proc/[0-9]*/fd/*"):  # noqa: PTH207 - Path.glob fails if a file vanishes
        link = Path(name)
        with contextlib.suppress(OSError):
            if link.readlink() == disk.path and link.parts[2] != str(os.getpid()):
                found.append((link.parent.parent / "comm").read_text().strip())
    return found


def reads(seconds: int = 1) -> str:
    return (
        "[reads]\nioengine=libaio\niodepth=4\ndirect=1\nrw=randread\n"
        f"time_based=1\nruntime={seconds}\n"
    )


def words(disk: disks.Disk, tmp_path: Path, job: str, *more: object) -> list[str]:
    (tmp_path / "job.fio").write_text(job)
    given = ["run", tmp_path / "job.fio", "--machine", "host", "--device", disk.path]
    out = ["--repeats", "1", "--out", tmp_path / "out"]
    launch = [sys.executable, "-c", LAUNCHER, putback.RECORDS]
    return [*map(str, (*launch, *given, *out, *more))]


def triage(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "lab")}
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def other_than(disk: disks.Disk, *others: str) -> str:
    """Return a scheduler that the disk can have, other than `none` and those given."""
    for name in disk.schedulers:
        if name not in ("none", *others):
            return name
    pytest.skip(f"this kernel has no other scheduler than {', '.join(others)}")


@pytest.mark.parametrize(
    ("more", "job", "message"),
    [
        ([], "[w]\nrw=randwrite\n", "w would write to"),
        ([], "[t]\nrw=trim\n", "Add --allow-write"),
        ([], "[v]\nrw=read\nverify=crc32c\n", "Add --allow-write"),
        ([], "[r]\nrw=read\nfilename=/dev/vda\n", "'filename=/dev/vda' cannot be used"),
        (["--schedulers", "nome"], "[r]\nrw=read\n", "did you mean 'none'"),
        (["--set", "model.dies=3"], "[r]\nrw=read\n", "the lab cannot change"),
        (["--cpus", "2"], "[r]\nrw=read\n", "the lab cannot change"),
        (["--kernel", "6.1"], "[r]\nrw=read\n", "which is up"),
    ],
    ids=lambda value: value.replace("\n", " ") if isinstance(value, str) else " ".join(value),
)
def test_a_request_that_makes_no_sense(
    disk: disks.Disk, tmp_path: Path, records: Path, more: list[str], job: str, message: str
) -> None:
    before = state(disk)
    done = triage(words(disk, tmp_path, job, *more))
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert state(disk) == before
    assert not (tmp_path / "out").exists()
    assert not list(records.glob("*.json"))


def test_a_scheduler_that_cannot_be_had_is_an_error_for_who_names_it(
    disk: disks.Disk, tmp_path: Path
) -> None:
    if Path("/proc/modules").exists():
        pytest.skip("this kernel may load it")
    done = triage(words(disk, tmp_path, reads(), "--schedulers", "none,triage"))
    assert done.returncode == 2
    assert "cannot have the scheduler triage: the kernel" in done.stderr


def set_all(disk: disks.Disk, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if value and (disk.queue / name).exists():
            (disk.queue / name).write_text(value)


def tune(disk: disks.Disk) -> dict[str, str]:
    """Give a disk settings that differ from every default; return its state."""
    own = {"iosched/read_expire": "123", "iosched/fifo_batch": "3"}
    set_all(disk, {"scheduler": "mq-deadline", **TUNED, **own})
    assert disk.scheduler == "mq-deadline"
    return state(disk)


def test_a_run_measures_with_the_kernels_settings_and_puts_the_owners_back(
    disk: disks.Disk, tmp_path: Path, records: Path
) -> None:
    before = tune(disk)
    other = other_than(disk, "mq-deadline")
    chosen = f"mq-deadline,{other}"
    done = triage(words(disk, tmp_path, reads(), "--schedulers", chosen))
    assert done.returncode == 0, done.stderr
    assert state(disk) == before
    assert not list(records.glob("*.json"))
    assert not programs_on(disk)

    for name in chosen.split(","):
        (folder,) = (tmp_path / "out/runs").glob(f"{name}-r0-*")
        lines = (folder / "out/queue").read_text().splitlines()
        queue = dict(line.split("=", 1) for line in lines if "=" in line)
        assert f"[{name}]" in queue["scheduler"]
        assert queue.get("wbt_lat_usec", "0") == "0"
        assert queue.get("iosched/read_expire") in (None, "500")
    environment: Any = json.loads((tmp_path / "out/environment.json").read_text())
    about = environment["device"]["settings"]
    assert about["scheduler_before"] == "mq-deadline"
    assert (about["size_bytes"], about["nr_requests_before"]) == (str(SECTORS * 512), "70")
    summary: Any = json.loads((tmp_path / "out/summary.json").read_text())
    metrics = {row["metric"] for row in summary["rows"]}
    assert {"iops", "p99_us"} <= metrics
    assert "instructions_per_io" not in metrics


def test_what_may_be_written_is(node: str, image: Path, tmp_path: Path) -> None:
    job = "[w]\nrw=write\nbs=64k\nsize=1m\noffset=1m\n"
    more = ["--schedulers", "none", "--allow-write"]
    done = triage(words(disks.find(node), tmp_path, job, *more))
    assert done.returncode == 0, done.stderr
    subprocess.run(["blockdev", "--flushbufs", node], check=True)
    data = image.read_bytes()
    assert any(data[1 << 20 : 2 << 20])
    assert not any(data[2 << 20 :])


def until(happens: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_that_is_ended(
    disk: disks.Disk,
    tmp_path: Path,
    records: Path,
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = tune(disk)
    command = words(disk, tmp_path, reads(200), "--schedulers")
    command.append(other_than(disk, "mq-deadline"))
    # Pytest may run with signals ignored; give them their default action, as on a terminal.
    with subprocess.Popen(
        ["env", "--default-signal", *command],
        env=os.environ | {"PYTHONPATH": str(ROOT / "lab")},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        until(lambda: "fio" in programs_on(disk) or running.poll() is not None)
        running.send_signal(number)
        _, errors = running.communicate(timeout=60)
    if number == signal.SIGKILL:
        assert running.returncode == -signal.SIGKILL
        until(lambda: not programs_on(disk))
        assert state(disk) != before
        (record,) = records.glob("*.json")
        # The next run restores the disk, even with another cache folder and a refused request.
        monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "another"))
        next_run = triage([*command[:-1], "nome"])
        assert f"a run has left {disk.path} changed; it is put back" in next_run.stderr
        assert not record.exists()
    else:
        assert running.returncode == 130, errors
        assert re.search("interrupted; finished runs are kept.*--resume", errors, re.S)
    assert not programs_on(disk)
    assert state(disk) == before
    assert not list(records.glob("*.json"))


def test_a_run_that_goes_on_is_left_alone(disk: disks.Disk, tmp_path: Path) -> None:
    tune(disk)
    with host.held(disk, may_write=False):
        (disk.queue / "scheduler").write_text("none")
        assert triage(words(disk, tmp_path, reads())).returncode == 2
        assert disk.scheduler == "none"
    assert disk.scheduler == "mq-deadline"


def test_who_interrupts_again_waits_for_the_disk_to_be_put_back(
    disk: disks.Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGINT does not stop put_back(), whichever thread of the process takes the signal."""
    before = tune(disk)
    put_back = putback.put_back

    def interrupted(how: putback.Before) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        put_back(how)

    monkeypatch.setattr(putback, "put_back", interrupted)
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    # Pytest may run with SIGINT ignored; let it raise KeyboardInterrupt, as on a terminal.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), host.held(disk, may_write=False):
            (disk.queue / "scheduler").write_text("none")
    finally:
        signal.signal(signal.SIGINT, handler)
        over.set()
        thread.join()
    assert state(disk) == before


@pytest.fixture
def module(disk: disks.Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a folder that stands for a loaded module, as in /sys/module.

    The test makes the folder when it "loads" the module. A script in place of rmmod removes the
    folder, or fails if the test has made the file `busy`.
    """
    modules = tmp_path / "modules"
    monkeypatch.setattr(putback, "_MODULES", modules)
    rmmod = tmp_path / "bin/rmmod"
    rmmod.parent.mkdir()
    rmmod.write_text(
        f'#!/bin/sh\ncut -d" " -f5 /proc/self/stat > {tmp_path}/group\n'
        f'test ! -e {tmp_path}/busy || {{ echo "it is in use" >&2; exit 1; }}\n'
        f"rmdir {modules}/$1\n"
    )
    rmmod.chmod(0o755)
    monkeypatch.setenv("PATH", f"{rmmod.parent}:{os.environ['PATH']}")
    return modules / "some_iosched"


def test_no_terminal_ends_what_unloads_a_module(
    disk: disks.Disk, module: Path, tmp_path: Path
) -> None:
    with host.held(disk, may_write=False) as held:
        putback.note_module(held.machine.before, module.name)
        module.mkdir(parents=True)
    assert not module.exists()
    assert int((tmp_path / "group").read_text()) != os.getpgrp()


def test_what_could_not_be_put_back_is_tried_again(
    disk: disks.Disk, module: Path, tmp_path: Path, records: Path
) -> None:
    """Later runs try to restore the disk, and never take its changed state for the user's."""
    (tmp_path / "busy").touch()
    left = f"the module {module.name} stays loaded: it is in use"
    with pytest.raises(LabError, match=left), host.held(disk, may_write=False) as held:
        putback.note_module(held.machine.before, module.name)
        module.mkdir(parents=True)
    assert left in putback.recover()
    with pytest.raises(LabError, match=left), host.held(disk, may_write=False) as held:
        assert held.machine.before.modules == [module.name]
    (tmp_path / "busy").unlink()
    (told,) = putback.recover()
    assert told.startswith(f"a run has left {disk.path} changed")
    assert not module.exists()
    assert not list(records.glob("*.json"))


def test_a_record_of_another_time_or_disk_changes_nothing(
    disk: disks.Disk, tmp_path: Path, records: Path
) -> None:
    before = tune(disk)
    record: dict[str, Any] = {
        "disk": disk.name,
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "sequence": disk.about("diskseq"),
        "scheduler": "none",
        "settings": {"nr_requests": "33"},
        "modules": [],
    }
    records.mkdir()
    for change, message in {"boot": "", "sequence": "is gone"}.items():
        how = record | {change: "another"}
        putback.Before(**how).record.write_text(json.dumps(how))
        done = triage(words(disk, tmp_path, reads(), "--schedulers", "nome"))
        assert message in done.stderr
        assert state(disk) == before
        assert not list(records.glob("*.json"))
