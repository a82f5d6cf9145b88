# SPDX-License-Identifier: GPL-2.0-only
"""Test that a try restores the control groups' weights on the disk, which the kernel drops."""

import re
import shutil
from pathlib import Path

import pytest

from tests.triagectl.machine import DEADLINE, Machine
from triagectl import trial, wayback, weights
from triagectl.errors import CtlError
from triagectl.sysfs import Disk

BFQ = "mq-deadline kyber [bfq] none"
#: Weights for the disk 8:0 and another one, 8:16; in nested groups, and in groups of version 1.
FILES = {
    "sys/fs/cgroup/a.slice/io.bfq.weight": "default 100\n8:0 300\n8:16 400\n",
    "sys/fs/cgroup/a.slice/db.service/io.bfq.weight": "default 50\n8:0 7\n",
    "sys/fs/cgroup/b.slice/io.bfq.weight": "default 100\n8:16 9\n",
    "sys/fs/cgroup/a.slice/io.triage.weight": "default 200\n8:0 800\n",
    "sys/fs/cgroup-1/blkio/c/blkio.bfq.weight_device": "8:0 600\n",
}


@pytest.fixture
def disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Return a disk with bfq. Each change of its scheduler drops the groups' weights on it."""
    monkeypatch.setattr(wayback, "start_keeper", lambda *_: None)
    monkeypatch.setattr(trial, "_SETTLE_S", 0.0)
    monkeypatch.setattr(trial.Meter, "block", lambda _: trial.Block())
    machine.file(
        "proc/self/mounts",
        "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
        "cgroup /sys/fs/cgroup-1/cpu cgroup rw,cpu 0 0\n"
        "cgroup /sys/fs/cgroup-1/blkio cgroup rw,relatime,blkio 0 0\n",
    )
    for name, text in FILES.items():
        machine.file(name, text)

    def choose(disk: Disk, scheduler: str) -> None:
        words = DEADLINE.replace("[", "").replace("]", "")
        machine.file(
            f"sys/block/{disk.name}/queue/scheduler", words.replace(scheduler, f"[{scheduler}]")
        )
        for name in FILES:
            path = machine.root / name
            if path.exists():
                path.write_text(re.sub(r"^8:0 .*\n", "", path.read_text(), flags=re.M))

    monkeypatch.setattr(wayback, "choose", choose)
    return machine.disk(schedulers=BFQ)


def text(machine: Machine, name: str) -> str:
    return (machine.root / name).read_text()


def test_weights_are_those_of_the_disk(machine: Machine, disk: Disk) -> None:
    found = weights.of(machine.system, disk)
    assert sorted(found.values()) == ["300", "600", "7", "800"]


def test_a_try_restores_them(machine: Machine, disk: Disk) -> None:
    before = weights.of(machine.system, disk)
    assert trial.run(machine.system, trial.Options("sda", "kyber", {}, 6)) == 0
    assert weights.of(machine.system, disk) == before
    assert text(machine, "sys/fs/cgroup/b.slice/io.bfq.weight") == "default 100\n8:16 9\n"


def test_a_group_that_ended_is_left_out(machine: Machine, disk: Disk) -> None:
    with wayback.kept(machine.system, disk, "kyber", 60) as left:
        wayback.choose(disk, "kyber")
        shutil.rmtree(machine.root / "sys/fs/cgroup/a.slice")
    assert left == []
    assert list(weights.of(machine.system, disk).values()) == ["600"]


def test_a_weight_that_cannot_be_restored_is_told(machine: Machine, disk: Disk) -> None:
    with wayback.kept(machine.system, disk, "kyber", 60) as left:
        wayback.choose(disk, "kyber")
        (machine.root / "sys/fs/cgroup/a.slice/io.triage.weight").unlink()
    (said,) = left
    assert "io.triage.weight has lost the weight 800 of sda" in said


def test_a_weight_of_tried_tunables_is_the_users(machine: Machine, disk: Disk) -> None:
    """If the scheduler stays, no weight is lost, so a weight that a user removed stays removed."""
    path = machine.root / "sys/fs/cgroup/a.slice/io.bfq.weight"
    with wayback.kept(machine.system, disk, "bfq", 60):
        path.write_text("default 100\n")
    assert path.read_text() == "default 100\n"


def test_a_try_that_was_killed_is_undone_with_its_weights(
    machine: Machine, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The try or its keeper may be killed after it restored the scheduler, before the weights."""
    before = weights.of(machine.system, disk)
    with monkeypatch.context() as patch:
        patch.setattr(wayback, "settle", lambda *_: [])
        with wayback.kept(machine.system, disk, "kyber", 60):
            wayback.choose(disk, "kyber")
            wayback.choose(disk, "bfq")
    monkeypatch.setattr(wayback, "alive", lambda *_: False)
    with pytest.raises(CtlError, match="--undo"), wayback.kept(machine.system, disk, "x", 60):
        pass
    assert trial.run(machine.system, trial.Options("sda", None, {}, 60, undo=True)) == 0
    assert weights.of(machine.system, disk) == before


def test_weights_that_another_ones_choice_has_removed_are_told(
    machine: Machine, disk: Disk
) -> None:
    with wayback.kept(machine.system, disk, "kyber", 60) as left:
        wayback.choose(disk, "mq-deadline")
    assert "another user chose" in left[0]
    assert "4 control groups have lost their weights on sda, which only bfq has" in left[1]


@pytest.mark.parametrize(
    "path", ["etc/io.bfq.weight", "sys/fs/cgroup/../../../etc/io.bfq.weight", "sys/fs/cgroup/x"]
)
def test_only_weights_of_control_groups_are_restored(
    path: str, machine: Machine, disk: Disk
) -> None:
    other = machine.file(path, "")
    named = {f"{machine.root}/{path}": "300"}
    (said,) = weights.put_back(machine.system, disk, named)
    assert "is no control group's weight" in said
    assert other.read_text() == ""
    assert weights.lost(machine.system, disk, named) == {}


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(CtlError, match="there is no"):
        wayback.write(tmp_path / "missing", "1")
    assert not (tmp_path / "missing").exists()
