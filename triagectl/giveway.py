# SPDX-License-Identifier: GPL-2.0-only
"""Lower this process's CPU priority while it watches requests, so that it delays no other program.

If a request completes while this process has the CPU, the program that waits for it continues late,
though the disk answered in time. A nice value alone does not prevent that: since Linux 6.6 a
running process keeps the CPU for its slice, up to 3 ms, even if another process wakes up. From 6.12
on a process may ask for a shorter slice.
"""

import contextlib
import ctypes
import os
import struct
from collections.abc import Callable, Iterator

#: With this nice value a process has a tenth of its usual weight on a busy CPU. That is enough for
#: `top`, which needs less than a fiftieth of a CPU.
NICE = 10
#: The slice to ask for, in ns: the shortest that Linux grants.
SLICE = 100_000

#: struct sched_attr, its first version: size, policy, flags, nice, priority, runtime (the slice,
#: for SCHED_OTHER), deadline, period.
_ATTR = struct.Struct("=IIQiIQQQ")
_GENERIC = (274, 275)
#: The system call numbers of sched_setattr and sched_getattr for 64-bit programs.
_CALLS = {
    "x86_64": (314, 315),
    "ppc64le": (355, 356),
    "s390x": (345, 346),
    "aarch64": _GENERIC,
    "riscv64": _GENERIC,
    "loongarch64": _GENERIC,
}


@contextlib.contextmanager
def giving_way() -> Iterator[None]:
    """Let other processes go first on this CPU during the block, as far as the kernel can."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    if nice >= NICE or os.sched_getscheduler(0) != os.SCHED_OTHER:
        # The user has chosen a nice value or a policy: keep it.
        yield
        return
    restore = _shortened()
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    try:
        yield
    finally:
        # Only root may raise the priority again. Other users' commands keep it low, but end soon.
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, nice)
            restore()


def _shortened() -> Callable[[], object]:
    """Ask for a short slice. Return a function that undoes that."""
    numbers = _CALLS.get(os.uname().machine)
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return lambda: None
    if numbers is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return lambda: None
    set_number, get_number = numbers
    was = ctypes.create_string_buffer(_ATTR.size)
    if call(get_number, 0, was, _ATTR.size, 0):
        return lambda: None
    _, *rest = _ATTR.unpack(was.raw)
    size, runtime = _ATTR.size, 4
    rest[runtime] = SLICE
    # Kernels before 6.12 ignore the slice.
    call(set_number, 0, ctypes.create_string_buffer(_ATTR.pack(size, *rest), size), 0)
    return lambda: call(set_number, 0, was, 0)
