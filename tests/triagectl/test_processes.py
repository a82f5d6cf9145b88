# SPDX-License-Identifier: GPL-2.0-only
"""Test which processes processes.Table remembers, and how I/O priorities are read."""

import ctypes
import os
import platform
from collections import Counter

import pytest

from tests.triagectl.machine import Machine
from triagectl import ioprio
from triagectl.ioprio import BE, IDLE, RT, Priority
from triagectl.processes import Table
from triagectl.requests import Request
from triagectl.usage import Usage


def named(machine: Machine, name: str, tid: int = 7) -> None:
    machine.file(f"proc/{tid}/status", f"Name:\t{name}\nTgid:\t{tid}\n")
    machine.file(f"proc/{tid}/comm", name)


def finished(usage: Usage, comm: bytes = b"x") -> None:
    usage.finished(Request(1, 0, 8, False, True, 7, comm, 1, issued=2, completed=3))


def test_a_new_priority_is_seen_in_the_next_interval(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(machine, "postgres")
    usage = Usage(Table(machine.system), {1: ("none", {})}, {1: Counter()}, 5)
    for priority, of in ((Priority(BE, 4), "be"), (Priority(IDLE, 0), "idle")):
        monkeypatch.setattr(ioprio, "effective", lambda _, now=priority: now)
        finished(usage)
        assert [one.of for one in usage.accounts(1, latest=True)] == [of]
        usage.turn()


def test_a_request_that_no_device_has_is_not_counted(machine: Machine) -> None:
    named(machine, "postgres")
    usage = Usage(Table(machine.system), {1: ("none", {})}, {1: Counter()}, 5)
    for issued in (0, 2):
        usage.gave_up(Request(1, 0, 8, False, True, 7, b"x", 1, issued=issued, until=9))
    (account,) = usage.accounts(1)
    assert (account.requests, account.served_ns) == (1, 7)


def test_a_number_that_is_used_again_has_the_new_name(machine: Machine) -> None:
    usage = Usage(Table(machine.system), {1: ("none", {})}, {1: Counter()}, 5)
    for name in ("postgres", "restic"):
        named(machine, name)
        finished(usage)
        assert [one.process.name for one in usage.accounts(1)] == [name]
        usage.turn()


def test_a_thread_that_ended_keeps_its_name(machine: Machine) -> None:
    """Requests of the last ten seconds are shown, also of processes that have ended."""
    table = Table(machine.system)
    named(machine, "postgres")
    assert table.of(7, b"worker").name == "postgres"
    (machine.root / "proc/7/status").unlink()
    (machine.root / "proc/7/comm").unlink()
    for _ in range(3):
        table.turn()
        assert table.of(7, b"").name == "postgres"
        assert table.of(7, b"worker").name == "postgres"
    table.turn()
    assert table.of(7, b"another").name == "another"


@pytest.mark.parametrize(
    ("machine_name", "pointer", "number"),
    [
        ("x86_64", 8, 252),
        ("x86_64", 4, 0),
        ("aarch64", 4, 315),
        ("i686", 4, 290),
        ("vax", 4, 0),
    ],
)
def test_the_system_call_is_that_of_the_program(
    machine_name: str, pointer: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong number does harm: on a 64-bit kernel, call 252 ends a 32-bit program."""
    called = []

    def syscall(call: int, *_: int) -> int:
        called.append(call)
        return 2 << 13 | 3

    monkeypatch.setattr(platform, "machine", lambda: machine_name)
    monkeypatch.setattr(ctypes, "sizeof", lambda _: pointer)
    monkeypatch.setattr(ioprio, "_caller", lambda: syscall)
    found = ioprio.of_thread(1)
    assert called == ([number] if number else [])
    assert found == (Priority(BE, 3) if number else None)


def test_this_machines_system_call() -> None:
    assert ioprio.of_thread(os.getpid()) is not None


@pytest.mark.parametrize(
    ("policy", "nice", "level"),
    [(os.SCHED_RR | os.SCHED_RESET_ON_FORK, 0, 4), (6, 0, 4), (os.SCHED_FIFO, -20, 0)],
    ids=["not inherited", "SCHED_DEADLINE", "by nice"],
)
def test_real_time(monkeypatch: pytest.MonkeyPatch, policy: int, nice: int, level: int) -> None:
    monkeypatch.setattr(ioprio, "of_thread", lambda _: Priority(0, 0))
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: policy)
    monkeypatch.setattr(os, "getpriority", lambda _, __: nice)
    assert ioprio.effective(1) == Priority(RT, level)
