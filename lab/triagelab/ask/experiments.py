# SPDX-License-Identifier: GPL-2.0-only
"""Read and check experiments. Each has a question, a fio job file and a matrix of settings."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Self

from triagelab.ask import applications, drives, fiofile
from triagelab.ask.applications import Application
from triagelab.base import metrics, settings, sources, tomlfile
from triagelab.base.errors import RequestError, unknown
from triagelab.base.metrics import Of
from triagelab.base.settings import Value
from triagelab.base.tomlfile import Count, Must, Some

FOLDER = sources.ROOT / "experiments"

Case = Mapping[str, Value]
Point = Mapping[str, Value]
#: The values of a name that an experiment varies: a list, or a table of named cases.
Varied = tuple[Value, ...] | Mapping[str, Case]
tomlfile.choose(
    Varied,
    lambda given: Mapping[str, Case] if isinstance(given, dict) else tuple[Value, ...],
)
_NOT_EMPTY = Must(lambda value: value not in ([], {}), "has no value; give it some, or remove it")


@dataclass(frozen=True, kw_only=True)
class _Described:
    """The fields that an experiment takes unchanged from its file.

    protected   the latency-sensitive job, if one is known
    background  the jobs that may slow down the protected job
    deadlines   job -> latency in µs; a request of the job that takes longer is late
    judged_by   metrics of whole runs that answer the question, if a job's metrics do not
    """

    title: str
    question: str
    protected: str | None = None
    background: tuple[str, ...] = ()
    deadlines: Mapping[str, Count] = field(default_factory=dict)
    judged_by: tuple[str, ...] = ()
    machine: str = "sim"
    device: str = "flash"
    repeats: Count = 5


@dataclass(frozen=True)
class Changes:
    """Values that replace an experiment's own, in its quick variant or in the study.

    schedulers  None: as in the experiment
    repeats     None: as in the experiment
    """

    schedulers: Some[str] | None = None
    repeats: Count | None = None
    vary: Mapping[str, Some[Value]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _File(_Described):
    """The content of an experiment's file, experiment.toml."""

    application: str | None = None
    schedulers: Some[str] | None = None
    set: Mapping[str, Value] = field(default_factory=dict)
    vary: Mapping[str, Annotated[Varied, _NOT_EMPTY]] = field(default_factory=dict)
    quick: Changes | None = None


