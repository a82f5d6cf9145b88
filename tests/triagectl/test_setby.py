# SPDX-License-Identifier: GPL-2.0-only
"""Test that triagectl finds what set a disk's scheduler, for example a rule, tuned or a person.

triagectl must read the files of udev and tuned as these programs do.
"""

import os
from pathlib import Path

import pytest

from tests.triagectl.machine import Machine
from triagectl import setby, tuned, udev, wayback

RULES = "etc/udev/rules.d/90-triage.rules"
DISK = 'ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNEL=="sd[a-z]|nvme*n*"'


def by(machine: Machine, schedulers: str = "mq-deadline [bfq] none") -> setby.Verdict:
    return setby.verdict(machine.system, machine.disk(schedulers=schedulers))


def test_the_kernels_default(machine: Machine) -> None:
    found = by(machine, "[mq-deadline] bfq none")
    assert (found.by, found.changed) == ("kernel", "no sign of it")


@pytest.mark.parametrize(
    ("name", "queues", "flags", "default"),
    [
        ("sda", 1, None, "mq-deadline"),
        ("nvme0n1", 4, None, "none"),
        ("loop0", 1, None, "none"),
        ("nbd0", 1, None, "mq-deadline"),
        ("nullb0", 1, "alloc_policy=FIFO NO_SCHED", "none"),
        ("sdb", 4, "alloc_policy=FIFO SHOULD_MERGE|TAG_HCTX_SHARED", "mq-deadline"),
        ("vda", 1, "alloc_policy=FIFO NO_SCHED_BY_DEFAULT", "none"),
    ],
)
def test_what_the_kernel_itself_chooses(
    name: str, queues: int, flags: str | None, default: str, machine: Machine
) -> None:
    disk = machine.disk(name, queues=queues)
    if flags:
        machine.file(f"sys/kernel/debug/block/{name}/hctx0/flags", flags)
    assert setby.kernel_default(machine.system, disk)[0] == default


def test_udev(machine: Machine) -> None:
    machine.file(RULES, f'# bfq\n{DISK}, \\\n  ATTR{{queue/scheduler}}="bfq"\n')
    found = by(machine)
    assert found.by == "udev"
    assert found.text == f"udev, /{RULES}:2"


def test_a_program_of_a_rule_may_have(machine: Machine) -> None:
    machine.file(RULES, f"{DISK}, RUN+=\"/bin/sh -c 'echo bfq > /sys$devpath/queue/scheduler'\"\n")
    found = by(machine)
    assert (found.by, found.text) == ("udev", f"perhaps udev, /{RULES}:1")


def test_tuned(machine: Machine) -> None:
    machine.file(RULES, f'{DISK}, ATTR{{queue/scheduler}}="mq-deadline"\n')
    machine.file("etc/tuned/active_profile", "mine\n")
    machine.file("run/tuned/tuned.pid", f"{os.getpid()}\n")
    machine.file(f"proc/{os.getpid()}/comm", "tuned")
    machine.file("etc/tuned/mine/tuned.conf", "[main]\ninclude=base\n")
    machine.file("usr/lib/tuned/base/tuned.conf", "[disk]\nreadahead=>4096\nelevator=foo, bfq\n")
    found = by(machine)
    assert found.by == "tuned"
    assert found.text == "tuned, /usr/lib/tuned/base/tuned.conf:3"


def test_tuned_that_does_not_run_has_set_nothing(machine: Machine) -> None:
    machine.file("etc/tuned/active_profile", "mine\n")
    machine.file("etc/tuned/mine/tuned.conf", "[disk]\nelevator=bfq\n")
    assert by(machine).by == "hand"


@pytest.mark.parametrize(("devices", "count"), [("sda", 1), ("!sda", 0), ("sdb, nvme*", 0)])
def test_tuneds_devices(devices: str, count: int, machine: Machine) -> None:
    machine.file("etc/tuned/active_profile", "mine")
    machine.file("run/tuned/tuned.pid", "1")
    machine.file("proc/1/comm", "tuned")
    machine.file("etc/tuned/mine/tuned.conf", f"[d]\ntype=disk\ndevices={devices}\nelevator=bfq\n")
    assert len(tuned.lines(machine.system, machine.disk())) == count


def test_tmpfiles_and_sysfsutils(machine: Machine) -> None:
    machine.file("etc/tmpfiles.d/io.conf", "w /sys/block/sd*/queue/scheduler - - - - kyber\n")
    machine.file("etc/sysfs.conf", "block/sda/queue/scheduler = bfq\n")
    assert by(machine).text == "sysfsutils, /etc/sysfs.conf:1"


