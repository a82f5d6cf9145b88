# SPDX-License-Identifier: GPL-2.0-only
"""The plan of an experiment: its runs, each with a name that says all that determines it."""

import hashlib
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triagelab import modules, settings, tools
from triagelab.devices import Device
from triagelab.experiments import Experiment
from triagelab.experiments import Point as Where
from triagelab.guest import FILES, Base
from triagelab.machines import Job, Machine

#: What the point has of a protected job with nothing beside it, on `none`: what it is compared to.
ALONE: Mapping[str, Any] = {"alone": True}


@dataclass(frozen=True)
class Point:
    """A point of the matrix, and what is measured there.

    where     what has which value
    tunables  scheduler -> tunable -> value
    """

    where: Where
    machine: Machine
    device: Device
    tunables: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Run:
    """One boot: one scheduler, one point of the matrix, one repeat.

    point     what of the matrix makes a difference to it
    points    the points it stands for: those that differ in nothing that concerns it
    sections  the jobs of the workload that take part, in fio's order
    """

    id: str
    scheduler: str
    point: Mapping[str, Any]
    points: tuple[Mapping[str, Any], ...]
    repeat: int
    seed: int
    sections: tuple[str, ...]
    machine: Machine
    device: Device
    job: Job


@dataclass(frozen=True)
class Setup:
    """All that the runs of an experiment have in common, and its points.

    modules  scheduler or driver name -> the file that has it, for those not the kernel's own
    """

    experiment: Experiment
    schedulers: tuple[str, ...]
    repeats: int
    base: Base
    points: Sequence[Point]
    modules: Mapping[str, Path]
    seed: int


@dataclass(frozen=True)
class _Entry:
    """What is run in each repeat: `point` with its settings, named and stood for as in Run."""

    scheduler: str
    point: Point
    named: Mapping[str, Any]
    stands_for: tuple[Mapping[str, Any], ...]
    sections: tuple[str, ...]


def runs(setup: Setup) -> list[Run]:
    """Every run of the experiment, a repeat after another, each repeat in an order of its own."""
    shuffle = random.Random(setup.seed)
    entries = [
        *(entry for name in setup.schedulers for entry in _under(setup, name)),
        *_alone(setup),
    ]
    planned: list[Run] = []
    for repeat in range(setup.repeats):
        shuffled = shuffle.sample(entries, len(entries))
        planned += [_run(setup, entry, repeat) for entry in shuffled]
    return planned


def _under(setup: Setup, scheduler: str) -> list[_Entry]:
    """The points under a scheduler, once where they differ in another's tunables alone."""

    def matters(name: str) -> bool:
        owners = {settings.scheduler(key) for key in setup.experiment.set_by(name)}
        return bool(owners & {None, scheduler})

    return [
        _Entry(scheduler, points[0], named, tuple(point.where for point in points), sections)
        for named, points in _grouped(setup, matters)
        if (sections := _jobs(setup, points[0]))
    ]


def _alone(setup: Setup) -> list[_Entry]:
    """The protected job alone, wherever the matrix makes a difference to it."""
    protected = setup.experiment.protected
    if protected is None or all(_jobs(setup, point) == (protected,) for point in setup.points):
        return []

    def matters(name: str) -> bool:
        return any(
            settings.scheduler(key) is None
            if settings.is_setting(key)
            else setup.experiment.workload.uses(key, protected)
            for key in setup.experiment.set_by(name)
        )

    entries = []
    for named, points in _grouped(setup, matters):
        where = {**named, **ALONE}
        entries.append(_Entry("none", points[0], where, (where,), (protected,)))
    return entries


def _grouped(
    setup: Setup, matters: Callable[[str], bool]
) -> list[tuple[Mapping[str, Any], list[Point]]]:
    """The points by what of them matters."""
    names = [name for name in setup.experiment.vary if matters(name)]
    groups: dict[str, tuple[Mapping[str, Any], list[Point]]] = {}
    for point in setup.points:
        named = {name: point.where[name] for name in names}
        groups.setdefault(json.dumps(named), (named, []))[1].append(point)
    return list(groups.values())


def _jobs(setup: Setup, point: Point) -> tuple[str, ...]:
    workload = setup.experiment.workload_at(point.where)
    return tuple(dict.fromkeys(job.name for job in workload.jobs))


def _run(setup: Setup, entry: _Entry, repeat: int) -> Run:
    # The same for every scheduler, so that a repeat compares like with like.
    seed = setup.seed * 1000 + repeat
    scheduler, point = entry.scheduler, entry.point
    workload = setup.experiment.workload_at(point.where)
    files: dict[str, Path | str] = {
        "run": (FILES / "measure").read_text(),
        "settings": _settings(point, scheduler),
        "job.fio": workload.prepared(point.device.block, seed, entry.sections),
    }
    needed = (scheduler, point.device.module)
    ours = tuple(setup.modules[name] for name in needed if name in setup.modules)
    job = Job(files, ours, seed)
    determines = {
        "base": setup.base.key,
        "qemu": tools.qemu_version(),
        "machine": [*point.machine.qemu, *point.machine.arguments],
        "files": files,
        "modules": [modules.sha256(path) for path in ours],
        "seed": seed,
        "point": dict(entry.named),
    }
    digest = hashlib.sha256(json.dumps(determines, sort_keys=True).encode()).hexdigest()[:12]
    name = "-".join([scheduler, *_words(entry.named), f"r{repeat}", digest])
    return Run(
        name,
        scheduler,
        entry.named,
        entry.stands_for,
        repeat,
        seed,
        entry.sections,
        point.machine,
        point.device,
        job,
    )


def _words(named: Mapping[str, Any]) -> list[str]:
    """A point in the name of a folder."""
    words = ["alone" if ALONE.get(key) else f"{key}={value}" for key, value in named.items()]
    return [re.sub(r"[^\w.=-]", "_", word) for word in words]


def _settings(point: Point, scheduler: str) -> str:
    """What the guest's `measure` is told: shell assignments and two functions."""
    folder = f"/sys/block/{point.device.block}/queue/iosched"
    tunables = [
        f"\techo {_quoted(value)} > {folder}/{name} || return 1"
        for name, value in point.tunables.get(scheduler, {}).items()
    ]
    return "\n".join(
        [
            f"DEVICE={point.device.block}",
            f"SCHEDULER={_quoted(scheduler)}",
            f"SCHEDULER_TAGS={point.device.scheduler_tags or ''}",
            f"COUNT_LOCKS={'1' if point.machine.counts_locks else ''}",
            "tunables_set() {",
            *tunables,
            "\treturn 0",
            "}",
            point.device.device_up,
            "",
        ]
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
