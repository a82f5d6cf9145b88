# SPDX-License-Identifier: GPL-2.0-only
"""Define the command `matrix`: build modules for several kernels; verify a scheduler on each."""

import argparse
import resource
import sys
import urllib.parse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from triagelab.base import files, sources, tools
from triagelab.base.errors import LabError, RequestError, unknown
from triagelab.check import verify
from triagelab.commands import telling
from triagelab.commands.verify import built_for, checks_named, record_of
from triagelab.provision import kernels, modules
from triagelab.run import execute, rundir


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `matrix`."""
    parser.add_argument(
        "scheduler", metavar="SCHEDULER", nargs="?", default="triage", help="default: triage"
    )
    parser.add_argument(
        "--kernel",
        metavar="K",
        action="append",
        help="a kernel, as for `verify`; may be repeated (default: "
        f"{', '.join(kernels.SERIES)} and the newest {kernels.BACKPORTED} of Debian's backports)",
    )
    parser.add_argument(
        "--check", metavar="NAME", action="append", help="as for `verify`; default: all"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="default: results/matrix-DATE")
    parser.add_argument("--json", action="store_true", help="print matrix.json instead of a table")
    parser.set_defaults(command=_matrix)


def _matrix(given: argparse.Namespace) -> int:
    known = sources.own_schedulers()
    if given.scheduler not in known:
        raise unknown("scheduler", given.scheduler, known)
    chosen = checks_named(given.check)
    tools.require(tools.RUN)
    found = _found(given.kernel or _default())
    out = rundir.new_folder(given.out, "matrix")
    rows = []
    with rundir.owned(out):
        try:
            for name, kernel in found.items():
                # The kernel's name may be a path. Quote the name, so that it makes one folder.
                folder = out / urllib.parse.quote(name, safe="")
                if isinstance(kernel, LabError):
                    rows.append(_missing(name, kernel))
                else:
                    rows.append(_row(name, kernel, given.scheduler, chosen, folder, given))
                # Write the record after each kernel: the next one may take an hour.
                failed = any(row["result"] == "fail" for row in rows)
                record = {
                    "schema": 1,
                    "scheduler": given.scheduler,
                    "result": "fail" if failed else "pass",
                    "kernels": rows,
                }
                files.write_json(out / "matrix.json", record)
        except execute.StoppedError:
            telling.error.print(
                f"triage: interrupted; {out} has logs, and matrix.json the kernels that were done"
            )
            return telling.INTERRUPTED
    if given.json:
        sys.stdout.write((out / "matrix.json").read_text())
    else:
        _tell(rows)
    return 1 if failed else 0


def _default() -> list[str]:
    """Return the names of the oldest and the newest kernels. Raise LabError without a network."""
    try:
        return [*kernels.SERIES, *kernels.backported()]
    except LabError as error:
        words = " ".join(f"--kernel {name}" for name in kernels.SERIES)
        raise LabError(
            f"cannot ask Debian which kernels are the newest: {error}\n"
            f"Name the kernels instead, as in `./triage matrix {words}`: `./triage list` says "
            "which of them are in the cache"
        ) from error


def _found(names: Sequence[str]) -> dict[str, kernels.Kernel | LabError]:
    """Return the kernel for each name, or the error if the kernel cannot be fetched or built.

    The checks on one kernel take minutes to an hour, so find all kernels before the first check.
    For a misspelt name, raise RequestError before anything is fetched.
    """
    found: dict[str, kernels.Kernel | LabError] = {}
    for name in sorted(dict.fromkeys(names), key=kernels.fetched):
        try:
            found[name] = kernels.find(name)
        except RequestError:
            raise
        except LabError as error:
            found[name] = error
            telling.error.print(f"triage: {name}: {error}", style="red")
    return {name: found[name] for name in names}


def _missing(name: str, error: LabError) -> dict[str, Any]:
    """Return the part of matrix.json for a kernel that cannot be fetched or built."""
    build = {"result": "fail", "said": str(error), "processor_s": 0.0}
    builds = {"gcc": build, "clang": build}
    return {"series": name, "kernel": name, "builds": builds, "checks": None, "result": "fail"}


def _row(
    name: str,
    kernel: kernels.Kernel,
    scheduler: str,
    chosen: list[verify.Check],
    folder: Path,
    given: argparse.Namespace,
) -> dict[str, Any]:
    """Build the modules for a kernel, check `scheduler` on it; return its part of matrix.json.

    If the build with gcc fails or warns, run no checks.
    """
    row: dict[str, Any] = {"series": name, "kernel": kernel.release, "builds": {}, "checks": None}
    for compiler in ("gcc", "clang"):
        begin = _processor_s()
        try:
            modules.warnings(kernel, clang=compiler == "clang")
            said = ""
        except LabError as error:
            said = str(error)
        row["builds"][compiler] = {
            "result": "fail" if said else "pass",
            "said": said,
            "processor_s": round(_processor_s() - begin, 1),
        }
        if not given.json:
            telling.output.print(f"{kernel.release}: {compiler} {'FAILED' if said else 'passed'}")
    if row["builds"]["gcc"]["result"] == "pass":
        guests = verify.guests(kernel, scheduler, built_for(kernel), chosen, folder)
        begin = _processor_s()
        row["checks"] = record_of(scheduler, kernel, guests, quiet=given.json)
        row["checks"]["processor_s"] = round(_processor_s() - begin, 1)
    results = [build["result"] for build in row["builds"].values()]
    results.append(row["checks"]["result"] if row["checks"] else "fail")
    return row | {"result": "fail" if "fail" in results else "pass"}


def _processor_s() -> float:
    """Return the CPU time of all child processes that have ended.

    matrix.json has CPU time, because elapsed time depends on the computer's other work.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tell(rows: list[dict[str, Any]]) -> None:
    table = Table("kernel", "gcc", "clang (built only)", "checks", box=None, pad_edge=False)
    for row in rows:
        checks = row["checks"]["checks"] if row["checks"] else []
        count = Counter(check["result"] for check in checks)
        verdicts = [build["result"] for build in row["builds"].values()]
        said = ", ".join(f"{count[state]} {past}" for state, past in _PAST.items())
        table.add_row(row["kernel"], *verdicts, said if checks else "not run")
    telling.show(table)
    for row in rows:
        for compiler, build in row["builds"].items():
            if build["said"]:
                telling.output.print(f"\n{row['kernel']}, {compiler}:", style="red")
                telling.output.print(build["said"])
        for check in row["checks"]["checks"] if row["checks"] else []:
            if check["result"] == "fail":
                where = f"\n{check['check']} on {row['kernel']}, {check['machine']}:"
                telling.output.print(where, style="red")
                telling.output.print(check["reason"])


_PAST = {"pass": "passed", "skip": "skipped", "fail": "failed"}