@pytest.mark.parametrize("name", ["io.conf.dpkg-old", "io.conf~", "README", "10-io.bak"])
def test_only_files_that_the_programs_read(name: str, machine: Machine) -> None:
    machine.file(f"etc/tmpfiles.d/{name}", "w /sys/block/sd*/queue/scheduler - - - - kyber\n")
    machine.file(f"etc/sysfs.d/{name}", "block/sda/queue/scheduler = bfq\n")
    assert "leaves no trace; the kernel's default would" in by(machine).text


def test_sysfs_d(machine: Machine) -> None:
    machine.file("etc/sysfs.d/io.conf", "block/sda/queue/scheduler = bfq\n")
    assert by(machine).text == "sysfsutils, /etc/sysfs.d/io.conf:1"


def test_a_person(machine: Machine) -> None:
    machine.file(RULES, f'{DISK}, ATTR{{queue/scheduler}}="kyber"\n')
    machine.modules("kyber-iosched")
    found = by(machine)
    assert found.by == "hand"
    assert f"/{RULES}:1 would choose kyber" in found.text


def test_the_module_is_gone(machine: Machine) -> None:
    machine.file(RULES, f'{DISK}, ATTR{{queue/scheduler}}="triage"\n')
    found = by(machine, "[mq-deadline] none")
    assert found.by == "module gone"
    assert "asks for triage, which this kernel does not have" in found.text
    machine.modules("triage-iosched")
    assert setby.verdict(machine.system, machine.disk("sdb", "[mq-deadline] none")).by == "hand"


def test_a_try_that_runs_and_one_that_was_left(machine: Machine) -> None:
    disk = machine.disk()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wayback, "start_keeper", lambda *_: None)
        with wayback.kept(machine.system, disk, "bfq", 60):
            found = setby.verdict(machine.system, disk)
            assert found.by == "triagectl"
            assert f"process {os.getpid()}" in found.text
            patch.setattr(wayback, "alive", lambda *_: False)
            assert "--undo" in setby.verdict(machine.system, disk).text


def test_a_change_since_it_was_written_down(machine: Machine) -> None:
    disk = machine.disk()
    setby.record(machine.system)
    assert setby.verdict(machine.system, disk).changed == "no sign of it"
    machine.file("sys/block/sda/queue/scheduler", "mq-deadline [bfq] none")
    assert "it was mq-deadline" in setby.verdict(machine.system, disk).changed


@pytest.mark.parametrize(
    ("then", "now", "told"), [("4", "4", True), ("4", "5", False), ("", "5", True), ("", "", True)]
)
def test_a_record_is_of_one_disk_not_of_a_name(
    then: str, now: str, told: bool, machine: Machine
) -> None:
    disk = machine.disk()
    machine.file("sys/block/sda/diskseq", then)
    setby.record(machine.system)
    machine.file("sys/block/sda/diskseq", now)
    machine.file("sys/block/sda/queue/scheduler", "mq-deadline [bfq] none")
    assert ("it was mq-deadline" in setby.verdict(machine.system, disk).changed) == told


