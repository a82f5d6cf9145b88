# SPDX-License-Identifier: GPL-2.0-only
"""Define the command `verify`: check a scheduler's correctness in guests."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from triagelab.base import files, sources, tools
from triagelab.base.errors import RequestError, unknown
from triagelab.check import verify
from triagelab.commands import options, telling
from triagelab.provision import guest, kernels, modules
from triagelab.run import execute, rundir


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `verify`."""
    parser.add_argument("scheduler", metavar="SCHEDULER", help="see ./triage list")
    add_what(parser)
    parser.add_argument(
        "--check",
        metavar="NAME",
        action="append",
        help="only this check, by name or number; may be repeated",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="default: results/verify-NAME-DATE")
    parser.add_argument("--json", action="store_true", help="print verify.json instead of a table")
    parser.set_defaults(command=_verify)


def add_what(parser: argparse.ArgumentParser) -> None:
    """Add --debug, --kernel and --module, which select the kernel and the user's own module."""
    parser.add_argument(
        "--debug",
        action="store_true",
        help="on a debug kernel that detects bugs, built on first use",
    )
    options.add_kernel(parser)
    parser.add_argument(
        "--module",
        metavar="FILE.ko",
        type=Path,
        help="the scheduler, built for that kernel: SCHEDULER-iosched.ko",
    )


def prepared(
    given: argparse.Namespace, with_yield_points: bool = False
) -> tuple[kernels.Kernel, tuple[Path, ...]]:
    """Return the kernel that the user chose, and all modules that a guest may load."""
    name = given.kernel
    if given.debug and not kernels.looks_for_bugs(name):
        name += kernels.DEBUG
    available = _scheduler_to_verify(given.scheduler, given.module)
    tools.require(tools.RUN)
    kernel = kernels.find(name)
    if given.module:
        modules.require_built_for(given.module, kernel)
    elif given.scheduler in sources.KERNELS_OWN:
        needed = sources.KERNELS_OWN[given.scheduler]
        if needed and not guest.has_module(kernel, needed):
            raise RequestError(f"kernel {kernel.release} has no scheduler {given.scheduler}")
    return kernel, tuple(built_for(kernel, available, with_yield_points))


def _verify(given: argparse.Namespace) -> int:
    chosen = checks_named(given.check)
    kernel, files = prepared(given)
    out = rundir.new_folder(given.out, f"verify-{given.scheduler}")
    with rundir.owned(out):
        guests = verify.guests(kernel, given.scheduler, files, chosen, out / "guests")
        return _carry_out_checks(given, kernel, guests, out)


def built_for(
    kernel: kernels.Kernel, available: Iterable[Path] = (), with_yield_points: bool = False
) -> list[Path]:
    """Return this repository's modules, built for `kernel`, and the user's modules `available`.

    A module in `available` replaces this repository's module of the same name.
    """
    built = sorted(modules.build(kernel, storm=with_yield_points).glob("*.ko"))
    files = {path.name: modules.kept(path) for path in [*built, *available]}
    return list(files.values())


def _scheduler_to_verify(name: str, module: Path | None) -> list[Path]:
    """Return the user's module, if any. Raise RequestError if there is no scheduler `name`."""
    if module is None:
        known = [*sources.KERNELS_OWN, *sources.own_schedulers()]
        if name not in known:
            raise unknown("scheduler", name, known)
        return []
    held = sources.scheduler_of(module)
    if held != name:
        raise RequestError(f"{module} holds the scheduler {held}, not {name}")
    return [module.absolute()]


def checks_named(names: list[str] | None) -> list[verify.Check]:
    """Return the checks with these names or numbers; if `names` is empty or None, all checks."""
    every = verify.checks()
    if not names:
        return every
    found = []
    for name in names:
        matching = [check for check in every if name in (check.name, check.name.split("-")[0])]
        if not matching:
            raise unknown("check", name, [check.name for check in every])
        found += matching
    return found


def _carry_out_checks(
    given: argparse.Namespace, kernel: kernels.Kernel, guests: list[verify.Guest], out: Path
) -> int:
    try:
        record = record_of(given.scheduler, kernel, guests, quiet=given.json)
    except execute.StoppedError:
        telling.error.print(f"triage: interrupted; logs of what was done are in {out}")
        return telling.INTERRUPTED
    files.write_json(out / "verify.json", record)
    if given.json:
        sys.stdout.write((out / "verify.json").read_text())
    else:
        _tell_checks(record, out)
    return 0 if record["result"] == "pass" else 1


def record_of(
    scheduler: str, kernel: kernels.Kernel, guests: list[verify.Guest], quiet: bool
) -> dict[str, Any]:
    """Run the guests' checks; return the content of verify.json."""
    total = sum(len(guest.checks) for guest in guests)
    begin = time.monotonic()
    with telling.progress(total, 0, quiet=quiet, what="checking") as step:
        verify.run(
            guests,
            lambda result: step(
                f"{result.check.name} on {result.place}",
                {"fail": "FAILED", "skip": "skipped", "pass": "passed"}[result.state],
            ),
        )
    results = sorted(
        (result for guest in guests for result in guest.results),
        key=lambda result: (result.check.name, str(result.place)),
    )
    return {
        "schema": 1,
        "scheduler": scheduler,
        "kernel": kernel.release,
        "result": "fail" if any(result.state == "fail" for result in results) else "pass",
        "seconds": round(time.monotonic() - begin, 1),
        "checks": [result.record() for result in results],
    }


def _tell_checks(record: dict[str, Any], out: Path) -> None:
    telling.show(verify.table(record))
    for check in record["checks"]:
        if check["result"] == "fail":
            telling.output.print(f"\n{check['check']} on {check['machine']}:", style="red")
            telling.output.print(check["reason"])
    count = Counter(check["result"] for check in record["checks"])
    telling.output.print(
        f"\n{record['scheduler']} on {record['kernel']}: {count['pass']} passed, "
        f"{count['skip']} skipped, {count['fail']} failed in {record['seconds']:.0f} s; "
        f"logs: {os.path.relpath(out)}"
    )