@dataclass(frozen=True, kw_only=True)
class Experiment(_Described):
    """A question with its matrix.

    application  the application, if the experiment has one; the jobs of the job file run beside
                 the application, and end when it ends
    fixed        name -> value, at each point of the matrix where `vary` does not set the name
    vary         the matrix: varied name -> value -> the names and values that this value sets

    A name in `fixed` and `vary` is a setting, or stands for ${name} in the job file or in the
    application's script.
    """

    name: str
    workload: fiofile.FioFile
    application: Application | None = None
    schedulers: tuple[str, ...] = ()
    fixed: Mapping[str, Value] = field(default_factory=dict)
    vary: Mapping[str, Mapping[Value, Case]] = field(default_factory=dict)

    @property
    def points(self) -> list[Point]:
        """Return every point of the matrix; one empty point if the experiment varies nothing."""
        combinations = itertools.product(*self.vary.values())
        return [dict(zip(self.vary, values, strict=True)) for values in combinations]

    def set_by(self, name: str) -> set[str]:
        """Return the names that any value of the varied name `name` sets."""
        return {key for case in self.vary[name].values() for key in case}

    def values_at(self, point: Point) -> dict[str, Value]:
        """Return all names that are set at a point of the matrix, with their values."""
        values = dict(self.fixed)
        for name, value in point.items():
            values |= self.vary[name][value]
        return values

    def on_hardware(self) -> tuple[Self, list[str]]:
        """Return the experiment for a real machine, and the names that are removed from it.

        These names are settings of modelled devices and of virtual machines. The matrix no longer
        varies `device`, nor a name whose values set only removed names.
        """
        names = set(self.fixed).union(*map(self.set_by, self.vary))
        left_out = sorted(filter(settings.is_virtual, names))
        vary = {
            name: {value: _real(case) for value, case in cases.items()}
            for name, cases in self.vary.items()
            if name != settings.DEVICE and not all(map(settings.is_virtual, self.set_by(name)))
        }
        return replace(self, fixed=_real(self.fixed), vary=vary), left_out

    def on(self, device: str) -> Self:
        """Return the experiment on one device, `device`, even if the matrix varies the device."""
        if settings.DEVICE not in self.vary:
            return replace(self, device=device)
        case = _on(device, self.vary[settings.DEVICE])
        return replace(self, vary={**self.vary, settings.DEVICE: {device: case}})

    def device_at(self, point: Point) -> str:
        """Return the name of the device at a point of the matrix."""
        return str(self.values_at(point).get(settings.DEVICE, self.device))

    def workload_at(self, point: Point) -> fiofile.FioFile:
        """Return the job file at a point of the matrix."""
        return replace(self.workload, values=_texts(self.values_at(point)))

    def jobs_at(self, point: Point) -> tuple[str, ...]:
        """Return the names of the jobs at a point of the matrix, the application's name first."""
        own = (self.application.name,) if self.application else ()
        return (*own, *dict.fromkeys(job.name for job in self.workload_at(point).jobs))

    def application_at(self, point: Point) -> dict[str, str]:
        """Return name -> value of the variables that the application's script uses at a point."""
        if self.application is None:
            return {}
        values = _texts(self.values_at(point))
        return {name: text for name, text in values.items() if self.application.uses(name)}


def _real(case: Case) -> Case:
    return {name: value for name, value in case.items() if not settings.is_virtual(name)}


