# SPDX-License-Identifier: GPL-2.0-only
"""Experiments: a question, a fio job file and the matrix to run it over."""

import itertools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triagelab import fiofile
from triagelab.errors import LabError, RequestError, unknown

FOLDER = Path(__file__).resolve().parents[2] / "experiments"
DEFAULT_SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq", "prio-basic")
_KEYS = {"title", "question", "protected", "background", "schedulers", "device", "repeats"}

Value = int | str


@dataclass(frozen=True)
class Experiment:
    """A question with its matrix.

    protected   the job that somebody waits for, if it is known which
    background  the jobs it is protected from
    vary        the matrix: a name and its values; ${name} in the job file stands for one of them
    """

    name: str
    title: str
    question: str
    workload: fiofile.FioFile
    protected: str | None
    background: tuple[str, ...]
    schedulers: tuple[str, ...]
    device: str
    repeats: int
    vary: Mapping[str, tuple[Value, ...]]

    @property
    def points(self) -> list[dict[str, Value]]:
        """Every point of the matrix; a single empty one if nothing is varied."""
        combinations = itertools.product(*self.vary.values())
        return [dict(zip(self.vary, values, strict=True)) for values in combinations]

    def workload_at(self, point: Mapping[str, Value]) -> fiofile.FioFile:
        """The job file at a point of the matrix."""
        return replace(self.workload, values=_texts(point))


def _texts(point: Mapping[str, Value]) -> dict[str, str]:
    return {name: str(value) for name, value in point.items()}


def names() -> list[str]:
    """The experiments that come with the lab."""
    return sorted(path.parent.name for path in FOLDER.glob("*/experiment.toml"))


def find(name: str) -> Experiment:
    """The experiment called `name`, or one made of a fio job file (NAME.fio, or any path)."""
    if name.endswith(".fio") or "/" in name:
        return _of_job_file(Path(name))
    if name not in names():
        raise unknown("experiment", name, names())
    return _load(FOLDER / name)


def title(name: str) -> str:
    """An experiment's title, without looking at its workload."""
    return str(_toml(FOLDER / name / "experiment.toml")["title"])


def _toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"{path}: {error}") from error


def _load(folder: Path) -> Experiment:
    path = folder / "experiment.toml"
    given = _toml(path)
    vary = {name: tuple(values) for name, values in given.pop("vary", {}).items()}
    if wrong := set(given) ^ _KEYS:
        raise LabError(f"{path}: keys missing or not known: {', '.join(sorted(wrong))}")
    first = {name: values[0] for name, values in vary.items()}
    workload = fiofile.read(folder / "workload.fio", _texts(first))
    jobs = [job.name for job in workload.jobs]
    for job in (given["protected"], *given["background"]):
        if job not in jobs:
            raise LabError(f"{path}: workload.fio has no job '{job}', it has: {', '.join(jobs)}")
    return Experiment(
        name=folder.name,
        workload=workload,
        vary=vary,
        **given
        | {"background": tuple(given["background"]), "schedulers": tuple(given["schedulers"])},
    )


def _of_job_file(path: Path) -> Experiment:
    """A user's own workload: the job of highest I/O priority is the one to protect."""
    if not path.is_file():
        raise RequestError(f"no job file {path}")
    workload = fiofile.read(path)
    protected = _most_urgent(workload)
    return Experiment(
        name=path.stem,
        title=f"Workload {path.name}",
        question=f"What does each scheduler make of {path.name}?",
        workload=workload,
        protected=protected,
        background=tuple(job.name for job in workload.jobs if protected and job.name != protected),
        schedulers=DEFAULT_SCHEDULERS,
        device="null",
        repeats=5,
        vary={},
    )


def _most_urgent(workload: fiofile.FioFile) -> str | None:
    """The one job whose I/O priority is above every other's, if there is one."""
    ranked = sorted(workload.jobs, key=lambda job: job.urgency)
    if len(ranked) > 1 and ranked[0].urgency < ranked[1].urgency:
        return ranked[0].name
    return None