def test_a_try_tells_what_was_before_it_whatever_was_written_down(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = machine.disk()
    setby.record(machine.system)
    machine.file("sys/block/sda/queue/scheduler", "mq-deadline [kyber] bfq none")
    monkeypatch.setattr(wayback, "start_keeper", lambda *_: None)
    with wayback.kept(machine.system, disk, "bfq", 60):
        machine.file("sys/block/sda/queue/scheduler", "mq-deadline kyber [bfq] none")
        assert setby.verdict(machine.system, disk).changed == "yes: kyber before the try"


def values(machine: Machine, *before: str) -> list[tuple[str | None, bool]]:
    disk = machine.disk(rotational=True)
    found = udev.rules(machine.system, disk, before or ["mq-deadline"])
    return [(rule.value, rule.certain) for rule in found]


CHOOSE = 'ATTR{queue/scheduler}="bfq"'


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (f'KERNEL=="sd*", {CHOOSE}', [("bfq", True)]),
        (f'KERNEL!="sd*", {CHOOSE}', []),
        (f'ATTR{{queue/rotational}}=="1", {CHOOSE}', [("bfq", True)]),
        (f'ATTR{{queue/rotational}}=="0", {CHOOSE}', []),
        (f'ATTR{{queue/zoned}}=="none", {CHOOSE}', []),
        (f'ENV{{ID_BUS}}=="ata", {CHOOSE}', [("bfq", True)]),
        (f'ENV{{ID_BUS}}=="usb", {CHOOSE}', []),
        (f'KERNELS=="host0", ATTRS{{model}}=="X*", {CHOOSE}', [("bfq", True)]),
        (f'KERNELS=="host0", ATTRS{{model}}=="Y*", {CHOOSE}', []),
        # One and the same parent must match both.
        (f'KERNELS=="0000:00:1f.2", ATTRS{{model}}=="X*", {CHOOSE}', []),
        (f'ACTION=="remove", {CHOOSE}', []),
        (f'TEST=="queue/scheduler", {CHOOSE}', [("bfq", True)]),
        (f'TEST!="queue/scheduler", {CHOOSE}', []),
        (f'PROGRAM=="/bin/true", {CHOOSE}', [("bfq", False)]),
        (f'KERNEL=="sd*", GOTO="end"\n{CHOOSE}\nLABEL="end"\n', []),
        (f'KERNEL=="vd*", GOTO="end"\n{CHOOSE}\nLABEL="end"\n', [("bfq", True)]),
        (
            f'KERNEL=="vd*", GOTO="end"\nPROGRAM=="/bin/x", GOTO="end"\n{CHOOSE}\nLABEL="end"\n',
            [("bfq", False)],
        ),
        (f'PROGRAM="/bin/true", {CHOOSE}', [("bfq", False)]),
        (f'IMPORT{{program}}="/bin/true", {CHOOSE}', [("bfq", False)]),
        (f"#{CHOOSE}", []),
        ('ATTR{queue/scheduler}=="bfq"', []),
        (f'KERNEL==i"SD*", {CHOOSE}', [("bfq", True)]),
        (f'KERNEL=="SD*", {CHOOSE}', []),
        (f'KERNEL==e"sd\\x61", {CHOOSE}', [("bfq", True)]),
        (f'ENV{{ID_X}}=="say \\"a\\"", {CHOOSE}', [("bfq", True)]),
        (f'ENV{{.INTERNAL}}=="1", {CHOOSE}', [("bfq", False)]),
        (f'ENV{{NOWHERE}}!="1", {CHOOSE}', [("bfq", True)]),
        # In udev, a missing attribute fails a match with != too.
        (f'ATTR{{queue/zoned}}!="none", {CHOOSE}', []),
        (f'ATTRS{{vendor}}=="ATA", {CHOOSE}', [("bfq", True)]),
        (f'ATTRS{{vendor}}=="ATA ", {CHOOSE}', []),
        (f'ATTRS{{vendor}}=="ATA     ", {CHOOSE}', [("bfq", True)]),
        ('ATTR{queue/scheduler}="$env{ID_BUS}"', [(None, False)]),
        # [none] is a set of letters here; any list of schedulers has one of them.
        (f'ATTR{{queue/scheduler}}=="*[none]*", {CHOOSE}', [("bfq", True)]),
        # A match sees the scheduler from before the rule: mq-deadline.
        (f'ATTR{{queue/scheduler}}=="*\\[none\\]*", {CHOOSE}', []),
        (f'ATTR{{queue/scheduler}}=="*\\[mq-deadline\\]*", {CHOOSE}', [("bfq", True)]),
        (f'ATTR{{queue/scheduler}}=="*\\[bfq\\]*", {CHOOSE}', []),
        (f'ATTR{{queue/scheduler}}!="*\\[bfq\\]*", {CHOOSE}', [("bfq", True)]),
        (f'ATTR{{queue/scheduler}}=="*\\[none\\]*|*\\[mq-*", {CHOOSE}', [("bfq", True)]),
        # The choice of a scheduler changes nr_requests too: its value before is not known.
        (f'ATTR{{queue/nr_requests}}=="64", {CHOOSE}', [("bfq", False)]),
        # An event `change` comes only if something changed the disk.
        (f'ACTION=="change", {CHOOSE}', [("bfq", False)]),
        (f'ACTION!="change", {CHOOSE}', [("bfq", True)]),
        # udev reads the attribute once in an event: the second rule sees kyber in a later event.
        (
            'ATTR{queue/scheduler}=="*\\[mq-deadline\\]*", ATTR{queue/scheduler}="kyber"\n'
            f'ATTR{{queue/scheduler}}=="*\\[kyber\\]*", {CHOOSE}',
            [("kyber", True), ("bfq", False)],
        ),
        # Here the second rule is the first to read the attribute.
        (
            f'ATTR{{queue/scheduler}}="kyber"\nATTR{{queue/scheduler}}=="*\\[kyber\\]*", {CHOOSE}',
            [("kyber", True), ("bfq", True)],
        ),
    ],
)
def test_a_rule_as_udev_reads_it(
    rule: str, found: list[tuple[str, bool]], machine: Machine
) -> None:
    machine.file("run/udev/data/b8:0", 'S:disk/by-id/x\nE:ID_BUS=ata\nE:ID_X=say "a"\n')
    machine.file("sys/devices/pci0/0000:00:1f.2/host0/model", "XYZ\n")
    machine.file("sys/devices/pci0/0000:00:1f.2/host0/vendor", "ATA     \n")
    machine.file("usr/lib/udev/rules.d/60-io.rules", rule + "\n")
    assert values(machine) == found


