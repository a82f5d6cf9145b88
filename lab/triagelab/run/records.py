# SPDX-License-Identifier: GPL-2.0-only
"""Read the records in a run directory: environment.json for all runs, run.json for each run."""

import json
from pathlib import Path
from typing import Any

from triagelab.base.errors import LabError, RequestError

Record = dict[str, Any]

#: The file that marks a folder as a study's. It holds `quick`, and `left_out`: measure -> why the
#: study does not measure it. The folder has a run directory for each measure that was run.
STUDY = "study.json"

#: Keys that every version of environment.json has.
_ALWAYS = (
    *("experiment", "title", "machine", "cpus", "device", "kernel", "fio"),
    *("schedulers", "repeats", "seed", "runs"),
)


def read_environment(out: Path) -> Record:
    """Read environment.json of a run directory; raise RequestError if there is none in `out`."""
    path = out / "environment.json"
    if not path.is_file():
        raise RequestError(f"{out} holds no results: there is no {path.name} in it.")
    environment = read_json(path)
    if absent := [key for key in _ALWAYS if key not in environment]:
        raise unusable(path, f"it does not say {', '.join(absent)}")
    return environment


def runs(out: Path) -> list[tuple[Path, Record]]:
    """Return a pair for each run that is done or has failed: its folder, and run.json's content."""
    return [(path.parent, read_json(path)) for path in sorted(out.glob("runs/*/run.json"))]


def point_key(point: Record) -> str:
    """Return a text by which points can be compared: the point as JSON with sorted keys."""
    return json.dumps(point, sort_keys=True)


def point_order(point: Record) -> list[tuple[str, bool, Any]]:
    """Return a key to sort points of a matrix: name by name, numbers by value, then texts."""
    return [(name, isinstance(point[name], str), point[name]) for name in sorted(point)]


def parts(environment: Record) -> Record:
    """Return the parts of the device that report their busy time, by name; may be empty."""
    found: Record = environment["device"].get("parts") or {}
    return found


def read_json(path: Path) -> Record:
    """Read a JSON object from a file; raise LabError if the file holds none."""
    try:
        text = path.read_text()
        # fio writes notes and warnings before the object.
        loaded = json.loads(text[max(text.find("{"), 0) :])
    except OSError as error:
        raise unusable(path, error.strerror) from error
    except ValueError as error:
        raise unusable(path, f"not JSON, {error}") from error
    if not isinstance(loaded, dict):
        raise unusable(path, "no JSON object")
    return loaded


#: The files about a whole run directory or a whole study. All other files are about one run.
_RECORDS = ("environment.json", STUDY)


def unusable(path: Path, reason: object) -> LabError:
    """Return the error for a file of a run directory that cannot be used, with advice."""
    if path.name in _RECORDS:
        advice = "Delete that file alone and repeat the command that made it with --resume"
    else:
        advice = "Delete the run's folder and use --resume to run it again"
    return LabError(f"{path}: {reason}. {advice}; all other finished runs are kept.")


def is_done(folder: Path) -> bool:
    """Return True if the run in `folder` has finished successfully."""
    record = folder / "run.json"
    return record.exists() and read_json(record).get("status") == "done"
