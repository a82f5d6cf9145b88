# SPDX-License-Identifier: GPL-2.0-only
"""Manage a run directory: lock it, plan its runs, and find the runs that remain."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from triagelab.ask import devices
from triagelab.base import cache, files, tools
from triagelab.base.errors import LabError, RequestError
from triagelab.base.version import version
from triagelab.plan import plan
from triagelab.run import execute, machines, records

_LEAST_FREE_BYTES = 512 << 20
_NOT_ASKED_FOR = {"runs", "taken_over"}  # keys of environment.json that no option of the user sets


@dataclass(frozen=True)
class Planned:
    """The plan of a run directory.

    environment  the content of environment.json
    earlier      the runs of the smaller plan that made the directory; empty without such a plan
    """

    out: Path
    runs: list[plan.Run]
    environment: dict[str, Any]
    earlier: list[plan.Run]


@contextlib.contextmanager
def owned(out: Path) -> Iterator[None]:
    """Make the folder `out`, and lock it, so that no other process of the lab writes there."""
    with cache.handed_over(out):
        out.mkdir(parents=True, exist_ok=True)
        with files.exclusive(
            out / ".lock", f"another triage is writing {out}; wait for it, or give another --out"
        ):
            # Delete the temporary files of a process that was killed while it wrote.
            for left in out.rglob(f"*{files.PART}"):
                left.unlink(missing_ok=True)
            yield


def new_folder(out: Path | None, name: str, resume: bool | None = None) -> Path:
    """Return the folder `out`. If it is None, return a path in results/ with `name` and the time.

    Raise RequestError if `out` is a file, if it has files and `resume` is not True, or if it does
    not exist and `resume` is True. `resume` is None if the command has no option --resume.
    """
    if out is None:
        return Path("results") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    if out.exists() and not out.is_dir():
        raise RequestError(f"--out {out} is a file; give a folder")
    if resume and not out.exists():
        raise RequestError(
            f"nothing to resume: {out} does not exist; to begin there, leave out --resume"
        )
    if out.is_dir() and any(entry.name != ".lock" for entry in out.iterdir()) and not resume:
        hint = "" if resume is None else ", or --resume to go on with it"
        raise RequestError(f"--out {out} exists; give another{hint}")
    return out


def _environment(
    setup: plan.Setup, release: str, planned: list[plan.Run], taken_over: int
) -> dict[str, Any]:
    experiment, first = setup.experiment, setup.points[0]
    machine = first.machine
    varied = {name for of in experiment.vary for name in experiment.set_by(of)}
    replaced = experiment.workload.replaced()
    return {
        "schema": 1,
        "version": version(),
        "experiment": experiment.name,
        "title": experiment.title,
        "question": experiment.question,
        "machine": machine.name,
        "machine_description": machine.description,
        "cpus": machine.cpus,
        "device": _described([point.device for point in setup.points]),
        "kernel": release,
        "qemu": machine.determines.get("qemu"),
        "fio": tools.fio_version(),
        "schedulers": list(setup.schedulers),
        "protected": experiment.protected,
        "background": list(experiment.background),
        "judged_by": list(experiment.judged_by),
        "deadlines": dict(experiment.deadlines),
        "vary": {
            name: {str(value): dict(case) for value, case in cases.items()}
            for name, cases in experiment.vary.items()
        },
        "repeats": setup.repeats,
        "seed": setup.seed,
        "modules": {name: {"sha256": tools.sha256(path)} for name, path in setup.modules.items()},
        "tunables": {
            name: {key: value for key, value in values.items() if f"{name}.{key}" not in varied}
            for name, values in first.tunables.items()
        },
        "application": experiment.application.name if experiment.application else None,
        "notes": [
            *(f"replaced in the job file by the lab's own: {line}" for line in replaced),
            *setup.notes,
            *_not_interleaved(machine.name, taken_over),
        ],
        "taken_over": taken_over,
        "runs": [run.id for run in planned],
    }


def _described(on: list[devices.Device]) -> dict[str, Any]:
    """Describe the device for environment.json.

    `on` has the device of each point. If the points have different devices, give only the names,
    the number and the parts of these devices.
    """
    first, names = on[0], list(dict.fromkeys(device.name for device in on))
    several = len(names) > 1
    parts = {name: asdict(part) for device in on for name, part in device.parts.items()}
    return {
        "name": ", ".join(names),
        "settings": {} if several else dict(first.settings),
        "capacity_iops": None if several else first.capacity_iops,
        "description": f"{len(names)} devices" if several else first.description,
        "parts": parts,
    }


def _not_interleaved(machine: str, taken_over: int) -> list[str]:
    """Return a note if runs in real time were taken over from an earlier plan; else no note.

    Such runs were measured at another time than the other runs, when the computer may have been
    more or less busy.
    """
    if not taken_over or machines.kind(machine).in_virtual_time:
        return []
    return [
        f"{taken_over} of the runs were measured before the others, by the quick study, "
        "and are interleaved only with each other"
    ]


def planned(setup: plan.Setup, release: str, out: Path, part: plan.Setup | None = None) -> Planned:
    """Plan all runs of an experiment for `out`; raise an error if `out` was made by another plan.

    `out` may have been made by `part`, a smaller plan of the same experiment. If this plan includes
    all runs of `part`, they are in `earlier` of the returned plan. Write nothing.
    """
    runs = plan.runs(setup)
    if not (out / "environment.json").exists():
        return Planned(out, runs, _environment(setup, release, runs, 0), [])
    then = records.read_environment(out)
    if part and then["runs"] != [run.id for run in runs]:
        earlier = plan.runs(part)
        _refuse_other(then, _environment(part, release, earlier, 0), out)
        if {run.content for run in earlier} <= {run.content for run in runs}:
            done = sum(records.is_done(out / "runs" / run.id) for run in earlier)
            return Planned(out, runs, _environment(setup, release, runs, done), earlier)
    environment = _environment(setup, release, runs, then.get("taken_over", 0))
    _refuse_other(then, environment, out)
    return Planned(out, runs, environment, [])


def begin(planned: Planned) -> None:
    """Write environment.json; rename and adapt the folders of the earlier plan's runs, if any."""
    by_name = {run.id: run for run in planned.runs}
    by_content = {run.content: run for run in planned.runs}
    runs = planned.out / "runs"
    for was in planned.earlier:
        folder = runs / was.id
        if folder.exists():
            run = by_name.get(was.id) or by_content[was.content]
            execute.take_over(folder, run, runs / run.id)
    planned.out.mkdir(parents=True, exist_ok=True)
    files.write_json(planned.out / "environment.json", planned.environment)