def test_files_in_order_and_one_in_etc_before_its_namesake(machine: Machine) -> None:
    machine.file("usr/lib/udev/rules.d/60-io.rules", 'ATTR{queue/scheduler}="none"\n')
    machine.file("etc/udev/rules.d/60-io.rules", 'ATTR{queue/scheduler}="kyber"\n')
    machine.file("usr/lib/udev/rules.d/50-io.rules", 'ATTR{queue/scheduler}="bfq"\n')
    assert values(machine) == [("bfq", True), ("kyber", True)]


def test_where_the_kernels_choice_is_not_known_neither_is_that_of_a_rule_that_asks(
    machine: Machine,
) -> None:
    asks = 'ATTR{queue/scheduler}=="*\\[none\\]*"'
    machine.file(RULES, f'{asks}, ATTR{{queue/scheduler}}="bfq"\n')
    assert values(machine, "none", "kyber") == [("bfq", False)]


def test_a_program_that_may_choose_leaves_all_open_for_later_events(machine: Machine) -> None:
    machine.file(
        RULES,
        'RUN+="/bin/choose-a-scheduler"\n'
        'ATTR{queue/scheduler}=="*\\[kyber\\]*", ATTR{queue/scheduler}="bfq"\n',
    )
    assert values(machine) == [(None, False), ("bfq", False)]


def test_a_rule_that_asks_for_the_kernels_choice_is_judged_by_that(machine: Machine) -> None:
    asks = 'ATTR{queue/scheduler}=="*\\[mq-deadline\\]*"'
    machine.file(RULES, f'{asks}, ATTR{{queue/scheduler}}="bfq"\n')
    assert by(machine).text == f"udev, /{RULES}:1"
    again = setby.verdict(machine.system, machine.disk("sdb", "mq-deadline bfq [kyber] none"))
    assert (again.by, again.text.partition("; ")[2]) == (
        "hand",
        f"udev, /{RULES}:1 would choose bfq",
    )


OURS = "usr/lib/udev/rules.d/60-triage.rules"
TEXT = (Path(__file__).resolve().parents[2] / "packaging/60-triage.rules").read_text()
CHOOSES = TEXT[: TEXT.index('ATTR{queue/scheduler}="triage"')].count("\n") + 1


@pytest.mark.parametrize(
    ("schedulers", "chosen", "by", "text"),
    [
        ("none mq-deadline [triage]", True, "udev", f"udev, /{OURS}:{CHOOSES}"),
        ("none [mq-deadline] triage", True, "hand", f"/{OURS}:{CHOOSES} would choose triage"),
        ("none [bfq] triage", True, "hand", f"/{OURS}:{CHOOSES} would choose triage"),
        ("none [mq-deadline]", True, "module gone", "asks for triage, which this kernel"),
        ("none [mq-deadline] triage", False, "kernel", "the kernel's default"),
        ("none mq-deadline [triage]", False, "hand", "the kernel's default would choose"),
    ],
)
@pytest.mark.parametrize("queues", [1, 4])
def test_our_own_rules(
    schedulers: str, chosen: bool, by: str, text: str, queues: int, machine: Machine
) -> None:
    """The verdict does not depend on the number of hardware queues.

    If no rule chooses the disk, the test lets four queues share their tags: then the kernel's
    default is the same as with one queue.
    """
    machine.file(OURS, TEXT)
    machine.file("run/udev/data/b8:0", "E:TRIAGE=1\nE:TRIAGE_BEFORE=none\n" if chosen else "")
    disk = machine.disk(schedulers=schedulers, queues=queues)
    flags = "alloc_policy=FIFO TAG_HCTX_SHARED"
    if queues > 1 and not chosen:
        machine.file("sys/kernel/debug/block/sda/hctx0/flags", flags)
    found = setby.verdict(machine.system, disk)
    assert found.by == by
    assert text in found.text
