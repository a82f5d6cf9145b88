# SPDX-License-Identifier: GPL-2.0-only
"""Read I/O priorities of processes, and tell their effect under each scheduler."""

import ctypes
import functools
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass

RT, BE, IDLE = 1, 2, 3
_NAMES = {0: "none", RT: "rt", BE: "be", IDLE: "idle"}

#: The number of the system call ioprio_get(), for which the C library has no function, by machine
#: and size of this program's pointers. A 32-bit program on x86_64 may have i686's numbers or x32's.
#: Nothing here tells which, so the table has no number for it.
_SYSCALLS = {
    ("x86_64", 8): 252,
    ("aarch64", 8): 31,
    ("riscv64", 8): 31,
    ("loongarch64", 8): 31,
    ("ppc64", 8): 274,
    ("ppc64le", 8): 274,
    ("s390x", 8): 283,
    ("i386", 4): 290,
    ("i686", 4): 290,
    ("aarch64", 4): 315,
    ("armv6l", 4): 315,
    ("armv7l", 4): 315,
    ("armv8l", 4): 315,
    ("riscv32", 4): 31,
}
#: The policy that sched_getscheduler() returns may have this flag.
_RESET_ON_FORK = 0x40000000
#: Another real-time policy, for which the module os has no name.
_SCHED_DEADLINE = 6
_PROCESS = 1

#: The effect of a priority under each scheduler.
SCHEDULERS = {
    "none": "ignores I/O priorities",
    "kyber": "ignores I/O priorities",
    "adios": "ignores I/O priorities",
    "mq-deadline": "tells rt, be and idle apart, and ignores the levels 0 to 7",
    "bfq": "uses class and level",
    "prio-basic": "uses class and level",
    "prio-adaptive": "uses class and level",
    "triage": "uses class and level",
}


@dataclass(frozen=True)
class Priority:
    """An I/O priority: a class and, within best effort and real time, a level."""

    of: int
    level: int

    def __str__(self) -> str:
        name = _NAMES.get(self.of, "?")
        return name if self.of in (0, IDLE) else f"{name}/{self.level}"


def decoded(value: int) -> Priority:
    """Return the priority for the kernel's number."""
    return Priority(value >> 13 & 7, value & 7)


def of_nice(nice: int) -> Priority:
    """Return the I/O priority that a nice value gives to a thread that never set its own."""
    return Priority(BE, (nice + 20) // 5)


@functools.cache
def _caller() -> Callable[[int, int, int], int]:
    """Return the C library's syscall()."""
    return ctypes.CDLL(None, use_errno=True).syscall


def of_thread(tid: int) -> Priority | None:
    """Return the I/O priority that a thread has set; its class is 0 if it has set none.

    Return None if the thread is gone, or if no system call number is known for this machine.
    """
    number = _SYSCALLS.get((platform.machine(), ctypes.sizeof(ctypes.c_void_p)))
    if number is None:
        return None
    value = _caller()(number, _PROCESS, tid)
    return None if value < 0 else decoded(value)


def effective(tid: int) -> Priority | None:
    """Return the priority that the kernel gives a thread's requests; None if it cannot be read."""
    own = of_thread(tid)
    if own is None or own.of:
        return own
    try:
        policy = os.sched_getscheduler(tid) & ~_RESET_ON_FORK
        if policy == os.SCHED_IDLE:
            return Priority(IDLE, 0)
        by_nice = of_nice(os.getpriority(os.PRIO_PROCESS, tid))
        real_time = policy in (os.SCHED_FIFO, os.SCHED_RR, _SCHED_DEADLINE)
        return Priority(RT, by_nice.level) if real_time else by_nice
    except OSError:
        return None


def triage_class(priority: Priority, tunables: dict[str, str]) -> str:
    """Return triage's class for a priority, under these tunables."""
    if priority.of == RT:
        return "HIGH"
    if priority.of == IDLE:
        return "LOW"
    level = priority.level if priority.of == BE else 4
    if level <= int(tunables.get("be_high_max", 2)):
        return "HIGH"
    return "LOW" if level >= int(tunables.get("be_low_min", 6)) else "NORMAL"


def group(priority: Priority | None, scheduler: str, tunables: dict[str, str]) -> str:
    """Return a priority's class, or `?`: triage's class under triage, else the kernel's class."""
    if priority is None:
        return "?"
    if scheduler == "triage":
        return triage_class(priority, tunables)
    return _NAMES[priority.of or BE] if priority.of in _NAMES else "?"
