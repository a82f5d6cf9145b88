# SPDX-License-Identifier: GPL-2.0-only
"""Test the file that `triagectl doctor` writes for a bug report: it has no private data."""

import json
import os
from pathlib import Path

import pytest

from tests.triagectl.machine import Machine
from triagectl import debugfs, doctor, kernellog, private
from triagectl.errors import RequestError

SECRETS = {
    "proc/sys/kernel/hostname": "db7.example.org",
    "sys/block/sda/device/serial": "WD-WX11A2233445",
    "sys/block/sda/device/wwid": "naa.50014ee2b5f3a4c1",
    "sys/block/dm-0/dm/name": "vault--acme-payroll",
    "etc/machine-id": "0123456789abcdef0123456789abcdef",
    "home/alice/x": "",
}
LOG = [
    "6,1,10,-;Command line: root=UUID=11111111-2222-3333-4444-555555555555 nvme.x key=hunter2",
    "6,2,2000000,-;io scheduler triage registered",
    "3,3,3500000,-;I/O error, dev sda, sector 8 on db7.example.org serial WD-WX11A2233445",
    "4,4,4000000,-;EXT4-fs (vault--acme-payroll): mounted",
    "3,5,5000000,-;nvme nvme0: eui.0025385b71b00001 at 10.1.2.3 fe80:0:0:0:1:2:3:4 reset",
    "3,6,6000000,-;WARNING: scsi of bob@example.com at 52:54:00:12:34:56 /home/bob/x /mnt/acme",
]
PRIVATE = (
    "db7", "example", "WD-WX", "50014ee2", "payroll", "0123456789abcdef", "alice", "bob",
    "hunter2", "11111111-2222", "0025385b71b00001", "10.1.2.3", "fe80", "52:54:00", "acme",
    "secret-argument",
)  # fmt: skip


