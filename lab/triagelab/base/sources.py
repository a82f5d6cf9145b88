# SPDX-License-Identifier: GPL-2.0-only
"""This repository's folders, and the schedulers by name: the kernel's own and ours."""

from pathlib import Path

from triagelab.base.errors import RequestError

ROOT = Path(__file__).resolve().parents[3]
#: The kernel modules' sources.
MODULES = ROOT / "kernel"

#: Linux's own schedulers, with their modules' names. None: it is no module. Linux loads
#: a scheduler NAME by asking modprobe for NAME-iosched, which may be an alias.
KERNELS_OWN = {"none": None, "mq-deadline": None, "kyber": "kyber-iosched", "bfq": "bfq"}


def own_schedulers() -> list[str]:
    """Return this repository's schedulers: folders in kernel/ whose module is NAME-iosched."""
    return sorted(
        kbuild.parent.name
        for kbuild in MODULES.glob("*/Kbuild")
        if f"{kbuild.parent.name}-iosched" in kbuild.read_text()
    )


def scheduler_of(module: Path) -> str:
    """Return the name of the scheduler in a module file: NAME of NAME-iosched.ko."""
    if not module.name.endswith("-iosched.ko"):
        raise RequestError(
            f"{module}: a scheduler's module is called NAME-iosched.ko, "
            "because that is what Linux looks for when NAME is chosen"
        )
    if not module.is_file():
        raise RequestError(f"{module}: no such file")
    return module.name.removesuffix("-iosched.ko")
