# SPDX-License-Identifier: GPL-2.0-only
"""Define the command `modules`: build this repository's kernel modules, or check their sources."""

import argparse

from triagelab.commands import options
from triagelab.provision import kernels, modules


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `modules`."""
    options.add_kernel(parser)
    parser.add_argument("--check", action="store_true", help="all warnings, sparse, checkpatch")
    parser.set_defaults(command=_modules)


def _modules(given: argparse.Namespace) -> int:
    kernel = kernels.find(given.kernel)
    if given.check:
        print(modules.check(kernel))
        return 0
    output = modules.build(kernel)
    for module in sorted(output.glob("*.ko")):
        print(module)
    return 0
