# SPDX-License-Identifier: GPL-2.0-only
"""Test that a command lowers its CPU priority while it watches requests.

test_guest.py tests the effect: fio does not have to wait for a CPU that `top` has.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triagectl import giveway

ROOT = Path(giveway.__file__).parents[1]
#: A program that prints its nice value and time slice before, during and after giving_way(). It
#: needs a process of its own, because only root may lower a nice value again.
_TOLD = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
from triagectl import giveway
def tell():
    attributes = ctypes.create_string_buffer(giveway._ATTR.size)
    number = giveway._CALLS[os.uname().machine][1]
    assert not ctypes.CDLL(None).syscall(number, 0, attributes, giveway._ATTR.size, 0)
    print(os.getpriority(os.PRIO_PROCESS, 0), giveway._ATTR.unpack(attributes.raw)[5])
tell()
with giveway.giving_way():
    tell()
tell()
"""


def told(*before: str) -> list[list[int]]:
    command = [*before, sys.executable, "-c", _TOLD, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]


@pytest.fixture
def nice() -> int:
    found = os.getpriority(os.PRIO_PROCESS, 0)
    if found >= giveway.NICE:
        pytest.skip("the tests themselves run with a low priority")
    if os.uname().machine not in giveway._CALLS:
        pytest.skip("the numbers of this machine's system calls are not known")
    return found


def test_meanwhile_and_no_longer(nice: int) -> None:
    before, meanwhile, afterwards = told()
    assert before[0] == nice
    assert meanwhile[0] == giveway.NICE
    # Linux before 6.12 has one slice for all processes, and reports 0.
    assert meanwhile[1] == (giveway.SLICE if before[1] else 0)
    if os.geteuid() == 0:
        assert afterwards == before


def test_a_priority_that_the_user_chose_stays(nice: int) -> None:
    assert len({tuple(one) for one in told("nice", "-n", "15")}) == 1
