# SPDX-License-Identifier: GPL-2.0-only
"""This repository's folders, and the schedulers by name: the kernel's own and ours."""

from pathlib import Path

from triagelab.base.errors import RequestError

ROOT = Path(__file__).resolve().parents[3]
#: The kernel modules' sources.
MODULES = ROOT / "kernel"

#: A scheduler module's name in Linux, which asks modprobe for NAME-iosched.
KERNELS_OWN = {"none": None, "mq-deadline": None, "kyber": "kyber-iosched", "bfq": "bfq"}


def own_schedulers() -> list[str]:
    """Return this repository's schedulers: folders in kernel/ whose module is NAME-iosched."""
    return sorted(
        kbuild.parent.name
        for kbuild in MODULES.glob("*/Kbuild")
        if f"{kbuild.parent.name}-iosched" in kbuild.read_text()
    )


def scheduler_of(module: Path) -> str:
    """Return the scheduler that a module file NAME-iosched.ko holds."""
    if not module.name.endswith("-iosched.ko"):
        raise RequestError(
            f"{module}: a scheduler's module is called NAME-iosched.ko, "
            "because that is what Linux looks for when NAME is chosen"
        )
    if not module.is_file():
        raise RequestError(f"{module}: no such file")
    return module.name.removesuffix("-iosched.ko")
