# SPDX-License-Identifier: GPL-2.0-only
"""The plan of an experiment: its runs, each with a name that says all that determines it."""

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triagelab import modules, tools
from triagelab.devices import Device
from triagelab.experiments import Experiment
from triagelab.guest import FILES, Base
from triagelab.machines import Job, Machine

#: The matrix point of the protected job with nothing beside it, on `none`: what it is compared to.
ALONE: Mapping[str, Any] = {"alone": True}


@dataclass(frozen=True)
class Run:
    """One boot: one scheduler, one point of the matrix, one repeat.

    sections  the jobs of the workload that take part, in fio's order
    """

    id: str
    scheduler: str
    point: Mapping[str, Any]
    repeat: int
    seed: int
    sections: tuple[str, ...]
    job: Job


@dataclass(frozen=True)
class Setup:
    """All that the runs of an experiment have in common.

    modules   scheduler or driver name -> the file that has it, for those not the kernel's own
    tunables  scheduler -> tunable -> value
    """

    experiment: Experiment
    schedulers: tuple[str, ...]
    repeats: int
    machine: Machine
    base: Base
    device: Device
    modules: Mapping[str, Path]
    tunables: Mapping[str, Mapping[str, str]]
    seed: int


def runs(setup: Setup) -> list[Run]:
    """Every run of the experiment, a repeat after another, each repeat in an order of its own."""
    shuffle = random.Random(setup.seed)
    jobs = tuple(dict.fromkeys(job.name for job in setup.experiment.workload.jobs))
    planned: list[Run] = []
    for repeat in range(setup.repeats):
        points: list[tuple[str, Mapping[str, Any], tuple[str, ...]]] = [
            (scheduler, point, jobs)
            for point in setup.experiment.points
            for scheduler in setup.schedulers
        ]
        if setup.experiment.protected and len(jobs) > 1:
            points.append(("none", ALONE, (setup.experiment.protected,)))
        shuffle.shuffle(points)
        planned += [_run(setup, *point, repeat) for point in points]
    return planned


def _run(
    setup: Setup, scheduler: str, point: Mapping[str, Any], sections: tuple[str, ...], repeat: int
) -> Run:
    # The same for every scheduler, so that a repeat compares like with like.
    seed = setup.seed * 1000 + repeat
    files: dict[str, Path | str] = {
        "run": (FILES / "measure").read_text(),
        "settings": _settings(setup, scheduler),
        "job.fio": setup.experiment.workload_at(point).prepared(setup.device.block, seed, sections),
    }
    needed = (scheduler, setup.device.module)
    ours = tuple(setup.modules[name] for name in needed if name in setup.modules)
    job = Job(files, ours, seed)
    determines = {
        "base": setup.base.key,
        "qemu": tools.qemu_version(),
        "machine": [*setup.machine.qemu, *setup.machine.arguments],
        "files": files,
        "modules": [modules.sha256(path) for path in ours],
        "seed": seed,
        "point": dict(point),
    }
    digest = hashlib.sha256(json.dumps(determines, sort_keys=True).encode()).hexdigest()[:12]
    where = ["alone"] if point == ALONE else [f"{key}={value}" for key, value in point.items()]
    name = "-".join([scheduler, *where, f"r{repeat}", digest])
    return Run(name, scheduler, point, repeat, seed, sections, job)


def _settings(setup: Setup, scheduler: str) -> str:
    """What the guest's `measure` is told: shell assignments and two functions."""
    folder = f"/sys/block/{setup.device.block}/queue/iosched"
    tunables = [
        f"\techo {_quoted(value)} > {folder}/{name} || return 1"
        for name, value in setup.tunables.get(scheduler, {}).items()
    ]
    return "\n".join(
        [
            f"DEVICE={setup.device.block}",
            f"SCHEDULER={_quoted(scheduler)}",
            f"SCHEDULER_TAGS={setup.device.scheduler_tags or ''}",
            "tunables_set() {",
            *tunables,
            "\treturn 0",
            "}",
            setup.device.device_up,
            "",
        ]
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
