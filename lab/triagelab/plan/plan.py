# SPDX-License-Identifier: GPL-2.0-only
"""Plan the runs of an experiment. A run's name contains a digest of all that determines the run."""

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triagelab.ask import traces
from triagelab.ask.devices import Device
from triagelab.ask.experiments import Experiment
from triagelab.ask.experiments import Point as Where
from triagelab.ask.fiofile import FioFile
from triagelab.base import tools
from triagelab.plan.machine import Job, Machine
from triagelab.provision.guest import FILES

#: Marks a run in which the protected job runs alone, under `none`, for comparison with other runs.
ALONE: Mapping[str, Any] = {"alone": True}

#: The jobs of a repeat start after a random delay of less than this, in µs. This limit exceeds
#: a disk's revolution, a kernel tick and the period of a scheduler's timer, so that jobs may start
#: at any phase of these.
_LATEST_START_US = 100_000


@dataclass(frozen=True)
class Point:
    """A point of the matrix, with its machine, device and tunables.

    where     varied name -> value
    tunables  scheduler -> tunable -> value
    """

    where: Where
    machine: Machine
    device: Device
    tunables: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Run:
    """One run of a machine: one scheduler, one point of the matrix, one repeat.

    content   a hash of all that determines the run. Unlike the hash in `id`, it does not depend on
              `point`, so the same run has the same `content` in a larger matrix
    point     the values that all of `points` have in common
    points    the points of the matrix for which this run counts: they differ only in values that do
              not affect the run. A run of the protected job alone counts for `point` only
    sections  the jobs that take part: the application, then those of the job file in its order
    """

    id: str
    content: str
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
    """The points of an experiment, and all that its runs have in common.

    modules  scheduler or driver -> the file of its module, unless the module is the kernel's own
    notes    remarks for a reader of the report
    image    the file with the application's file system; None: the experiment has no application
    """

    experiment: Experiment
    schedulers: tuple[str, ...]
    repeats: int
    points: Sequence[Point]
    modules: Mapping[str, Path]
    seed: int
    notes: Sequence[str] = ()
    image: Path | None = None


@dataclass(frozen=True)
class _Entry:
    """A run that each repeat has once: the jobs `sections` under `scheduler`, for all of `points`.

    named  the values that these points have in common
    """

    scheduler: str
    sections: tuple[str, ...]
    points: tuple[Point, ...]
    named: Mapping[str, Any]


def runs(setup: Setup) -> list[Run]:
    """Return every run of the experiment, repeat after repeat, each repeat in a random order."""
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
    """Return the entries of all points under a scheduler. Each repeat has a run for each entry."""
    return _alike(
        setup,
        scheduler,
        [(point, setup.experiment.jobs_at(point.where)) for point in setup.points],
    )


def _alone(setup: Setup) -> list[_Entry]:
    """Return the entries of the protected job alone, under `none`.

    Return [] if there is no protected job, or if no run has more than one job. Points that differ
    only in settings without an effect on the protected job share one entry.
    """
    protected = setup.experiment.protected
    if protected is None or not any(len(entry.sections) > 1 for entry in _under(setup, "none")):
        return []
    entries = _alike(setup, "none", [(point, (protected,)) for point in setup.points])
    return [replace(entry, named={**entry.named, **ALONE}) for entry in entries]


def _alike(
    setup: Setup, scheduler: str, wanted: list[tuple[Point, tuple[str, ...]]]
) -> list[_Entry]:
    """Return an entry for each group of points that need the same run.

    `wanted` has each point with its jobs; a point without a job gets no entry. The points of a
    group may differ in another scheduler's tunables, or in a job that takes no part.
    """
    groups: dict[str, list[tuple[Point, tuple[str, ...]]]] = {}
    for point, sections in wanted:
        workload = setup.experiment.workload_at(point.where)
        text = _job_file(workload, point.device, 0, sections)
        machine = dict(point.machine.determines)
        told = setup.experiment.application_at(point.where)
        content = json.dumps([text, told, _settings(point, scheduler), machine])
        groups.setdefault(content, []).append((point, sections))
    entries = []
    for members in groups.values():
        points = tuple(point for point, _ in members)
        common = set.intersection(*(set(point.where.items()) for point in points))
        named = {name: value for name, value in points[0].where.items() if (name, value) in common}
        if members[0][1]:
            entries.append(_Entry(scheduler, members[0][1], points, named))
    return entries


