# SPDX-License-Identifier: GPL-2.0-only
"""Define the command `study`: run all experiments of the scheduler study, and make its report."""

import argparse
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from triagelab.ask import study
from triagelab.base import files
from triagelab.base.errors import LabError, RequestError
from triagelab.commands import options, places, report, request, telling
from triagelab.plan import plan
from triagelab.run import execute, host, machines, records, rundir


@dataclass(frozen=True)
class _Part:
    """A measure of the study, the setup of its runs, and the kernel's release."""

    measure: study.Measure
    setup: plan.Setup
    release: str

    @property
    def machine(self) -> str:
        return self.setup.points[0].machine.name


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `study`."""
    parser.add_argument(
        "--quick",
        action="store_true",
        help="every question in 26 min, with fewer points and repeats",
    )
    parser.add_argument(
        "--schedulers", metavar="A,B", help="schedulers to run instead of the study's"
    )
    parser.add_argument("--repeats", metavar="N", type=int, help="instead of the study's")
    parser.add_argument("--machine", help="instead of the experiments': sim, vm, host")
    parser.add_argument(
        "--device", metavar="D", help="instead of the experiments'; with host a disk, /dev/X"
    )
    parser.add_argument(
        "--allow-write", action="store_true", help="with host: jobs may overwrite the disk"
    )
    options.add_kernel(parser, default=None)
    parser.add_argument("--out", metavar="DIR", type=Path, help="default: results/study-DATE")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the study in --out; without --out, the newest study",
    )
    options.add_dask(parser)
    parser.set_defaults(command=_study, module=[], set=[], vary=[], cpus=None)


def _study(given: argparse.Namespace) -> int:
    whole = study.load(quick=given.quick)
    request.schedulers_of(given.schedulers, (), {})
    machine = given.machine or "sim"
    options.require_known(machine, given)
    with places.disk(given, machine) as held:
        # Check the folder before _parts() builds modules and file systems, which takes minutes.
        out = options.folder(given, "study", records.STUDY)
        parts, left_out = _parts(given, whole, held)
        with rundir.owned(out):
            quick = _to_take_over(given, held, out)
            return _measure_study(given, parts, left_out, quick, out)


def _parts(
    given: argparse.Namespace, whole: study.Study, held: host.Held | None
) -> tuple[list[_Part], dict[str, str]]:
    """Return the measures that the options allow; and, by name, why other measures are left out."""
    parts, left_out = [], {}
    for measure in whole.measures:
        wanted = argparse.Namespace(**vars(given))
        wanted.repeats = given.repeats if given.repeats is not None else measure.repeats
        experiment = measure.found()
        if measure.schedulers:
            experiment = replace(experiment, schedulers=tuple(measure.schedulers))
        try:
            setup, release = request.prepare(
                wanted, experiment, given.machine or experiment.machine, held
            )
        except RequestError as error:
            if given.machine is None and given.device is None:
                raise
            left_out[measure.name] = str(error)
        else:
            parts.append(_Part(measure, setup, release))
    if not parts:
        raise RequestError("\n".join(dict.fromkeys(left_out.values())))
    return parts, left_out


def _to_take_over(
    given: argparse.Namespace, held: host.Held | None, out: Path
) -> dict[str, plan.Setup]:
    """Return the quick study's setups, by measure, if the full study takes over the quick runs.

    That is so if `out` holds the quick study and the user asks for the full study. In other cases
    return no setups. Raise RequestError if `out` holds the full study and the user asks for the
    quick study.
    """
    record = out / records.STUDY
    if not record.exists() or records.read_json(record)["quick"] == given.quick:
        return {}
    if given.quick:
        raise RequestError(f"{out} has the whole study: go on with it without --quick")
    parts, _ = _parts(given, study.load(quick=True), held)
    return {part.measure.name: part.setup for part in parts}


def _measure_study(
    given: argparse.Namespace,
    parts: list[_Part],
    left_out: dict[str, str],
    quick: dict[str, plan.Setup],
    out: Path,
) -> int:
    """Carry out the runs of all measures, machine by machine.

    Runs in virtual time go first, several at once.
    """
    report.load()
    rundir.require_space(out)
    # planned() raises an error if another plan made a folder, so plan all measures before begin()
    # writes to any folder. Write study.json after all calls of begin(). If the lab is interrupted
    # before that, while the full study takes over a quick one, study.json still says quick, and the
    # user can ask for the full study again.
    begun = [
        rundir.planned(part.setup, part.release, out / name, quick.get(name))
        for part in parts
        for name in [part.measure.name]
    ]
    for there in begun:
        rundir.begin(there)
    planned = {there.out.name: there.runs for there in begun}
    record = {"schema": 1, "quick": given.quick, "left_out": left_out}
    files.write_json(out / records.STUDY, record)
    total = sum(map(len, planned.values()))
    left = {
        machine: [
            task
            for part in parts
            if part.machine == machine
            for task in rundir.left(planned[part.measure.name], out / part.measure.name)
        ]
        for machine in sorted({part.machine for part in parts}, key=_in_real_time)
    }
    results = []
    try:
        with telling.progress(total, total - sum(map(len, left.values())), quiet=False) as step:
            for machine, tasks in left.items():
                if not tasks:
                    continue  # no need to wait for this machine's lock
                # Wait for the lock: an error instead would waste hours of earlier measurement.
                with places.measuring_alone(machine, waits=True):
                    results += execute.execute(
                        tasks, options.executor(given, machine), telling.tells(step)
                    )
    except (execute.StoppedError, KeyboardInterrupt):
        return telling.tell_interrupted(_resume_study(given, out))
    for name, runs in planned.items():
        if any(records.is_done(out / name / "runs" / run.id) for run in runs):
            rundir.conclude(runs, out / name)
    failed = [result for result in results if result.reason]
    telling.tell_failed(failed)
    if len(failed) == total:
        raise LabError(f"every run failed; what they left is in {out}")
    report.tell_study(out)
    if failed:
        telling.tell_again(len(failed), total, _resume_study(given, out))
    return 1 if failed else 0


def _in_real_time(machine: str) -> bool:
    return not machines.kind(machine).in_virtual_time


def _resume_study(given: argparse.Namespace, out: Path) -> str:
    quick = ["--quick"] if given.quick else []
    words = [
        "./triage",
        "study",
        *quick,
        *options.given_words(given),
        "--out",
        str(out),
        "--resume",
    ]
    return shlex.join(words)