def _texts(values: Mapping[str, Value]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def all_schedulers() -> tuple[str, ...]:
    """Return the names of the kernel's own schedulers and of this repository's."""
    return (*sources.KERNELS_OWN, *sources.own_schedulers())


def names() -> list[str]:
    """Return the names of the lab's experiments."""
    return sorted(path.parent.name for path in FOLDER.glob("*/experiment.toml"))


def find(
    name: str,
    vary: Mapping[str, tuple[Value, ...]] = MappingProxyType({}),
    *,
    quick: bool = False,
) -> Experiment:
    """Return the experiment called `name`, or one made of a fio job file (NAME.fio, or any path).

    `vary` maps names to values. For a name that the experiment varies, these values replace the
    experiment's. Any other name in `vary` becomes a varied name. `quick` applies the values under
    [quick] in the experiment's file.
    """
    if name.endswith(".fio") or "/" in name:
        if quick:
            raise RequestError(
                f"{name} is a job file, which has no quick variant: leave out --quick"
            )
        return _of_job_file(Path(name), vary)
    if name not in names():
        raise unknown("experiment", name, names())
    return _load(FOLDER / name, vary, quick)


def title(name: str) -> str:
    """Return an experiment's title; do not check the experiment's job file."""
    return tomlfile.read(FOLDER / name / "experiment.toml", _File).title


def _load(folder: Path, changes: Mapping[str, tuple[Value, ...]], quick: bool) -> Experiment:
    path = folder / "experiment.toml"
    given = tomlfile.read(path, _File)
    application = applications.find(given.application) if given.application else None
    workload = fiofile.read(folder / "workload.fio")
    fixed = _settings(f"{path}: set", given.set)
    own = settings.by_name(
        (where, name, _cases(where, name, of, fixed))
        for name, of in given.vary.items()
        for where in [f"{path}: vary.{name}"]
    )
    _require_used(path, fixed, own, workload, application)
    if quick and given.quick is None:
        raise RequestError(f"{folder.name} has no quick variant: leave out --quick")
    less = given.quick or Changes()
    fewer = to_vary(f"{path}: quick", less.vary)
    _varied(own, fewer, workload, application)  # to find mistakes in [quick] even without --quick
    described = {each.name: getattr(given, each.name) for each in fields(_Described)}
    experiment = Experiment(
        **described,
        name=folder.name,
        workload=workload,
        fixed=fixed,
        application=application,
        vary=_varied(own, fewer | dict(changes) if quick else changes, workload, application),
        schedulers=given.schedulers or all_schedulers(),
    )
    if quick:
        experiment = replace(
            experiment,
            schedulers=less.schedulers or experiment.schedulers,
            repeats=less.repeats or experiment.repeats,
        )
    _checked_jobs(experiment)
    for metric in experiment.judged_by:
        if metric not in (known := [of.name for of in metrics.of(Of.RUN, Of.JOBS)]):
            raise unknown(f"metric of whole runs in {path}: judged_by,", metric, known)
    # All jobs of the file, even those that take part at no point of the matrix.
    jobs = [section.name for section in workload.sections if section.name != fiofile.GLOBAL]
    jobs += [application.name] if application else []
    for job in filter(None, (experiment.protected, *experiment.background, *experiment.deadlines)):
        if job not in jobs:
            raise RequestError(
                f"{path}: workload.fio has no job '{job}', it has: {', '.join(jobs)}"
            )
    return experiment


def _of_job_file(path: Path, changes: Mapping[str, tuple[Value, ...]]) -> Experiment:
    """Return an experiment made of a user's job file.

    The protected job is the one with a higher I/O priority than every other job, if there is one.
    """
    if not path.is_file():
        raise RequestError(f"no job file {path}")
    workload = fiofile.read(path)
    experiment = Experiment(
        name=path.stem,
        title=f"Workload {path.name}",
        question=f"What does each scheduler make of {path.name}?",
        workload=workload,
        schedulers=all_schedulers(),
        vary=_varied({}, changes, workload),
    )
    jobs = _checked_jobs(experiment)
    protected = _most_urgent(experiment.workload_at(experiment.points[0]))
    background = tuple(job for job in jobs if protected and job != protected)
    return replace(experiment, protected=protected, background=background)


def to_vary(where: str, given: Mapping[str, tuple[Value, ...]]) -> dict[str, tuple[Value, ...]]:
    """Check the table `vary` of a file; return it with `iosched.` removed from the names."""
    vary = settings.by_name(
        (place, name, settings.values(place, values))
        for name, values in given.items()
        for place in [f"{where}.vary.{name}"]
    )
    settings.require_schedulers(vary, all_schedulers())
    return vary


def _settings(where: str, given: Mapping[str, Value]) -> dict[str, Value]:
    """Check a table of settings in a file; return it with `iosched.` removed from the names."""
    return settings.by_name(
        (place, name, settings.value(place, value))
        for name, value in given.items()
        for place in [f"{where}.{name}"]
    )


def _listed(name: str, values: tuple[Value, ...]) -> dict[Value, Case]:
    return {value: {name: value} for value in values}


def _cases(
    where: str,
    name: str,
    given: Varied,
    fixed: Mapping[str, Value],
) -> dict[Value, Case]:
    """Return the cases of a varied name: one for each value of a list, or a table's named cases.

    If only some cases set a NAME of the job file, and `fixed` does not, the other cases set it to
    the empty text. The lab then leaves out an option whose value is ${NAME}. In a table for
    `device`, the name of each case is a device, and the case also sets `device` to this name.
    """
    if isinstance(given, tuple):
        return _listed(settings.plain(name), settings.values(where, given))
    own = {settings.DEVICE} & {name}
    cases: dict[Value, dict[str, Value]] = {
        settings.value(where, label): _settings(f"{where}.{label}", case)
        | dict.fromkeys(own, label)
        for label, case in given.items()
    }
    if not any(cases.values()):
        raise RequestError(f"{where} sets nothing in any of its cases; remove it")
    nothing = {
        key: ""
        for case in cases.values()
        for key in case
        if not settings.is_setting(key) and key not in fixed
    }
    return {label: nothing | case for label, case in cases.items()}


def _on(device: Value, cases: Mapping[Value, Case]) -> Case:
    """Return the case for a device; if there is none, the case of the drive most like the device.

    So if an experiment gives slow drives more time, a user's own slow drive gets as much. If no
    drive in `cases` is like the device, the case sets only `device`.
    """
    named = [str(each) for each in cases if each in drives.names()]
    case = cases.get(device) or cases.get(drives.alike(str(device), named) or device, {})
    return {**case, settings.DEVICE: device}


def _require_used(
    path: Path,
    fixed: Mapping[str, Value],
    vary: Mapping[str, Mapping[Value, Case]],
    workload: fiofile.FioFile,
    application: Application | None,
) -> None:
    """Raise RequestError if a name or a fixed value in an experiment's file has no effect."""
    tables = [("set", set(fixed))]
    tables += [(f"vary.{name}", set().union(*cases.values())) for name, cases in vary.items()]
    for table, names in tables:
        settings.require_schedulers(names, all_schedulers())
        for name in sorted(names):
            if not _is_used(name, workload, application):
                raise unknown(f"name in {path}: {table},", name, [*workload.names, *_SETTINGS])
    for varied, cases in vary.items():
        if never := fixed.keys() & set.intersection(*map(set, cases.values())):
            raise RequestError(
                f"{path}: set.{min(never)} has no effect, because vary.{varied} sets it at every "
                "point; remove one"
            )


#: How the name of a setting may look, for error messages.
_SETTINGS = (settings.CPUS, "device.SETTING", "model.PARAMETER", "SCHEDULER.TUNABLE")


def _is_used(name: str, workload: fiofile.FioFile, application: Application | None) -> bool:
    """Return whether `name` is a setting, or the job file or the application's script uses it."""
    if settings.is_setting(name) or name in workload.names:
        return True
    return application is not None and application.uses(name)


def _varied(
    own: Mapping[str, Mapping[Value, Case]],
    changes: Mapping[str, tuple[Value, ...]],
    workload: fiofile.FioFile,
    application: Application | None = None,
) -> dict[str, Mapping[Value, Case]]:
    """Return the matrix `own` with `changes`. A change replaces a name's values or adds a name."""
    varied = dict(own)
    for name, values in changes.items():
        cases = own.get(name, {})
        if name == settings.DEVICE and cases:
            varied[name] = {value: _on(value, cases) for value in values}
            continue
        if any(set(case) != {name} for case in cases.values()):  # a table of named cases
            for value in values:
                if value not in cases:
                    raise unknown(f"value of {name}", str(value), map(str, cases))
            varied[name] = {value: cases[value] for value in values}
            continue
        if name not in own and not _is_used(name, workload, application):
            raise unknown("name to vary", name, [*own, *workload.names, *_SETTINGS])
        varied[name] = _listed(name, values)
    return varied


def _checked_jobs(experiment: Experiment) -> list[str]:
    """Check the job files of all points with fio; return the names of all points' jobs."""
    files = {file.expanded: file for file in map(experiment.workload_at, experiment.points)}
    for file in files.values():
        file.require_values()
    fiofile.check([f for f in files.values() if f.jobs or not experiment.application])
    return list(dict.fromkeys(job for at in experiment.points for job in experiment.jobs_at(at)))


def _most_urgent(workload: fiofile.FioFile) -> str | None:
    """Return the job whose I/O priority is higher than that of every other job.

    Return None if several jobs share the highest priority, or if the file has only one job.
    """
    ranked = sorted(workload.jobs, key=lambda job: job.urgency)
    if len(ranked) > 1 and ranked[0].urgency < ranked[1].urgency:
        return ranked[0].name
    return None
