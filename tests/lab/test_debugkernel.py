# SPDX-License-Identifier: GPL-2.0-only
"""Tests of debug kernels: an option without effect is named; a killed build leaves no process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from triagelab.provision import debugkernel

#: Like a kernel's build: make starts a second make, which starts the compiler, here `sleep`.
MAKEFILE = "all:\n\t$(MAKE) compiler\ncompiler:\n\techo $$$$ > pid; exec sleep 600\n"


def test_an_option_that_the_configuration_lost_is_named() -> None:
    wanted = "# text\nCONFIG_KASAN=y\nCONFIG_SMP=y\nCONFIG_NR_CPUS=8\n"
    config = "CONFIG_SMP=y\n# CONFIG_KASAN is not set\nCONFIG_NR_CPUS=64\n"
    assert debugkernel.ineffective(wanted, config) == ["CONFIG_KASAN=y", "CONFIG_NR_CPUS=8"]


@pytest.mark.parametrize(
    "builds",
    [
        "debugkernel._make(here, '-j2', 'all')",
        "modules.build(SimpleNamespace(headers=here, elf='vmlinux', release='test', "
        "programs=None), here, here)",
    ],
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_is_killed_leaves_nothing_at_work(
    tmp_path: Path, number: signal.Signals, builds: str
) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    code = (
        "from pathlib import Path; from types import SimpleNamespace; "
        "from triagelab.base import tools; "
        "from triagelab.provision import debugkernel, modules; "
        f"tools.require = lambda wanted: None; here = Path.cwd(); {builds}"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment) as builder:
        deadline = time.monotonic() + 300
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert builder.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        builder.send_signal(number)
    at_work = Path("/proc") / (tmp_path / "pid").read_text().strip()
    while at_work.exists():
        assert time.monotonic() < deadline, "what make started is still there"
        time.sleep(0.05)
