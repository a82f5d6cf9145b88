# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the commands in operate.md that let DKMS build the scheduler and remove it.

DKMS uses folders of the test instead of the system's.
"""

import os
import subprocess
from pathlib import Path

import pytest
from triagelab.base import tools
from triagelab.base.version import version
from triagelab.provision import kernels

from tests.product.product import OPERATE, ROOT, blocks, in_guest

DKMS = tools.Tool("dkms", "dkms")
SETUP, UNDO = (text.replace("VERSION", version()) for text in blocks("sh dkms", OPERATE))


def give(commands: str, kernel: kernels.Kernel, folder: Path) -> None:
    """Run the document's commands for `kernel`, with `folder` in place of the system's root."""
    for name in ("dkms", "usr/src", f"lib/{kernel.release}"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    script = f"""
        dkms() {{
            if [ $1 = install ]; then set -- "$@" -k {kernel.release}; fi
            {tools.path(DKMS)} "$@" --kernelsourcedir {kernel.headers} --dkmstree {folder}/dkms \\
                --sourcetree {folder}/usr/src --installtree {folder}/lib --no-depmod
        }}
    """
    done = subprocess.run(
        ["sh", "-exc", script + commands.replace("/usr/src", f"{folder}/usr/src")],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may use dkms")
@pytest.mark.parametrize("series", kernels.SERIES)
def test_what_dkms_builds_is_chosen_and_removed(
    series: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.require([DKMS])
    kernel = kernels.find(series)
    assert kernel.headers is not None
    if not (kernel.headers / "vmlinux").exists():
        # The build then needs the kernel's image. It would find the image of an installed kernel in
        # /boot.
        monkeypatch.setenv("VMLINUX", str(kernel.image))
    give(SETUP, kernel, tmp_path)
    (module,) = (tmp_path / "lib").rglob("triage-iosched.ko")
    install, *_ = blocks("sh real-machine", OPERATE)
    scheduler = "/sys/block/sdX/queue/scheduler"
    chosen = [install, f"echo triage > {scheduler}", f"cat {scheduler} > out/chosen"]
    left = in_guest(chosen, kernel, module, tmp_path / "guest")
    assert "[triage]" in (left / "chosen").read_text()

    give(UNDO, kernel, tmp_path)
    assert [path for path in tmp_path.rglob("*triage*") if "guest" not in path.parts] == []
