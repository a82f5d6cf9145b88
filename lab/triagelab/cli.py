# SPDX-License-Identifier: GPL-2.0-only
"""The command line: ./triage list, run, study, report, verify, modules."""

import argparse
import contextlib
import functools
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from triagelab import (
    applications,
    devices,
    disks,
    execute,
    experiments,
    guest,
    host,
    kernels,
    machines,
    measured,
    modules,
    plan,
    putback,
    report,
    rundir,
    samples,
    settings,
    study,
    studyreport,
    tools,
    verify,
)
from triagelab.errors import LabError, RequestError, unknown

#: Held by who measures in real time on this computer.
REAL_TIME_LOCK = Path("/tmp") / "triage-real-time.lock"
_INTERRUPTED = 130  # 128 + SIGINT, as a shell has it

_error = Console(stderr=True, highlight=False)
_print = Console(highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 failed, 2 the request made no sense."""
    given = _parser().parse_args(arguments)
    try:
        return int(given.command(given))
    except LabError as error:
        _error.print(f"triage: {error}", style="red", markup=False, soft_wrap=True)
        return error.exit_status
    except KeyboardInterrupt:
        _error.print("triage: interrupted")
        return _INTERRUPTED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        message = f"triage: {where}{error.strerror or error}"
        _error.print(message, style="red", markup=False, soft_wrap=True)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="triage", description="Runs I/O schedulers on machines and says what they are worth."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="experiments, schedulers, devices, kernels found")
    listing.set_defaults(command=_list)

    run = commands.add_parser("run", help="run an experiment, or a fio job file of yours")
    run.add_argument("experiment", metavar="NAME|JOB.fio", help="see ./triage list")
    run.add_argument("--schedulers", metavar="A,B", help="which, in place of the experiment's")
    run.add_argument("--repeats", metavar="N", type=int, help="in place of the experiment's")
    run.add_argument(
        "--vary",
        metavar="NAME=A,B",
        action="append",
        default=[],
        help="only these values of what the experiment varies, or others; or more to vary: "
        "a setting as --set has it, cpus, ${NAME} in the job file; may be given again",
    )
    run.add_argument(
        "--machine",
        help="in place of the experiment's, mostly sim: deterministic; vm: real time; "
        "host: this computer and a disk of its own",
    )
    run.add_argument("--cpus", metavar="N", help="the machine's virtual CPUs")
    run.add_argument(
        "--device", metavar="D", help="in place of the experiment's; with host a disk, /dev/X"
    )
    run.add_argument(
        "--allow-write", action="store_true", help="with host: jobs may overwrite the disk"
    )
    _add_kernel(run, default=None)
    run.add_argument(
        "--module",
        metavar="FILE.ko",
        type=Path,
        action="append",
        default=[],
        help="a scheduler built for that kernel, NAME-iosched.ko; may be given again",
    )
    run.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="device.SETTING=N, model.PARAMETER=N or SCHEDULER.TUNABLE=VALUE; may be given again",
    )
    run.add_argument("--out", metavar="DIR", type=Path, help="default: results/NAME-DATE")
    run.add_argument("--resume", action="store_true", help="go on with what --out has")
    run.add_argument("--json", action="store_true", help="print summary.json, no table")
    _add_dask(run)
    run.set_defaults(command=_run)

    whole = commands.add_parser("study", help="run the whole scheduler study: many experiments")
    whole.add_argument("--quick", action="store_true", help="its quick part: 20 min on 2 cores")
    whole.add_argument("--schedulers", metavar="A,B", help="which, in place of the study's")
    whole.add_argument("--repeats", metavar="N", type=int, help="in place of the study's")
    whole.add_argument("--machine", help="in place of the experiments': sim, vm, host")
    whole.add_argument(
        "--device", metavar="D", help="in place of the experiments'; with host a disk, /dev/X"
    )
    whole.add_argument(
        "--allow-write", action="store_true", help="with host: jobs may overwrite the disk"
    )
    _add_kernel(whole, default=None)
    whole.add_argument("--out", metavar="DIR", type=Path, help="default: results/study-DATE")
    whole.add_argument("--resume", action="store_true", help="go on with what --out has")
    _add_dask(whole)
    whole.set_defaults(command=_study, module=[], set=[], vary=[], cpus=None)

    again = commands.add_parser("report", help="the report again from what was measured")
    again.add_argument("directory", metavar="DIR", type=Path)
    again.set_defaults(command=_report)

    proof = commands.add_parser("verify", help="check that a scheduler does what it must")
    proof.add_argument("scheduler", metavar="SCHEDULER", help="see ./triage list")
    proof.add_argument(
        "--debug",
        action="store_true",
        help="on a kernel that looks for bugs of its own, built on first use",
    )
    _add_kernel(proof)
    proof.add_argument(
        "--module",
        metavar="FILE.ko",
        type=Path,
        help="the scheduler, built for that kernel: SCHEDULER-iosched.ko",
    )
    proof.add_argument(
        "--check",
        metavar="NAME",
        action="append",
        help="this one alone, by its name or number; may be given again",
    )
    proof.add_argument("--out", metavar="DIR", type=Path, help="default: results/verify-NAME-DATE")
    proof.add_argument("--json", action="store_true", help="print verify.json, no table")
    proof.set_defaults(command=_verify)

    build = commands.add_parser("modules", help="build the kernel modules")
    _add_kernel(build)
    build.add_argument("--check", action="store_true", help="all warnings, sparse, checkpatch")
    build.set_defaults(command=_modules)
    return parser


def _add_kernel(
    parser: argparse.ArgumentParser, default: str | None = kernels.DEFAULT_SERIES
) -> None:
    parser.add_argument(
        "--kernel",
        metavar="K",
        default=default,
        help=f"a series (default {kernels.DEFAULT_SERIES}), an installed release, 'running', "
        "or a vmlinuz; SERIES-debug: built here, looks for bugs of its own",
    )


def _add_dask(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="run on the workers of the Dask cluster whose scheduler is there, tcp://HOST:PORT",
    )


def _executor(given: argparse.Namespace, machine: str) -> execute.Executor:
    """Where runs are carried out; Dask is imported for who asks for it alone."""
    if given.dask is None or machine != "sim":
        return execute.here
    from triagelab import cluster

    return cluster.executor(given.dask)


def _list(_: argparse.Namespace) -> int:
    rows = [("experiment", name, experiments.title(name)) for name in experiments.names()]
    rows += [("scheduler", name, "the kernel's own") for name in modules.KERNELS_OWN]
    rows += [("scheduler", name, f"kernel/{name}") for name in modules.own_schedulers()]
    rows += [("device", name, devices.describe(name)) for name in devices.names()]
    rows += [("kernel", name, about) for name, about in kernels.listing()]
    table = Table("kind", "name", "what", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    _print.print(table)
    return 0


def _modules(given: argparse.Namespace) -> int:
    kernel = kernels.find(given.kernel)
    if given.check:
        print(modules.check(kernel))
        return 0
    output = modules.build(kernel)
    for module in sorted(output.glob("*.ko")):
        print(module)
    return 0


def _report(given: argparse.Namespace) -> int:
    if (given.directory / studyreport.RECORD).is_file():
        _tell_study(given.directory)
        return 0
    if not (given.directory / "environment.json").is_file():
        raise RequestError(f"{given.directory} is no run directory: it has no environment.json")
    _tell(given.directory)
    return 0


def _verify(given: argparse.Namespace) -> int:
    chosen = _checks(given.check)
    name = given.kernel
    if given.debug and not name.endswith(kernels.DEBUG):
        name += kernels.DEBUG
    available = _scheduler_to_verify(given.scheduler, given.module)
    tools.require(tools.RUN)
    kernel = kernels.find(name)
    if given.module:
        modules.require_built_for(given.module, kernel)
    elif given.scheduler in modules.KERNELS_OWN:
        needed = modules.KERNELS_OWN[given.scheduler]
        if needed and not guest.has_module(kernel, needed):
            raise RequestError(f"kernel {kernel.release} has no scheduler {given.scheduler}")
    built = sorted(modules.build(kernel).glob("*.ko"))
    files = {path.name: path for path in [*built, *available]}
    out = rundir.new_folder(given.out, f"verify-{given.scheduler}")
    with rundir.owned(out):
        guests = verify.guests(kernel, given.scheduler, files.values(), chosen, out / "guests")
        return _carry_out_checks(given, kernel, guests, out)


def _scheduler_to_verify(name: str, module: Path | None) -> list[Path]:
    """The user's module, if there is one; an error if nothing has such a scheduler."""
    if module is None:
        known = [*modules.KERNELS_OWN, *modules.own_schedulers()]
        if name not in known:
            raise unknown("scheduler", name, known)
        return []
    held = modules.scheduler_of(module)
    if held != name:
        raise RequestError(f"{module} holds the scheduler {held}, not {name}")
    return [module.absolute()]


def _checks(names: list[str] | None) -> list[verify.Check]:
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
    total = sum(len(guest.checks) for guest in guests)
    begin = time.monotonic()
    try:
        with _progress(total, 0, quiet=given.json, what="checking") as step:
            verify.run(
                guests,
                lambda result: step(
                    f"{result.check.name} on {result.place}",
                    {"fail": "FAILED", "skip": "skipped", "pass": "passed"}[result.state],
                ),
            )
    except execute.StoppedError:
        _error.print(f"triage: interrupted; logs of what was done are in {out}")
        return _INTERRUPTED
    results = sorted(
        (result for guest in guests for result in guest.results),
        key=lambda result: (result.check.name, str(result.place)),
    )
    failed = [result for result in results if result.state == "fail"]
    record = {
        "schema": 1,
        "scheduler": given.scheduler,
        "kernel": kernel.release,
        "result": "fail" if failed else "pass",
        "seconds": round(time.monotonic() - begin, 1),
        "checks": [result.record() for result in results],
    }
    execute.write_json(out / "verify.json", record)
    if given.json:
        sys.stdout.write((out / "verify.json").read_text())
    else:
        _tell_checks(record, out)
    return 1 if failed else 0


def _tell_checks(record: dict[str, Any], out: Path) -> None:
    _print.print(verify.table(record))
    for check in record["checks"]:
        if check["result"] == "fail":
            _print.print(f"\n{check['check']} on {check['machine']}:", style="red", markup=False)
            _print.print(check["reason"], markup=False)
    count = Counter(check["result"] for check in record["checks"])
    _print.print(
        f"\n{record['scheduler']} on {record['kernel']}: {count['pass']} passed, "
        f"{count['skip']} skipped, {count['fail']} failed in {record['seconds']:.0f} s; "
        f"logs: {os.path.relpath(out)}",
        markup=False,
    )


def _run(given: argparse.Namespace) -> int:
    experiment = experiments.find(given.experiment, _vary(given.vary))
    machine = given.machine or experiment.machine
    _require_known(machine, given)
    with _measuring_alone(machine), _disk(given, machine) as held:
        setup, kernel_release = _setup(given, experiment, machine, held)
        out = _out(given)
        with rundir.owned(out):
            return _measure(given, setup, kernel_release, out)


def _require_known(machine: str, given: argparse.Namespace) -> None:
    """The machine is one, and Dask can have it."""
    if machine not in ("host", "sim", "vm"):
        raise unknown("machine", machine, ["host", "sim", "vm"])
    if given.dask and machine != "sim":
        raise RequestError(
            f"--dask is for sim: what {machine} measures on one computer "
            "cannot be compared with another's"
        )


@dataclass(frozen=True)
class _Part:
    """A measure of the study, made ready."""

    measure: study.Measure
    setup: plan.Setup
    release: str

    @property
    def machine(self) -> str:
        return self.setup.points[0].machine.name


def _study(given: argparse.Namespace) -> int:
    whole = study.load(quick=given.quick)
    _schedulers(given.schedulers, (), {})
    machine = given.machine or "sim"
    _require_known(machine, given)
    with _disk(given, machine) as held:
        parts, left_out = _parts(given, whole, held)
        out = _folder(given, "study", studyreport.RECORD)
        with rundir.owned(out):
            quick = _to_take_over(given, held, out)
            return _measure_study(given, parts, left_out, quick, out)


def _parts(
    given: argparse.Namespace, whole: study.Study, held: host.Held | None
) -> tuple[list[_Part], dict[str, str]]:
    """The measures that can be had on what the user chose, and why the others cannot."""
    parts, left_out = [], {}
    for measure in whole.measures:
        wanted = argparse.Namespace(**vars(given))
        wanted.repeats = given.repeats if given.repeats is not None else measure.repeats
        experiment = measure.found()
        if measure.schedulers:
            experiment = replace(experiment, schedulers=tuple(measure.schedulers))
        try:
            setup, release = _setup(wanted, experiment, given.machine or experiment.machine, held)
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
    """The measures of the quick study, where `out` has that and the whole one is asked for."""
    record = out / studyreport.RECORD
    if not record.exists() or samples.read_json(record)["quick"] == given.quick:
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
    """Carry out all measures as one plan: those in virtual time first, side by side."""
    rundir.require_space(out)
    # All of them are checked before the first is changed, and the record is the last to change:
    # who is stopped on the way can ask for the whole again.
    begun = [
        rundir.planned(part.setup, part.release, out / name, quick.get(name))
        for part in parts
        for name in [part.measure.name]
    ]
    for there in begun:
        rundir.begin(there)
    planned = {there.out.name: there.runs for there in begun}
    studyreport.record(out, quick=given.quick, left_out=left_out)
    total = sum(map(len, planned.values()))
    left = {
        machine: [
            task
            for part in parts
            if part.machine == machine
            for task in rundir.left(planned[part.measure.name], out / part.measure.name)
        ]
        for machine in sorted({part.machine for part in parts}, key=lambda name: name != "sim")
    }
    results = []
    try:
        with _progress(total, total - sum(map(len, left.values())), quiet=False) as step:
            for machine, tasks in left.items():
                with _measuring_alone(machine):
                    results += execute.execute(tasks, _executor(given, machine), _tells(step))
    except execute.StoppedError:
        return _tell_interrupted(_resume_study(given, out))
    for name, runs in planned.items():
        if any(execute.is_done(out / name / "runs" / run.id) for run in runs):
            rundir.conclude(runs, out / name)
    failed = [result for result in results if result.reason]
    _tell_failed(failed)
    if len(failed) == total:
        raise LabError(f"every run failed; what they left is in {out}")
    _tell_study(out)
    if failed:
        _tell_again(len(failed), total, _resume_study(given, out))
    return 1 if failed else 0


@contextlib.contextmanager
def _measuring_alone(machine: str) -> Iterator[None]:
    """In real time a second experiment would be in the first one's figures."""
    if machine == "sim":
        yield
        return
    with rundir.exclusive(
        REAL_TIME_LOCK,
        "another triage is measuring in real time on this computer; "
        "wait for it, or use --machine sim",
    ):
        yield


@contextlib.contextmanager
def _disk(given: argparse.Namespace, machine: str) -> Iterator[host.Held | None]:
    """The disk of this computer that --machine host runs on, held; None for other machines."""
    if machine != "host":
        if given.allow_write:
            raise RequestError("--allow-write is for --machine host: no other has anything to lose")
        yield None
        return
    host.require_root()
    tools.require(tools.RUN_ON_HOST)
    for told in putback.recover():
        _error.print(f"triage: {told}", style="yellow", markup=False, soft_wrap=True)
    if given.kernel not in (None, "running", os.uname().release):
        raise RequestError(f"--kernel {given.kernel}: host runs {os.uname().release}, which is up")
    if given.device is None:
        raise RequestError("--machine host needs a disk to run on: add --device /dev/X")
    with host.held(disks.find(given.device), given.allow_write) as held:
        yield held


def _setup(
    given: argparse.Namespace,
    experiment: experiments.Experiment,
    machine: str,
    held: host.Held | None,
) -> tuple[plan.Setup, str]:
    """Everything the request names, found and made ready; an error before anything is run."""
    repeats = experiment.repeats if given.repeats is None else given.repeats
    if repeats < 1:
        raise RequestError(f"--repeats {repeats}: expected 1 or more")
    extra = {modules.scheduler_of(path): path.absolute() for path in given.module}
    schedulers = _schedulers(given.schedulers, experiment.schedulers, extra)
    changes = _settings(given, experiment, schedulers)
    if held:
        if experiment.application:
            raise RequestError(
                f"{experiment.name} has an application, whose file system would overwrite "
                f"{held.disk.path}; use --machine sim or vm"
            )
        for name in filter(settings.is_virtual, (*changes, *_vary(given.vary))):
            raise RequestError(f"{name}: {held.disk.path} and this computer are what they are")
    experiment = replace(experiment, fixed={**experiment.fixed, **changes})
    if held:
        return _setup_on(held, given, experiment, schedulers, repeats), os.uname().release
    device = given.device or experiment.device
    chosen = [settings.split(experiment.values_at(where)) for where in experiment.points]
    on = [devices.find(device, at.device) for at in chosen]

    tools.require(tools.RUN)
    kernel = kernels.find(given.kernel or kernels.DEFAULT_SERIES)
    available = extra | _built(kernel, schedulers, on[0])
    driver = on[0].module
    if driver and driver not in available and not guest.has_module(kernel, driver):
        raise RequestError(f"kernel {kernel.release} has no {driver}, which {device} needs")
    with_cpus = functools.cache(lambda cpus: machines.make(machine, kernel, cpus))
    setup = plan.Setup(
        experiment=experiment,
        schedulers=schedulers,
        repeats=repeats,
        points=[
            plan.Point(where, with_cpus(at.cpus), found, at.tunables)
            for where, at, found in zip(experiment.points, chosen, on, strict=True)
        ],
        modules=available,
        seed=1,
        image=applications.image(experiment.application, kernel)
        if experiment.application
        else None,
    )
    return setup, kernel.release


def _setup_on(
    held: host.Held,
    given: argparse.Namespace,
    experiment: experiments.Experiment,
    schedulers: tuple[str, ...],
    repeats: int,
) -> plan.Setup:
    """The same for a disk of this computer."""
    experiment, virtual = experiment.on_hardware()
    workloads = [experiment.workload_at(where) for where in experiment.points]
    for workload in workloads:
        workload.require_device_alone()
    writing = {job.name for workload in workloads for job in workload.jobs if job.writes}
    if writing and not given.allow_write:
        raise RequestError(
            f"{', '.join(sorted(writing))} would write to {held.disk.path}, over what it holds. "
            "Add --allow-write if nothing on it is needed any more"
        )
    extra = {modules.scheduler_of(path): path.absolute() for path in given.module}
    told = set(held.left_out)
    held.provide(schedulers, extra)
    for name, reason in held.left_out.items():
        if name in schedulers and (given.schedulers or name in extra):
            raise RequestError(f"{held.disk.path} cannot have the scheduler {name}: {reason}")
        if name not in told:
            _error.print(f"triage: {name} is left out: {reason}", markup=False, soft_wrap=True)
    return plan.Setup(
        experiment=experiment,
        schedulers=tuple(name for name in schedulers if name not in held.left_out),
        repeats=repeats,
        points=[
            plan.Point(
                where,
                held.machine,
                held.device,
                settings.split(experiment.values_at(where)).tunables,
            )
            for where in experiment.points
        ],
        modules=held.loaded,
        seed=1,
        notes=[
            *held.notes,
            *(f"{name} is not set: a disk is what it is" for name in virtual),
        ],
    )


def _built(
    kernel: kernels.Kernel, schedulers: tuple[str, ...], device: devices.Device
) -> dict[str, Path]:
    """The modules of ours that are asked for, built for `kernel`."""
    files = {name: f"{name}-iosched.ko" for name in modules.own_schedulers() if name in schedulers}
    if device.module and (modules.SOURCE / device.module).is_dir():
        files[device.module] = f"{device.module}.ko"
    if not files:
        return {}
    folder = modules.build(kernel)
    return {name: folder / file for name, file in files.items()}


def _schedulers(
    text: str | None, default: tuple[str, ...], extra: dict[str, Path]
) -> tuple[str, ...]:
    chosen = (
        tuple(text.split(","))
        if text
        else (*default, *(name for name in extra if name not in default))
    )
    known = [*modules.KERNELS_OWN, *modules.own_schedulers(), *extra]
    for name in chosen:
        if name not in known:
            raise unknown("scheduler", name, known)
    return tuple(dict.fromkeys(chosen))


def _vary(pairs: list[str]) -> dict[str, tuple[settings.Value, ...]]:
    """What --vary says: values by name, numbers as numbers."""
    vary: dict[str, tuple[settings.Value, ...]] = {}
    for pair in pairs:
        name, _, values = pair.partition("=")
        if not values:
            raise RequestError(f"--vary {pair}: expected NAME=VALUE,VALUE…")
        numbered = (int(text) if text.isdecimal() else text for text in values.split(","))
        vary[settings.plain(name)] = tuple(dict.fromkeys(numbered))
    return vary


def _settings(
    given: argparse.Namespace, experiment: experiments.Experiment, schedulers: tuple[str, ...]
) -> dict[str, settings.Value]:
    """What --set and --cpus say, by name; and that it and --vary speak of schedulers chosen."""
    changes: dict[str, settings.Value] = {}
    for pair in given.set:
        key, equals, value = pair.partition("=")
        name = settings.plain(key)
        if not equals or name.count(".") != 1:
            raise RequestError(
                f"--set {pair}: expected device.SETTING=N, model.PARAMETER=N "
                "or SCHEDULER.TUNABLE=VALUE"
            )
        changes[name] = value
    if given.cpus is not None:
        changes[settings.CPUS] = given.cpus
    for name in experiment.vary:
        if varied := experiment.set_by(name) & changes.keys():
            raise RequestError(
                f"{', '.join(varied)}: the experiment varies it; use --vary {name}=…"
            )
    for name in (*changes, *_vary(given.vary)):
        owner = settings.scheduler(name)
        if owner is not None and owner not in schedulers:
            raise unknown(f"scheduler in {name}", owner, schedulers)
    return changes


def _out(given: argparse.Namespace) -> Path:
    """The run directory: what --out says, or a new one; with --resume the newest there is."""
    return _folder(given, Path(given.experiment).stem, "environment.json")


def _folder(given: argparse.Namespace, name: str, record: str) -> Path:
    if given.out is None and given.resume:
        found = sorted(Path("results").glob(f"{name}-*/{record}"))
        if not found:
            raise RequestError(f"nothing to resume: there is no results/{name}-*")
        return found[-1].parent
    return rundir.new_folder(given.out, name, resume=given.resume)


def _tell_failed(failed: list[execute.Result]) -> None:
    for result in failed:
        _error.print(f"{result.run.id} failed: {result.reason}", style="red", markup=False)


def _tell_again(failed: int, total: int, command: str) -> None:
    _error.print(
        f"{failed} of {total} runs failed. Try them again with:\n  {command}",
        markup=False,
        soft_wrap=True,
    )


def _tell_interrupted(command: str) -> int:
    _error.print(
        f"triage: interrupted; finished runs are kept. Go on with:\n  {command}",
        markup=False,
        soft_wrap=True,
    )
    return _INTERRUPTED


def _measure(given: argparse.Namespace, setup: plan.Setup, release: str, out: Path) -> int:
    rundir.require_space(out)
    there = rundir.planned(setup, release, out)
    rundir.begin(there)
    planned = there.runs
    left = rundir.left(planned, out)
    executor = _executor(given, setup.points[0].machine.name)
    try:
        with _progress(len(planned), len(planned) - len(left), quiet=given.json) as step:
            results = execute.execute(left, executor, _tells(step))
    except execute.StoppedError:
        return _tell_interrupted(_resume(given, out))
    failed = [result for result in results if result.reason]
    _tell_failed(failed)
    if len(failed) == len(planned):
        raise LabError(f"every run failed; what they left is in {out / 'runs'}")
    rundir.conclude(planned, out)
    _tell(out, as_json=given.json)
    if failed:
        _tell_again(len(failed), len(planned), _resume(given, out))
    return 1 if failed else 0


def _tells(step: Callable[[str, str], None]) -> Callable[[execute.Result], None]:
    return lambda result: step(result.run.id, "failed" if result.reason else "done")


@contextlib.contextmanager
def _progress(
    total: int, done: int, quiet: bool, what: str = "measuring"
) -> Iterator[Callable[[str, str], None]]:
    """What to call with a name and how it ended: a bar with the time left on a terminal,
    a line each elsewhere; nothing for --json.
    """
    if quiet or not _print.is_terminal:
        count = iter(range(1, total - done + 1))
        begin = time.monotonic()

        def line(name: str, state: str) -> None:
            if quiet:
                return
            here = next(count)
            minutes = (time.monotonic() - begin) / here * (total - done - here) / 60
            left = f", {minutes:.0f} min left" if minutes >= 1 else ""
            _print.print(f"[{done + here}/{total}] {name} {state}{left}", markup=False)

        yield line
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Runs take long: the time left is reckoned from those of the last hour.
    bar = Progress(*columns, console=_print, transient=True, speed_estimate_period=3600)
    with bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda name, state: bar.advance(task)


def _resume(given: argparse.Namespace, out: Path) -> str:
    """The command that goes on with this `run`."""
    words = ["./triage", "run", given.experiment, *_options(given)]
    for path in given.module:
        words += ["--module", str(path)]
    for option in ("set", "vary"):
        for pair in getattr(given, option):
            words += [f"--{option}", pair]
    return shlex.join([*words, "--out", str(out), "--resume"])


def _resume_study(given: argparse.Namespace, out: Path) -> str:
    quick = ["--quick"] if given.quick else []
    words = ["./triage", "study", *quick, *_options(given), "--out", str(out), "--resume"]
    return shlex.join(words)


def _options(given: argparse.Namespace) -> list[str]:
    """What was given of that which `run` and `study` both take."""
    words = ["--allow-write"] if given.allow_write else []
    for option in ("schedulers", "repeats", "machine", "cpus", "device", "kernel", "dask"):
        if getattr(given, option) is not None:
            words += [f"--{option}", str(getattr(given, option))]
    return words


def _tell(out: Path, as_json: bool = False) -> None:
    """Make the report and show the table."""
    path = report.write(measured.read(out))
    text = (out / "summary.json").read_text()
    if as_json:
        sys.stdout.write(text)
        return
    environment = json.loads((out / "environment.json").read_text())
    _print.print(report.table(json.loads(text), environment))
    _print.print(f"report: {os.path.relpath(path)}", markup=False)


def _tell_study(out: Path) -> None:
    """Make all reports of a study and show its answers."""
    found = studyreport.read(out)
    path = studyreport.write(out, found)
    _print.print(studyreport.table(out, found))
    _print.print(f"report: {os.path.relpath(path)}", markup=False)