def _run(setup: Setup, entry: _Entry, repeat: int) -> Run:
    # In a repeat, all schedulers get the same seed, so that their loads are equal.
    seed = setup.seed * 1000 + repeat
    scheduler, point = entry.scheduler, entry.points[0]
    workload = setup.experiment.workload_at(point.where)
    files: dict[str, Path | str] = {
        "run": (FILES / "measure").read_text(),
        "settings": _settings(point, scheduler) + f"START_LATER_S={_start_later(seed)}\n",
    }
    if text := _job_file(workload, point.device, seed, entry.sections):
        files["job.fio"] = text
    files |= traces.files(workload, entry.sections, point.device)
    files |= _application(setup, point, seed)
    needed = (scheduler, point.device.module)
    ours = tuple(setup.modules[name] for name in needed if name and name in setup.modules)
    job = Job(files, ours, _memory_mb(setup, workload, entry.sections))
    determines = {
        "machine": dict(point.machine.determines),
        # A Path is the application's image or a trace's iolog. The name of its folder contains a
        # digest of the content, or of all that determines the content.
        "files": {
            name: content if isinstance(content, str) else content.parent.name
            for name, content in files.items()
        },
        "modules": [tools.sha256(path) for path in ours],
        "memory_mb": job.memory_mb,
        "seed": seed,
    }
    alone = bool(entry.named.get("alone"))
    digest = _digest({**determines, "point": dict(entry.named)})
    name = "-".join([scheduler, *_words(entry.named), f"r{repeat}", digest])
    return Run(
        name,
        _digest({**determines, "alone": alone}),
        scheduler,
        entry.named,
        (entry.named,) if alone else tuple(point.where for point in entry.points),
        repeat,
        seed,
        entry.sections,
        point.machine,
        point.device,
        job,
    )


def _job_file(workload: FioFile, device: Device, seed: int, sections: tuple[str, ...]) -> str:
    """Return the text of the job file for fio; empty if only the application takes part."""
    if not any(job.name in sections for job in workload.jobs):
        return ""
    return workload.prepared(device.blocks, seed, sections)


def _digest(of: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:12]


def _application(setup: Setup, point: Point, seed: int) -> dict[str, Path | str]:
    """Return the files that a guest needs to run the application; {} if there is no application.

    The keys are the files' names in the job's folder.
    """
    if setup.image is None or setup.experiment.application is None:
        return {}
    told = setup.experiment.application_at(point.where) | {"SEED": str(seed)}
    return {
        "image": setup.image,
        "application": setup.experiment.application.script("run"),
        "system": (FILES / "system").read_text(),
        "with-application": (FILES / "with-application").read_text(),
        "told": "".join(f"export {name}={_quoted(text)}\n" for name, text in told.items()),
    }


#: Memory that a guest needs for each fio process, in MiB. The usual memory is enough for a few
#: processes.
_PROCESS_MB = 4


def _memory_mb(setup: Setup, workload: FioFile, sections: tuple[str, ...]) -> int:
    application = setup.experiment.application
    usual = application.memory_mb if application else Job.memory_mb
    taking_part = [job for job in workload.jobs if job.name in sections]
    needed = _PROCESS_MB * sum(job.processes for job in taking_part)
    # A power of two, so that few sizes occur: the cache keeps a booted guest's state for each size.
    return usual if needed <= usual else 1 << (needed - 1).bit_length()


def _words(named: Mapping[str, Any]) -> list[str]:
    """Return the words that stand for a point in a run's name: NAME=VALUE, or `alone`."""
    words = ["alone" if ALONE.get(key) else f"{key}={value}" for key, value in named.items()]
    return [re.sub(r"[^\w.=-]", "_", word) for word in words]


def _settings(point: Point, scheduler: str) -> str:
    """Return the file `settings` for the script `measure`: shell assignments and two functions."""
    tunables = [
        f'\ttunable_set "$1" {_quoted(name)} {_quoted(value)}'
        for name, value in point.tunables.get(scheduler, {}).items()
    ]
    return "\n".join(
        [
            f"DEVICES={_quoted(' '.join(point.device.blocks))}",
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


def _start_later(seed: int) -> str:
    """Return the random delay before a repeat's jobs start, in seconds; the seed determines it."""
    return f"{random.Random(seed).randrange(_LATEST_START_US) / 1e6:.6f}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