@pytest.fixture
def planted(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine whose files are full of secrets."""
    machine.disk(fifo_batch=16)
    machine.stacked("dm-0", "LVM-Acme0123", "sda")
    for name, text in SECRETS.items():
        machine.file(name, text)
    machine.file("proc/self/mounts", "/dev/sda1 /mnt/acme ext4 rw 0 0\n")
    machine.file("proc/7/cmdline", "psql\0secret-argument\0")
    machine.file("proc/7/task/7/comm", "psql")
    machine.file("proc/cmdline", "root=/dev/mapper/vault--acme-payroll elevator=none key=hunter2")
    machine.file("etc/os-release", 'PRETTY_NAME="Debian 12"\n')
    monkeypatch.setattr(kernellog, "lines", lambda _: kernellog.wanted(LOG))
    return machine


@pytest.mark.parametrize("as_json", [False, True])
def test_private_things_are_left_out_and_all_else_is_there(
    as_json: bool, planted: Machine, tmp_path: Path
) -> None:
    path = tmp_path / "report"
    assert doctor.run(planted.system, doctor.Options(path, as_json)) == 0
    text = path.read_text()
    if as_json:
        json.loads(text)
    assert [word for word in PRIVATE if word in text] == []
    for word in (
        "Debian 12",
        "elevator=none (2 other words left out)",
        "MODEL 1",
        "fifo_batch",
        "mq-deadline",
        "io scheduler triage registered",
        "I/O error, dev sda, sector 8",
        "dm-0",
        "the kernel's default",
    ):
        assert word in text
    assert path.stat().st_mode & 0o077 == 0


def test_the_logs_other_lines_are_not_taken() -> None:
    said = kernellog.wanted(LOG)
    assert len(said) == 4
    assert said[0] == "[2.000] io scheduler triage registered"


def test_a_file_that_is_there_is_kept(planted: Machine, tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("mine")
    with pytest.raises(RequestError, match="exists"):
        doctor.run(planted.system, doctor.Options(path))
    assert path.read_text() == "mine"
    with pytest.raises(RequestError, match="no folder"):
        doctor.run(planted.system, doctor.Options(tmp_path / "missing/report"))


def test_words_are_replaced_whole(machine: Machine) -> None:
    machine.file("proc/sys/kernel/hostname", "disk")
    scrub = private.Scrubber(machine.system).text
    assert scrub("disk of diskstats") == "<host> of diskstats"


def test_numbers_that_are_no_addresses_stay(machine: Machine) -> None:
    machine.file("proc/sys/kernel/hostname", "some-host")
    scrub = private.Scrubber(machine.system).text
    for text in (
        "6.12.117",
        "259:0",
        "12:30:45",
        "sector 123456789",
        "0x1f 1.2.3",
        "8:0 0:1:2",
        "sd 2:0:0:0: [sdb]",
        "scsi 10:0:1:4094: x",
        "0000:00:1f.2",
        "sector 1234567890123456",
        "tg::name",
        "999.1.2.3",
        "1.2.3.4.5",
        "a, b: c",
        "2:0:0:0",
        "at ::",
    ):
        assert scrub(text) == text


def test_of_processes_only_counts(machine: Machine) -> None:
    for pid in (os.getpid(), os.getppid()):
        machine.file(f"proc/{pid}/task/{pid}/comm", "x")
    found = doctor.collected(machine.system)["processes"]
    assert found["threads"] == 2
    assert sum(found["by I/O priority"].values()) == 2


def test_a_group_that_vanishes_meanwhile(machine: Machine, vanishing: str) -> None:
    machine.file(f"sys/fs/cgroup/{vanishing}/io.max", "")
    machine.file("sys/fs/cgroup/b/io.max", "8:0 rbps=1")
    assert doctor.collected(machine.system)["control groups"]["io.max"] == 1


def test_a_section_that_fails_leaves_the_others(
    planted: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("of bob@example.com")

    monkeypatch.setattr(debugfs, "files", fails)
    path = tmp_path / "report"
    assert doctor.run(planted.system, doctor.Options(path)) == 0
    text = path.read_text()
    assert "== disks\ntriagectl could not collect this: ZeroDivisionError: of <mail>" in text
    assert "io scheduler triage registered" in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at fe80::1", "at <ip>"),
        ("fe80::1: reset", "<ip>: reset"),
        ("fd00::5.", "<ip>."),
        ("[2001:db8::7]:3260", "[<ip>]:3260"),
        ("fe80::1%eth0,", "<ip>,"),
        ("::ffff:10.1.2.3", "<ip>"),
        ("2001:db8:0:0:0:0:0:7", "<ip>"),
        ("::1", "<ip>"),
        ("10.1.2.3:3260", "<ip>:3260"),
        ("10.1.2.3.", "<ip>."),
        ("traddr=10.1.2.3,x", "traddr=<ip>,x"),
        ("traddr=fe80::7,x", "traddr=<ip>,x"),
        ("5000c500a1b2c3d4", "<wwn>"),
        ("5000039123456789", "<wwn>"),
        ("/var/lib/pg-acme/base", "<path>/base"),
        ("/opt/acme", "<path>"),
        ("/etc/acme/x", "<path>/x"),
        ("/usr/share/acme", "<path>"),
        ("/srv/my data", "<path>"),
        ("/var/log and /usr", "/var/log and /usr"),
        ("/etc/tuned/acme-db/tuned.conf:3", "/etc/tuned/<profile>/tuned.conf:3"),
        ("/usr/lib/tuned/balanced/tuned.conf:3", "/usr/lib/tuned/balanced/tuned.conf:3"),
    ],
)
def test_forms_of_private_things(text: str, shown: str, machine: Machine) -> None:
    machine.disk()
    machine.file("sys/block/sda/device/wwid", "naa.5000039123456789")
    mounts = ("/var/lib/pg-acme", "/opt/acme", "/etc/acme", "/usr/share/acme", r"/srv/my\040data")
    usual = ("/", "/var/log", "/usr", "/sys/fs/cgroup", "/boot/efi")
    lines = [f"/dev/sda1 {mount} ext4 rw 0 0\n" for mount in (*mounts, *usual)]
    machine.file("proc/self/mounts", "".join(lines))
    assert private.Scrubber(machine.system).text(text) == shown


@pytest.mark.parametrize(
    ("active", "shown"),
    [("throughput-performance", "throughput-performance"), ("triage acme-db", "triage <profile>")],
)
def test_the_profile_of_tuned(active: str, shown: str, machine: Machine) -> None:
    machine.file("run/tuned/tuned.pid", "7")
    machine.file("proc/7/comm", "tuned")
    machine.file("usr/lib/tuned/profiles/throughput-performance/tuned.conf", "")
    machine.file("usr/lib/tuned/triage/tuned.conf", "")
    machine.file("etc/tuned/active_profile", active)
    assert doctor.collected(machine.system)["machine"]["tuned profile"] == shown
