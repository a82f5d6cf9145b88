# SPDX-License-Identifier: GPL-2.0-only
"""Test for which kernels DKMS builds the module, as kernel/dkms.conf says."""

import os
import subprocess
from pathlib import Path

import pytest
from triagelab.base import sources, tools
from triagelab.base.version import version

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may use dkms")

DKMS = tools.Tool("dkms", "dkms")
#: DKMS's exit status if dkms.conf excludes a kernel
EXCLUDED = 77


def passed_over(release: str, arch: str, folder: Path) -> bool:
    """Return whether DKMS skips a kernel. If it does not, check that the build begins.

    That build fails, because the test has no kernel headers.
    """
    tools.require([DKMS])
    headers = folder / "headers"
    for path in (headers / "include", folder / "tree", folder / "source"):
        path.mkdir(parents=True)
    (headers / ".config").write_text("CONFIG_DEBUG_INFO_BTF=y\n")
    trees = ["--dkmstree", str(folder / "tree"), "--sourcetree", str(folder / "source")]
    add = ["dkms", "add", *trees, str(sources.MODULES)]
    subprocess.run(add, capture_output=True, check=True)
    build = ["dkms", "build", f"triage/{version()}", *trees, "-k", release, "-a", arch]
    done = subprocess.run(
        [*build, "--kernelsourcedir", str(headers)], capture_output=True, text=True
    )
    assert done.returncode != 0
    if done.returncode != EXCLUDED:
        (log,) = folder.rglob("make.log")
        assert "no kernel headers" in log.read_text()
    return done.returncode == EXCLUDED


@pytest.mark.parametrize("release", ["5.10.0-32-amd64", "5.15.0-91-generic", "6.0.12-1-arch1"])
def test_a_kernel_before_6_1_is_passed_over(release: str, tmp_path: Path) -> None:
    assert passed_over(release, "x86_64", tmp_path)


@pytest.mark.parametrize(
    ("release", "arch"),
    [
        ("6.1.0-50-amd64", "x86_64"),
        ("6.12.117+deb12-arm64", "aarch64"),
        ("7.3.4+deb13-amd64", "x86_64"),
        ("10.0.1-amd64", "x86_64"),
    ],
)
def test_later_kernels_are_built_for(release: str, arch: str, tmp_path: Path) -> None:
    assert not passed_over(release, arch, tmp_path)


@pytest.mark.parametrize("arch", ["i686", "armv7l", "s390x", "ppc64le"])
def test_an_architecture_that_was_not_tried_is_passed_over(arch: str, tmp_path: Path) -> None:
    assert passed_over("6.12.117", arch, tmp_path)
