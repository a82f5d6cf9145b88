# SPDX-License-Identifier: GPL-2.0-only
"""Build a plan.Setup from the options of `run` and `study`. plan.runs() plans the runs from it."""

import argparse
import functools
import itertools
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from triagelab.ask import devices, experiments, traces
from triagelab.base import settings, sources, tools
from triagelab.base.errors import RequestError, unknown
from triagelab.commands import telling
from triagelab.plan import plan
from triagelab.provision import guest, kernels, modules
from triagelab.run import host, image, machines


def prepare(
    given: argparse.Namespace,
    experiment: experiments.Experiment,
    machine: str,
    held: host.Held | None,
) -> tuple[plan.Setup, str]:
    """Return the plan's setup and the kernel's release.

    Find, build and check everything that the options name, so that mistakes show before any run.
    `held` is the disk for the machine `host`; None: the machine is virtual.
    """
    repeats = experiment.repeats if given.repeats is None else given.repeats
    if repeats < 1:
        raise RequestError(f"--repeats {repeats}: expected 1 or more")
    extra = {sources.scheduler_of(path): path.absolute() for path in given.module}
    schedulers = schedulers_of(given.schedulers, experiment.schedulers, extra)
    changes = _settings(given, experiment, schedulers)
    if held:
        if experiment.application:
            raise RequestError(
                f"{experiment.name} has an application, whose file system would overwrite "
                f"{held.disk.path}; use --machine sim or vm"
            )
        for name in filter(settings.is_virtual, (*changes, *values_to_vary(given.vary))):
            raise RequestError(f"{name}: the lab cannot change {held.disk.path} or this computer")
    experiment = replace(experiment, fixed={**experiment.fixed, **changes})
    if held:
        return _setup_on(held, given, experiment, schedulers, repeats, extra), os.uname().release
    if given.device:
        experiment = experiment.on(given.device)
    chosen = [settings.split(experiment.values_at(where)) for where in experiment.points]
    on = [
        devices.find(experiment.device_at(where), at.device)
        for where, at in zip(experiment.points, chosen, strict=True)
    ]

    tools.require(tools.RUN)
    kernel = kernels.find(given.kernel or kernels.DEFAULT_SERIES)
    for path in extra.values():
        modules.require_built_for(path, kernel)
    ours = [name for name in schedulers if name not in extra]
    given_files = {name: modules.kept(path) for name, path in extra.items()}
    available = given_files | _built(kernel, ours, on)
    for device in on:
        driver = device.module
        if driver and driver not in available and not guest.has_module(kernel, driver):
            raise RequestError(
                f"kernel {kernel.release} has no {driver}, which {device.name} needs"
            )
    notes = _notes(experiment, on)
    for note in notes:
        telling.error.print(f"triage: {note}")
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
        notes=notes,
        image=image.of(experiment.application, kernel) if experiment.application else None,
    )
    return setup, kernel.release


def _setup_on(
    held: host.Held,
    given: argparse.Namespace,
    experiment: experiments.Experiment,
    schedulers: tuple[str, ...],
    repeats: int,
    extra: dict[str, Path],
) -> plan.Setup:
    """Return the setup for the machine `host` and its disk `held`."""
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
    told = set(held.left_out)
    held.provide(schedulers, extra)
    for name, reason in held.left_out.items():
        if name in schedulers and (given.schedulers or name in extra):
            raise RequestError(f"{held.disk.path} cannot have the scheduler {name}: {reason}")
        if name not in told:
            telling.error.print(f"triage: {name} is left out: {reason}")
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
            *(f"{name} is not set: the lab cannot change a disk" for name in virtual),
        ],
    )


def _notes(experiment: experiments.Experiment, on: Iterable[devices.Device]) -> list[str]:
    """Return the notes about the traces that jobs replay at any point, without duplicates."""
    found = (
        traces.notes(experiment.workload_at(where), experiment.jobs_at(where), device)
        for where, device in zip(experiment.points, on, strict=True)
    )
    return list(dict.fromkeys(itertools.chain.from_iterable(found)))


def _built(
    kernel: kernels.Kernel, schedulers: Iterable[str], on: Iterable[devices.Device]
) -> dict[str, Path]:
    """Return this repository's modules that the schedulers and devices need, built for `kernel`."""
    files = {name: f"{name}-iosched.ko" for name in sources.own_schedulers() if name in schedulers}
    for driver in {device.module for device in on if device.module}:
        if (sources.MODULES / driver).is_dir():
            files[driver] = f"{driver}.ko"
    if not files:
        return {}
    built = _all_built(kernel)
    return {name: built[file] for name, file in files.items()}


@functools.cache
def _all_built(kernel: kernels.Kernel) -> dict[str, Path]:
    """Return this repository's modules, built for `kernel`, by file name.

    The result is cached for the next experiment of a study: even if all modules are built, make
    takes two seconds.
    """
    return {path.name: modules.kept(path) for path in modules.build(kernel).glob("*.ko")}


def schedulers_of(
    text: str | None, default: tuple[str, ...], extra: dict[str, Path]
) -> tuple[str, ...]:
    """Return the schedulers that `text`, the option --schedulers, names.

    If `text` is None, return `default` and the schedulers in `extra`, which --module gave.
    """
    chosen = (
        tuple(text.split(","))
        if text
        else (*default, *(name for name in extra if name not in default))
    )
    known = [*sources.KERNELS_OWN, *sources.own_schedulers(), *extra]
    for name in chosen:
        if name not in known:
            raise unknown("scheduler", name, known)
    return tuple(dict.fromkeys(chosen))


def values_to_vary(pairs: list[str]) -> dict[str, tuple[settings.Value, ...]]:
    """Parse each NAME=A,B of --vary; return the values by name, with numbers as int."""
    return settings.by_name(map(_values, pairs))


def _values(pair: str) -> tuple[str, str, tuple[settings.Value, ...]]:
    name, _, given = pair.partition("=")
    texts = given.split(",")
    if not all(texts):
        raise RequestError(f"--vary {pair}: expected NAME=VALUE,VALUE…")
    return f"--vary {pair}", name, settings.values(f"--vary {pair}", texts)


def _settings(
    given: argparse.Namespace, experiment: experiments.Experiment, schedulers: tuple[str, ...]
) -> dict[str, settings.Value]:
    """Return the settings of --set and --cpus by name.

    Raise RequestError if the experiment varies one of them, or if --set or --vary has a tunable of
    a scheduler that was not chosen.
    """
    changes = settings.by_name(map(_setting, given.set))
    if given.cpus is not None:
        changes[settings.CPUS] = given.cpus
    for name in experiment.vary:
        if varied := experiment.set_by(name) & changes.keys():
            raise RequestError(
                f"{', '.join(varied)}: the experiment varies it; use --vary {name}=…"
            )
    settings.require_schedulers((*changes, *values_to_vary(given.vary)), schedulers)
    return changes


def _setting(pair: str) -> tuple[str, str, settings.Value]:
    name, equals, text = pair.partition("=")
    target, _, setting = settings.plain(name).partition(".")
    if not (equals and target and setting):
        raise RequestError(
            f"--set {pair}: expected device.SETTING=N, model.PARAMETER=N or SCHEDULER.TUNABLE=VALUE"
        )
    return f"--set {pair}", name, settings.value(f"--set {pair}", text)
