# SPDX-License-Identifier: GPL-2.0-only
"""Find this repository's folders, and name the schedulers: Linux's own and this repository's."""

from pathlib import Path

from triagelab.base.errors import RequestError

ROOT = Path(__file__).resolve().parents[3]
#: The kernel modules' sources.
MODULES = ROOT / "kernel"

#: One of Linux's own schedulers -> the name of its module; None: it is built into the kernel. To
#: load a scheduler NAME, Linux asks modprobe for NAME-iosched, which may be an alias of a module.
KERNELS_OWN = {"none": None, "mq-deadline": None, "kyber": "kyber-iosched", "bfq": "bfq"}


def own_schedulers() -> list[str]:
    """Return the names of this repository's schedulers.

    kernel/NAME is a scheduler if its Kbuild file has the module NAME-iosched.
    """
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
