# SPDX-License-Identifier: GPL-2.0-only
"""Define the options that several commands share, and interpret them."""

import argparse
import glob
from pathlib import Path

from triagelab.base.errors import RequestError
from triagelab.provision import kernels
from triagelab.run import execute, machines, rundir

#: Pattern of the start time in a folder's default name (rundir.new_folder).
_DATE = f"{'[0-9]' * 8}-{'[0-9]' * 6}"


def add_kernel(
    parser: argparse.ArgumentParser, default: str | None = kernels.DEFAULT_SERIES
) -> None:
    """Add --kernel."""
    parser.add_argument(
        "--kernel",
        metavar="K",
        default=default,
        help=f"a series (default {kernels.DEFAULT_SERIES}), an installed release, 'running', "
        "or a vmlinuz; built here to look for bugs: SERIES-debug, SERIES-kcsan",
    )


def add_dask(parser: argparse.ArgumentParser) -> None:
    """Add --dask."""
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="run on the workers of a Dask cluster; its scheduler's address, tcp://HOST:PORT",
    )


def require_known(machine: str, given: argparse.Namespace) -> None:
    """Raise RequestError for an unknown machine, or for a machine in real time with --dask."""
    kind = machines.kind(machine)
    if given.dask and not kind.in_virtual_time:
        raise RequestError(
            f"--dask is for sim: what {machine} measures on one computer "
            "cannot be compared with another's"
        )


def executor(given: argparse.Namespace, machine: str) -> execute.Executor:
    """Return the executor for runs on `machine`: this computer, or the Dask cluster.

    Use the cluster only with --dask and for a machine in virtual time. Import Dask only then.
    """
    if given.dask is None or not machines.kind(machine).in_virtual_time:
        return execute.here
    from triagelab.run import cluster

    return cluster.executor(given.dask)


def folder(given: argparse.Namespace, name: str, record: str) -> Path:
    """Return the folder of --out or, without --out, the path of a new folder for `name`.

    With --resume but without --out, return the newest folder for `name` that has the file `record`.
    """
    if given.out is None and given.resume:
        # Match the full date, because the name of another experiment may begin with `name`.
        found = sorted(Path("results").glob(f"{glob.escape(name)}-{_DATE}/{record}"))
        if not found:
            raise RequestError(f"nothing to resume: there is no results/{name}-DATE")
        return found[-1].parent
    return rundir.new_folder(given.out, name, resume=given.resume)


def given_words(given: argparse.Namespace) -> list[str]:
    """Return the options that `run` and `study` share, as words of a command that resumes them."""
    words = ["--allow-write"] if given.allow_write else []
    for option in ("schedulers", "repeats", "machine", "cpus", "device", "kernel", "dask"):
        if getattr(given, option) is not None:
            words += [f"--{option}", str(getattr(given, option))]
    return words