def left(planned: list[plan.Run], out: Path) -> list[execute.Task]:
    """Return the runs that have not been done or have failed, each with its folder."""
    tasks = [(run, out / "runs" / run.id) for run in planned]
    return [(run, folder) for run, folder in tasks if not records.is_done(folder)]


def conclude(planned: list[plan.Run], out: Path) -> None:
    """Write the device's settings, as the finished runs reported them, into environment.json.

    If the runs have different devices, write nothing: each run's folder has its own settings.
    """
    if len({run.device.name for run in planned}) > 1:
        return
    environment = records.read_environment(out)
    seen: dict[str, dict[str, None]] = {}
    for run in planned:
        folder = out / "runs" / run.id
        if records.is_done(folder):
            for name, value in devices.was_set_to(run.device, folder / "out").items():
                seen.setdefault(name, {})[value] = None
    environment["device"]["settings"] = {
        name: " or ".join(sorted(values, key=_by_size)) for name, values in seen.items()
    }
    files.write_json(out / "environment.json", environment)


def _by_size(value: str) -> tuple[int, str]:
    """Return a sort key: texts that are not numbers come first, then numbers by value."""
    return int(value) if value.isdecimal() else -1, value


def require_space(out: Path) -> None:
    """Raise an error if the disk of `out` is nearly full."""
    free = shutil.disk_usage(out).free
    if free < _LEAST_FREE_BYTES:
        raise LabError(
            f"only {free >> 20} MiB free for {out}, {_LEAST_FREE_BYTES >> 20} are needed; "
            "make room, or give --out a folder elsewhere"
        )


def _refuse_other(then: dict[str, Any], now: dict[str, Any], out: Path) -> None:
    """Raise an error that names the differences if `out` was made by another plan."""
    if then["runs"] == now["runs"]:
        return
    differ = [key for key in now if key not in _NOT_ASKED_FOR and then.get(key) != now[key]] or [
        "the lab itself"
    ]
    raise RequestError(
        f"{out} was measured differently ({', '.join(differ)}): "
        "repeat the command it was made with, or give another --out"
    )
