# SPDX-License-Identifier: GPL-2.0-only
"""Test `triagectl status` for disks, and for a process on its disks."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.triagectl.machine import Machine
from triagectl import ioprio, processes, processview, setby, status, sysfs, top, trial
from triagectl.errors import RequestError
from triagectl.ioprio import BE, IDLE, RT, Priority
from triagectl.sysfs import Devices, Disk
from triagectl.system import System

TUNABLES: dict[str, Any] = {"be_high_max": 2, "be_low_min": 6, "quantum": 50, "limit_iops_low": 300}
PID = os.getpid()


def shown(machine: Machine, capsys: pytest.CaptureFixture[str], *names: str) -> str:
    assert status.run(machine.system, status.Options(names)) == 0
    return capsys.readouterr().out


def test_a_disk_with_triage(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.disk(schedulers="mq-deadline [triage] none", **TUNABLES)
    folder = "sys/kernel/debug/block/sda/sched"
    machine.file(f"{folder}/depth", "pressed 1\nbudget 131039\nbulk 130000\njudged 9\nlate 1\n")
    text = shown(machine, capsys)
    assert max(map(len, text.splitlines())) <= 80
    for line in (
        "mode     flash\n",
        "HIGH: rt, be/0 to 2; NORMAL: none, be/3 to 5; LOW: idle, be/6",
        "limits   limit_iops_low 300",
        "it may have 131us in the device, and has",
    ):
        assert line in text


def test_a_mode_that_does_not_fit(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.disk(schedulers="[triage]", rotational=True, **TUNABLES)
    assert "flash, which queue/rotational does not agree with" in shown(machine, capsys)


def test_a_stacked_device_names_its_disks(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.disk("sda")
    machine.disk("sdb", number="8:16")
    machine.stacked("dm-0", "LVM-x", "sda", "sdb")
    machine.stacked("dm-1", "CRYPT-LUKS2-x", "dm-0", number="253:1")
    assert "takes no scheduler. Choose it on sda, sdb" in shown(machine, capsys, "dm-1")


def test_json(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.disk()
    status.run(machine.system, status.Options([], json=True))
    (disk,) = json.loads(capsys.readouterr().out)["disks"]
    assert disk["set_by"]["by"] == "kernel"


@pytest.mark.parametrize(
    ("priority", "of"),
    [
        (Priority(RT, 7), "HIGH"),
        (Priority(BE, 2), "HIGH"),
        (Priority(BE, 3), "NORMAL"),
        (Priority(BE, 6), "LOW"),
        (Priority(IDLE, 0), "LOW"),
        (Priority(0, 0), "NORMAL"),
    ],
)
def test_triages_classes(priority: Priority, of: str) -> None:
    tunables = {"be_high_max": "2", "be_low_min": "6"}
    assert ioprio.group(priority, "triage", tunables) == of


@pytest.mark.parametrize(("nice", "level"), [(-20, 0), (-6, 2), (0, 4), (10, 6), (19, 7)])
def test_the_priority_of_a_nice_value(nice: int, level: int) -> None:
    assert ioprio.of_nice(nice) == Priority(BE, level)


def process(machine: Machine, *files: tuple[str, int]) -> None:
    """Put this process into the machine's /proc, with open files on given mounts."""
    machine.file(f"proc/{PID}/comm", "postgres")
    machine.file(f"proc/{PID}/task/{PID}/comm", "postgres")
    machine.file(
        f"proc/{PID}/mountinfo",
        "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "22 1 253:0 / /data rw - ext4 /dev/mapper/x rw\n"
        "23 1 0:35 / /btr rw - btrfs /dev/sda1 rw\n"
        "24 1 0:5 / /tmp rw - tmpfs tmpfs rw\n",
    )
    (machine.root / f"proc/{PID}/fd").mkdir()
    for number, (mount, flags) in enumerate(files):
        machine.file(
            f"proc/{PID}/fdinfo/{number}", f"pos:\t0\nflags:\t0{flags:o}\nmnt_id:\t{mount}"
        )
        (machine.root / f"proc/{PID}/fd/{number}").symlink_to(f"/file{number}")
    machine.file("dev/sda1", "")


def warnings(machine: Machine) -> dict[str, str]:
    view = processview.about(machine.system, PID, Devices(machine.system))
    assert max(map(len, processview.text(view).splitlines())) <= 80
    found = {one["disk"]: "\n".join(one["warnings"]) for one in view["disks"]}
    return found | {"": "\n".join(view["warnings"])}


