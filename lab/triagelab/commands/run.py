# SPDX-License-Identifier: GPL-2.0-only
"""Define the command `run`: carry out one experiment."""

import argparse
import shlex
from pathlib import Path

from triagelab.ask import experiments
from triagelab.base.errors import LabError
from triagelab.commands import options, places, report, request, telling
from triagelab.plan import plan
from triagelab.run import execute, rundir


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `run`."""
    parser.add_argument("experiment", metavar="NAME|JOB.fio", help="see ./triage list")
    parser.add_argument("--quick", action="store_true", help="the experiment's quick variant")
    parser.add_argument(
        "--schedulers", metavar="A,B", help="schedulers to run instead of the experiment's"
    )
    parser.add_argument("--repeats", metavar="N", type=int, help="instead of the experiment's")
    parser.add_argument(
        "--vary",
        metavar="NAME=A,B",
        action="append",
        default=[],
        help="values for a name that the experiment varies, or for another name: "
        "a setting as in --set, cpus, ${NAME} in the job file; may be repeated",
    )
    parser.add_argument(
        "--machine",
        help="instead of the experiment's (mostly sim). sim: deterministic; vm: real time; "
        "host: this computer and one of its disks",
    )
    parser.add_argument("--cpus", metavar="N", help="the machine's virtual CPUs")
    parser.add_argument(
        "--device", metavar="D", help="instead of the experiment's; with host a disk, /dev/X"
    )
    parser.add_argument(
        "--allow-write", action="store_true", help="with host: jobs may overwrite the disk"
    )
    options.add_kernel(parser, default=None)
    parser.add_argument(
        "--module",
        metavar="FILE.ko",
        type=Path,
        action="append",
        default=[],
        help="a scheduler built for that kernel, NAME-iosched.ko; may be repeated",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="device.SETTING=N, model.PARAMETER=N or SCHEDULER.TUNABLE=VALUE; may be repeated",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="default: results/NAME-DATE")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue --out; without --out, the newest run directory of this experiment",
    )
    parser.add_argument("--json", action="store_true", help="print summary.json instead of a table")
    options.add_dask(parser)
    parser.set_defaults(command=_run)


def called(words: list[str]) -> int:
    """Parse `words` as arguments of `run`, run the command, and return its exit status."""
    parser = argparse.ArgumentParser()
    add(parser)
    return _run(parser.parse_args(words))


def _run(given: argparse.Namespace) -> int:
    experiment = experiments.find(
        given.experiment, request.values_to_vary(given.vary), quick=given.quick
    )
    machine = given.machine or experiment.machine
    options.require_known(machine, given)
    with places.measuring_alone(machine), places.disk(given, machine) as held:
        out = _out(given)  # before prepare(), which may build for minutes
        setup, kernel_release = request.prepare(given, experiment, machine, held)
        with rundir.owned(out):
            return _measure(given, setup, kernel_release, out)


def _out(given: argparse.Namespace) -> Path:
    """Return --out. Without --out, return a new run directory or, with --resume, the newest one."""
    return options.folder(given, Path(given.experiment).stem, "environment.json")


def _measure(given: argparse.Namespace, setup: plan.Setup, release: str, out: Path) -> int:
    report.load()
    rundir.require_space(out)
    there = rundir.planned(setup, release, out)
    rundir.begin(there)
    planned = there.runs
    left = rundir.left(planned, out)
    executor = options.executor(given, setup.points[0].machine.name)
    try:
        with telling.progress(len(planned), len(planned) - len(left), quiet=given.json) as step:
            results = execute.execute(left, executor, telling.tells(step))
    except execute.StoppedError:
        return telling.tell_interrupted(_resume(given, out))
    failed = [result for result in results if result.reason]
    telling.tell_failed(failed)
    if len(failed) == len(planned):
        raise LabError(f"every run failed; what they left is in {out / 'runs'}")
    rundir.conclude(planned, out)
    report.tell(out, as_json=given.json)
    if failed:
        telling.tell_again(len(failed), len(planned), _resume(given, out))
    return 1 if failed else 0


def _resume(given: argparse.Namespace, out: Path) -> str:
    """Return the command that resumes this `run` in `out`."""
    quick = ["--quick"] if given.quick else []
    words = ["./triage", "run", given.experiment, *quick, *options.given_words(given)]
    for path in given.module:
        words += ["--module", str(path)]
    for option in ("set", "vary"):
        for pair in getattr(given, option):
            words += [f"--{option}", pair]
    return shlex.join([*words, "--out", str(out), "--resume"])
