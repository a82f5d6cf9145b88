# SPDX-License-Identifier: GPL-2.0-only
"""Tests of our rules with the real udev: they set triage on disks with TRIAGE=1 and no others."""

import os
from pathlib import Path

import pytest
from triagelab.base import tools

from tests.packaging.system import PACKAGING, System

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces")

UDEVADM = tools.Tool("udevadm", "udev")
ALL = "[mq-deadline] none triage"
#: A rule that chooses every disk.
CHOICE = 'SUBSYSTEM=="block", ENV{TRIAGE}="1"\n'


def event(
    system: System, disk: str, choice: str = CHOICE, more: str = "", action: str = "add"
) -> str:
    """Have udev handle an event of a disk under our rules alone; return its output."""
    tools.require([UDEVADM])
    return system.give(
        f"""
        mount -t tmpfs none /usr/lib/udev/rules.d
        mount -t tmpfs none /etc/udev
        mkdir /etc/udev/rules.d
        cp /rules/60-triage.rules /usr/lib/udev/rules.d/
        printf '%s' '{choice}' > /etc/udev/rules.d/59-triage.rules
        {more}
        udevadm test --action={action} /sys/block/{disk}
        """.replace("/rules/", f"{PACKAGING}/"),
        [PACKAGING],
    )


def chosen(system: System, disk: str) -> bool:
    """Return whether udev chose triage. udev does not truncate the file, so old text may follow."""
    return system.scheduler(disk).startswith("triage")


def test_a_chosen_disk_gets_triage_and_what_it_had_is_remembered(tmp_path: Path) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", ALL)
    said = event(system, "sda")
    assert chosen(system, "sda")
    assert "\nTRIAGE_BEFORE=mq-deadline\n" in said
    assert "nvalid" not in said and "rror" not in said.replace("no errors", "")


@pytest.mark.parametrize("had", ["none", "mq-deadline", "kyber", "bfq"])
def test_each_scheduler_of_the_kernel_is_remembered(tmp_path: Path, had: str) -> None:
    system = System.make(tmp_path)
    known = "none mq-deadline kyber bfq triage"
    system.add_disk("sda", known.replace(had, f"[{had}]"))
    assert f"\nTRIAGE_BEFORE={had}\n" in event(system, "sda", choice="")
    assert system.scheduler("sda") == known.replace(had, f"[{had}]")


def test_the_memory_lasts_over_an_event_with_triage_chosen(tmp_path: Path) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", "none mq-deadline kyber [triage]")
    said = event(
        system,
        "sda",
        more="mkdir -p /run/udev/data; echo E:TRIAGE_BEFORE=kyber > /run/udev/data/b8:0",
    )
    assert "\nTRIAGE_BEFORE=kyber\n" in said
    assert system.scheduler("sda") == "none mq-deadline kyber [triage]", "chosen again"


def with_triage(system: System, disk: str) -> None:
    """Give a disk the tunable that it has with triage."""
    folder = system.folder / "sys/block" / disk / "queue/iosched"
    folder.mkdir()
    (folder / "exchange").write_text("8\n")


@pytest.mark.parametrize("action", ["add", "change"])
def test_it_is_noted_that_a_disk_was_given_triage(tmp_path: Path, action: str) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", ALL)
    with_triage(system, "sda")
    assert "\nTRIAGE_GIVEN=1\n" in event(system, "sda", action=action)
    assert chosen(system, "sda")


def test_a_disk_that_refused_triage_is_asked_again(tmp_path: Path) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", ALL)
    assert "TRIAGE_GIVEN" not in event(system, "sda")


@pytest.mark.parametrize(
    ("action", "choice", "expected"),
    [("change", CHOICE, ALL), ("add", CHOICE, "triage"), ("change", "", ALL)],
)
def test_a_choice_by_hand_lasts_over_changes(
    tmp_path: Path, action: str, choice: str, expected: str
) -> None:
    """On `add` the disk counts as new. TRIAGE_GIVEN is dropped if no rule chooses the disk."""
    system = System.make(tmp_path)
    system.add_disk("sda", ALL)
    noted = "mkdir -p /run/udev/data; echo E:TRIAGE_GIVEN=1 > /run/udev/data/b8:0"
    said = event(system, "sda", choice, noted, action)
    assert system.scheduler("sda").startswith(expected)
    assert ("\nTRIAGE_GIVEN=1\n" in said) == bool(choice)


@pytest.mark.parametrize("disk", ["loop0", "zram0", "ram0", "dm-0", "md0"])
def test_what_lies_above_disks_is_left_out(tmp_path: Path, disk: str) -> None:
    system = System.make(tmp_path)
    system.add_disk(disk, ALL)
    assert "TRIAGE=1" in event(system, disk)
    assert system.scheduler(disk) == ALL


@pytest.mark.parametrize("zoned", ["host-managed", "host-aware"])
def test_a_zoned_disk_is_left_alone(tmp_path: Path, zoned: str) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", ALL, zoned=zoned)
    event(system, "sda")
    assert system.scheduler("sda") == ALL


def test_without_a_choice_nothing_changes(tmp_path: Path) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", ALL)
    event(system, "sda", choice="")
    assert system.scheduler("sda") == ALL


def test_a_file_in_etc_replaces_ours(tmp_path: Path) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", ALL)
    event(system, "sda", more="ln -s /dev/null /etc/udev/rules.d/60-triage.rules")
    assert system.scheduler("sda") == ALL


def test_the_examples_choose_a_disk_and_set_a_tunable(tmp_path: Path) -> None:
    system = System.make(tmp_path)
    system.add_disk("vda", "[none] triage")
    exchange = tmp_path / "sys/block/vda/queue/iosched/exchange"
    exchange.parent.mkdir()
    exchange.write_text("8\n")
    system.add_disk("sr0", ALL)
    install = f"cp {PACKAGING}/examples/*.rules /etc/udev/rules.d/"
    event(system, "vda", more=install)
    assert exchange.read_text().strip() == "16"
    event(system, "sr0", more=install)
    assert system.scheduler("sr0") == ALL


def test_the_example_of_tunables_is_silent_where_a_disk_has_no_triage(tmp_path: Path) -> None:
    system = System.make(tmp_path)
    system.add_disk("vda", "[none] mq-deadline")
    said = event(system, "vda", more=f"cp {PACKAGING}/examples/6*.rules /etc/udev/rules.d/")
    assert "TRIAGE=1" in said
    assert "exchange" not in said