def test_a_scheduler_that_ignores_priorities(machine: Machine) -> None:
    machine.disk(schedulers="[none] mq-deadline")
    process(machine, ("21", os.O_RDONLY))
    assert warnings(machine) == {
        "sda": "none ignores I/O priorities: ionice does nothing on sda",
        "": "",
    }


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        (os.O_RDONLY, False),
        (os.O_WRONLY, True),
        (os.O_RDWR, True),
        (os.O_RDWR | os.O_DIRECT, False),
        (os.O_WRONLY | os.O_SYNC, False),
    ],
)
def test_buffered_writes(flags: int, warned: bool, machine: Machine) -> None:
    machine.disk(schedulers="[triage]", **TUNABLES)
    process(machine, ("21", flags))
    assert ("buffered writes" in warnings(machine)["sda"]) == warned


@pytest.mark.parametrize(
    ("release", "said"), [("6.1.0-56-amd64", "lose the priority"), ("6.12.1", "comes along")]
)
def test_an_encrypted_device(
    release: str, said: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.release", lambda: release)
    machine.disk(schedulers="[bfq]")
    machine.stacked("dm-0", "CRYPT-LUKS2-x", "sda")
    process(machine, ("22", os.O_RDONLY))
    assert said in warnings(machine)["sda"]


def test_btrfs_is_on_its_source(machine: Machine) -> None:
    machine.disk(schedulers="[kyber]")
    process(machine, ("23", os.O_RDONLY))
    assert "kyber ignores" in warnings(machine)["sda"]


def test_the_disks_are_listed_once_for_all_files(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server has thousands of open files, and a machine hundreds of disks."""
    machine.disk(schedulers="[kyber]")
    process(machine, *[("21", os.O_RDONLY), ("23", os.O_RDONLY)] * 50)
    listed = []
    every = sysfs.all_disks

    def count(system: System) -> list[Disk]:
        listed.append(system)
        return every(system)

    monkeypatch.setattr(sysfs, "all_disks", count)
    assert status.run(machine.system, status.Options([], pid=PID)) == 0
    assert "100 open files" in capsys.readouterr().out
    assert len(listed) == 1


def test_control_groups(machine: Machine) -> None:
    machine.disk(schedulers="[triage]", **TUNABLES)
    process(machine, ("21", os.O_RDONLY))
    machine.file(f"proc/{PID}/cgroup", "0::/db.slice/pg.service\n")
    machine.file("sys/fs/cgroup/db.slice/io.max", "8:0 rbps=1 wbps=max riops=max wiops=max")
    machine.file("sys/fs/cgroup/db.slice/pg.service/io.weight", "default 500")
    said = warnings(machine)[""]
    assert "group db.slice has a limit" in said
    assert "group pg.service has a weight (io.weight), which triage does not read" in said
    machine.file("sys/fs/cgroup/db.slice/pg.service/io.triage.weight", "default 500")
    assert "has a weight" not in warnings(machine)[""]


def test_a_process_without_files_on_disks(machine: Machine) -> None:
    machine.disk()
    process(machine, ("24", os.O_RDWR))
    assert "no open file of it is on a disk" in warnings(machine)[""]


def test_a_units_processes(machine: Machine) -> None:
    machine.file("sys/fs/cgroup/system.slice/db.service/cgroup.procs", "7\n")
    machine.file("sys/fs/cgroup/system.slice/db.service/sub/cgroup.procs", "9\n")
    assert processes.of_unit(machine.system, "db") == [7, 9]
    with pytest.raises(RequestError, match=r"no unit 'dc\.service'"):
        processes.of_unit(machine.system, "dc")


@pytest.mark.parametrize("unit", ["openvpn@a.b", "openvpn@a.b.service"])
def test_a_unit_with_a_dot_in_its_name(unit: str, machine: Machine) -> None:
    machine.file("sys/fs/cgroup/system.slice/openvpn@a.b.service/cgroup.procs", "7\n")
    assert processes.of_unit(machine.system, unit) == [7]


@pytest.mark.parametrize("unit", ["/", "/x", "x/y", "..", "*", ""])
def test_a_unit_that_cannot_be(unit: str, machine: Machine) -> None:
    machine.file("sys/fs/cgroup/system.slice/x.service/y.service/cgroup.procs", "7\n")
    with pytest.raises(RequestError, match="no unit"):
        processes.of_unit(machine.system, unit)


def test_a_group_that_vanishes_meanwhile(machine: Machine, vanishing: str) -> None:
    machine.file(f"sys/fs/cgroup/a.slice/{vanishing}/cgroup.procs", "8\n")
    machine.file("sys/fs/cgroup/b.slice/db.service/cgroup.procs", "7\n")
    assert processes.of_unit(machine.system, "db") == [7]


def test_no_such_process(machine: Machine) -> None:
    with pytest.raises(RequestError, match="there is no process 4194305"):
        status.run(machine.system, status.Options([], pid=4194305))


def test_no_disk_at_all(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="name one"):
        status.run(Machine(tmp_path / "empty").system, status.Options([]))


@pytest.fixture
def multipath(machine: Machine) -> Machine:
    """Return a machine with NVMe multipath and with request-based dm-multipath."""
    for name in ("nvme1c0n2", "nvme1c3n2", "nvme1c0n1"):
        disk = machine.disk(name, "[none] mq-deadline bfq")
        machine.file(f"sys/block/{name}/hidden", "1")
        (disk.folder / "dev").unlink()
    machine.disk("nvme1n2", "none", "259:7")
    machine.disk("nvme2n2", "[none] bfq", "259:9")
    machine.disk("sda", "[none] bfq")
    machine.stacked("dm-0", "mpath-3600", "sda")
    machine.file("sys/block/dm-0/queue/scheduler", "[mq-deadline] bfq none")
    machine.file("sys/block/sda/holders/dm-0/dev", "")
    machine.stacked("dm-1", "LVM-x", "dm-0", number="253:1")
    return machine


def test_a_choice_of_multipath_that_does_something(
    multipath: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    head = shown(multipath, capsys, "nvme1n2")
    assert "nvme-multipath: takes no scheduler. Choose it on nvme1c0n2, nvme1c3n2" in head
    assert "[none]  flash" in shown(multipath, capsys, "nvme2n2")
    assert "Choose it on dm-0" in shown(multipath, capsys, "dm-1")
    assert "[mq-deadline]  dm-mpath" in shown(multipath, capsys, "dm-0")
    path = shown(multipath, capsys, "sda")
    assert max(map(len, path.splitlines())) <= 80
    assert "its requests come from dm-0, which has the scheduler" in path


def test_a_process_on_multipath(multipath: Machine) -> None:
    process(multipath, ("21", os.O_RDONLY), ("22", os.O_RDONLY))
    multipath.file(
        f"proc/{PID}/mountinfo",
        "21 1 259:7 / / rw - ext4 /dev/nvme1n2 rw\n22 1 253:1 / /data rw - ext4 /dev/mapper/x rw\n",
    )
    said = warnings(multipath)
    assert set(said) == {"nvme1c0n2", "nvme1c3n2", "dm-0", ""}
    assert "may be lost" not in "".join(said.values())


def test_a_try_on_a_path_is_refused(multipath: Machine) -> None:
    with pytest.raises(RequestError, match="choose it on dm-0"):
        sysfs.find_scheduled(multipath.system, "sda")
    with pytest.raises(RequestError, match="choose it on nvme1c0n2, nvme1c3n2"):
        sysfs.find_scheduled(multipath.system, "nvme1n2")


def test_a_try_on_an_nvme_path_has_no_percentiles(
    multipath: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    with trial._meter(multipath.system, sysfs.find(multipath.system, "nvme1c0n2"), 1.0):
        assert "no percentiles: the kernel does not tell" in capsys.readouterr().err


def test_udev_has_no_rules_for_an_nvme_path(multipath: Machine) -> None:
    rule = 'SUBSYSTEM=="block", ATTR{queue/scheduler}="bfq"'
    multipath.file("etc/udev/rules.d/60-x.rules", rule)
    for name, kinds in (("nvme1c0n2", ["kernel"]), ("nvme2n2", ["kernel", "udev"])):
        found = setby.verdict(multipath.system, sysfs.find(multipath.system, name))
        assert [source.kind for source in found.sources] == kinds


def test_disks_whose_events_can_be_told(multipath: Machine) -> None:
    assert [disk.name for disk in top.chosen(multipath.system, [])] == ["dm-0", "nvme2n2"]
    assert [disk.name for disk in top.chosen(multipath.system, ["dm-1"])] == ["dm-0"]
    with pytest.raises(RequestError, match="of nvme1c0n2, nvme1c3n2, a path"):
        top.chosen(multipath.system, ["nvme1n2"])
