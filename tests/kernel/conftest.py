# SPDX-License-Identifier: GPL-2.0-only
"""Build debug kernels in the background while the first tests run.

A build is slow, and most tests leave a core idle.
"""

import os
import subprocess
import sys
from collections.abc import Generator

import pytest
from triagelab.base import tools
from triagelab.provision import kernels

from tests import due
from tests.kernel import clock

#: The program that builds a debug kernel. It lowers its own priority, and that of its session,
#: because a kernel with autogroups schedules by session. It does not take the lowest priority,
#: because the last tests wait for the build. On SIGTERM the program ends all processes that it has
#: started.
BUILD = """
import contextlib, os, pathlib, signal, sys
from triagelab.provision import kernels
def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
os.nice(5)
with contextlib.suppress(OSError):
    pathlib.Path("/proc/self/autogroup").write_text("5")
kernels.find(sys.argv[1])
"""

builds = pytest.StashKey[list[subprocess.Popen[bytes]]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start to build each debug kernel that the parameters of selected tests name (`series`).

    A test waits for the kernel that it needs. If that build failed, the test builds the kernel
    again and reports the error.
    """
    # Under pytest-xdist, only the first worker builds, for all of them.
    worker = getattr(session.config, "workerinput", {}).get("workerid", "gw0")
    if session.config.option.collectonly or worker != "gw0":
        return
    named = {
        str(getattr(value, "series", ""))
        for item in session.items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and not due.is_left_out(item)
        for value in item.callspec.params.values()
    }
    session.config.stash[builds] = [
        subprocess.Popen(
            tools.with_us("TERM", [sys.executable, "-c", BUILD, series]),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for series in named
        if kernels.looks_for_bugs(series)
    ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let pytest list, as a test's duration, the time of its check, not the time of all guests."""
    report = yield
    clock.attribute(item, report)
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the builders and their processes."""
    for build in config.stash.get(builds, []):
        build.terminate()
        build.wait()
