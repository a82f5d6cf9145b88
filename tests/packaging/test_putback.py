# SPDX-License-Identifier: GPL-2.0-only
"""Test that put-back gives each disk its former scheduler, or the kernel's default."""

import asyncio
import os
from pathlib import Path

import pytest
from triagelab.base import tools
from triagelab.plan.machine import Job
from triagelab.provision import kernels, modules
from triagelab.run import machines

from tests.packaging.system import PACKAGING, System

PUT_BACK = PACKAGING / "put-back"
UDEVADM = tools.Tool("udevadm", "udev")
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces")


@root
def test_disks_get_what_udev_remembers_else_the_kernels_choice(tmp_path: Path) -> None:
    tools.require([UDEVADM])
    system = System.make(tmp_path)
    system.add_disk("sda", "none mq-deadline kyber [triage]")
    system.add_disk("sdb", "none mq-deadline kyber [triage]")
    system.add_disk("nvme0n1", "none mq-deadline [triage]", queues=4)
    system.add_disk("sdc", "none [kyber] triage")
    said = system.give(
        f"""
        mkdir -p /run/udev/data
        printf 'E:TRIAGE_BEFORE=kyber\\n' > /run/udev/data/b8:0
        {PUT_BACK}
        """,
        [PACKAGING],
    )
    chosen = {name: system.scheduler(name) for name in ("sda", "sdb", "nvme0n1", "sdc")}
    assert chosen == {
        "sda": "kyber",
        "sdb": "mq-deadline",
        "nvme0n1": "none",
        "sdc": "none [kyber] triage",
    }
    assert "put-back: sda has kyber again\n" in said
    assert "sdc" not in said.replace(PUT_BACK.name, "")


@root
def test_the_drivers_flags_decide_what_the_kernel_would_choose(tmp_path: Path) -> None:
    """Hardware queues of a RAID controller share their tags. Some drivers want no scheduler."""
    system = System.make(tmp_path)
    system.add_disk("sda", "none mq-deadline [triage]", queues=4)
    system.add_disk("sdb", "none mq-deadline [triage]")
    for disk, flags in (("sda", "TAG_HCTX_SHARED"), ("sdb", "NO_SCHED_BY_DEFAULT")):
        file = tmp_path / "sys/kernel/debug/block" / disk / "hctx0/flags"
        file.parent.mkdir(parents=True)
        file.write_text(f"alloc_policy=FIFO {flags}\n")
    system.give(f"{PUT_BACK}", [PACKAGING])
    assert system.scheduler("sda") == "mq-deadline"
    assert system.scheduler("sdb") == "none"


@root
@pytest.mark.parametrize(
    "container",
    [
        "exec env container=lxc",
        "exec env KUBERNETES_SERVICE_HOST=10.0.0.1",
        "touch /.dockerenv;",
        "touch /run/.containerenv;",
    ],
)
def test_a_container_leaves_the_computers_disks_alone(tmp_path: Path, container: str) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", "none mq-deadline [triage]")
    said = system.give(f"{container} {PUT_BACK}", [PACKAGING])
    assert "nothing is changed" in said
    assert system.scheduler("sda") == "none mq-deadline [triage]"


@root
@pytest.mark.parametrize(
    ("profile", "told"), [("triage", True), ("balanced triage", True), ("triage-x", False)]
)
def test_a_profile_of_tuned_that_stays_is_told_of(profile: str, told: bool, tmp_path: Path) -> None:
    system = System.make(tmp_path)
    said = system.give(
        f"mkdir -p /etc/tuned; echo {profile} > /etc/tuned/active_profile; {PUT_BACK}", [PACKAGING]
    )
    assert ("tuned's profile is still triage" in said) == told


@root
def test_only_root_may_put_back(tmp_path: Path) -> None:
    system = System.make(tmp_path)
    said = system.give(
        f"if setpriv --reuid=65534 sh < {PUT_BACK}; then exit 1; fi",
        [PACKAGING],
    )
    assert "put-back: only root may do this\n" in said


@root
def test_a_folder_with_a_system_leaves_the_computers_disks_alone(tmp_path: Path) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", "none mq-deadline [triage]")
    said = system.give(
        f"""
        for name in usr bin lib lib64 dev proc sys {PACKAGING}; do
            mkdir -p /folder/$name
            mount --rbind /$name /folder/$name
        done
        chroot /folder {PUT_BACK}
        """,
        [PACKAGING],
    )
    assert "nothing is changed" in said
    assert system.scheduler("sda") == "none mq-deadline [triage]"


@root
def test_a_disk_that_takes_no_other_is_told_of(tmp_path: Path) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", "none mq-deadline [triage]")
    said = system.give(
        f"""
        mount --bind /sys/block/sda/queue /sys/block/sda/queue
        mount -o remount,bind,ro /sys/block/sda/queue
        if {PUT_BACK}; then exit 1; fi
        """,
        [PACKAGING],
    )
    assert "sda keeps triage" in said


def test_a_kernel_gives_back_what_it_gave(tmp_path: Path) -> None:
    """Without udev's record, put-back restores the schedulers that the kernel chose for two disks.

    One disk has one hardware queue, the other has two. Afterwards the module is not loaded. The
    test runs in a guest.
    """
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    module = modules.build(kernel) / "triage-iosched.ko"
    script = """#!/bin/sh -ex
        modprobe null_blk nr_devices=0
        for queues in 0 1; do
            disk=/sys/kernel/config/nullb/more$queues
            mkdir $disk
            echo $queues > $disk/poll_queues
            echo 1 > $disk/power
        done
        cat /sys/block/*/queue/scheduler > out/before
        for file in /sys/block/*/queue/scheduler; do echo triage > $file; done
        cat /sys/block/*/queue/scheduler > out/chosen
        sh put-back
        cat /sys/block/*/queue/scheduler > out/after
        ls /sys/module > out/modules
    """
    files: dict[str, Path | str] = {"run": script, "put-back": PUT_BACK}
    job = Job(files, modules=(module,))
    outcome = asyncio.run(machines.make("sim", kernel).run(job, tmp_path))
    assert outcome.status == 0, (tmp_path / "console.log").read_text()
    left = {path.name: path.read_text() for path in outcome.folder.iterdir() if path.is_file()}
    assert left["before"] == "none [mq-deadline] \n[none] mq-deadline \n"
    assert left["chosen"].count("[triage]") == 2
    assert left["after"] == left["before"]
    assert "triage_iosched" not in left["modules"].split()
