# SPDX-License-Identifier: GPL-2.0-only
"""Drives by name: a model's parameters, where they come from, and how well they fit.

drives/NAME.toml holds one drive each; docs/modeldisk.md says what its fields mean.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from triagelab.base import sources, tomlfile
from triagelab.base.errors import RequestError, unknown

FOLDER = sources.ROOT / "drives"

#: fit: given to the optimiser. held: predicted. seen: in view while the parameters were chosen.
#: scaled: the whole drive's, for a part of it. state: of the same drive in another state, and
#: info: of an operation that was not fitted; neither is judged.
ROLES = ("fit", "held", "seen", "scaled", "state", "info")
#: The roles that errors are stated for, the best evidence first.
PREDICTED = ("held", "scaled", "seen")

#: The judged figures of a point: the kind of error, and the largest error allowed, percent.
JUDGED: Mapping[str, tuple[str, float]] = {
    "iops": ("rate", 20),
    "mean_us": ("mean", 20),
    "p99_us": ("p99", 35),
    "writes_done": ("rate", 20),
    "read_p50_us": ("mean", 20),
    "write_p50_us": ("mean", 20),
    "read_p99_us": ("p99", 35),
    "write_p99_us": ("p99", 35),
}
#: The kinds of errors, each with the largest median over a drive's points that is no miss, %.
MEDIANS: Mapping[str, float] = {"rate": 10, "mean": 10, "p99": 35}


@dataclass(frozen=True)
class Point:
    """A load, and what was measured under it.

    load    the same for the model: op, pattern, bytes, depth and jobs of closed loops, which may
            have gone on for after_s, or writes_per_s of the mix in docs/modeldisk.md
    measured  by the names in JUDGED
    noted   measured too, and not judged
    misses  those of them that the model is further off than it may be
    """

    role: str
    load: Mapping[str, int | str]
    measured: Mapping[str, float]
    noted: Mapping[str, float]
    misses: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.load.items())


@dataclass(frozen=True)
class Drive:
    """A drive by name.

    kind        its class, as in "consumer NVMe"
    product     what was measured
    profile     the profile of modeldisk that it starts from
    source      where the measurements are, with their licence
    limits      what the model of it does not do
    host_ns     what the measuring computer needed for each command of one process
    settings    of the block device
    parameters  of the model
    errors      by role: the median and the worst error of each kind, percent
    misses      kinds of errors whose median over the held points is above MEDIANS
    """

    name: str
    kind: str
    product: str
    profile: str
    source: Mapping[str, str]
    limits: str
    host_ns: int
    settings: dict[str, int]
    parameters: dict[str, int]
    points: tuple[Point, ...]
    errors: Mapping[str, Mapping[str, list[float]]]
    misses: tuple[str, ...]

    @property
    def error_text(self) -> str:
        """The drive's errors in one line."""
        if not self.errors:
            return "not judged"
        role, errors = next(iter(self.errors.items()))
        each = (f"{kind} {low:g}/{high:g} %" for kind, (low, high) in errors.items())
        return f"{role}: {', '.join(each)}"


def names() -> list[str]:
    """The drives there are."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@cache
def find(name: str) -> Drive:
    """The drive called `name`."""
    if name not in names():
        raise unknown("drive", name, names())
    path = FOLDER / f"{name}.toml"
    given = tomlfile.read(
        path,
        {
            "kind": tomlfile.text,
            "product": tomlfile.text,
            "profile": tomlfile.text,
            "limits": tomlfile.text,
            "source": tomlfile.table_of(tomlfile.text),
            "parameters": tomlfile.table_of(tomlfile.setting),
            "points": tomlfile.list_of(_point),
        },
        {
            "host_ns": tomlfile.count,
            "settings": tomlfile.table_of(tomlfile.count),
            "errors": tomlfile.table_of(tomlfile.table_of(tomlfile.list_of(_number))),
            "misses": tomlfile.list_of(tomlfile.text),
        },
    )
    if "licence" not in given["source"]:
        raise RequestError(f"{path}: source must name a licence")
    return Drive(
        name=name,
        kind=given["kind"],
        product=given["product"],
        profile=given["profile"],
        source=given["source"],
        limits=given["limits"],
        host_ns=given.get("host_ns", 0),
        settings=given.get("settings", {}),
        parameters=given["parameters"],
        points=tuple(_made(point) for point in given["points"]),
        errors=given.get("errors", {}),
        misses=tuple(given.get("misses", ())),
    )


def text(drive: Drive) -> str:
    """The file of a drive."""
    errors = (
        f"errors.{role} = {{ {', '.join(f'{kind} = {pair}' for kind, pair in kinds.items())} }}"
        for role, kinds in drive.errors.items()
    )
    return "\n".join(
        [
            "# SPDX-License-Identifier: GPL-2.0-only",
            "# Parameters of a drive, and the measurements behind them. docs/modeldisk.md explains "
            "the fields.",
            *_fields({"kind": drive.kind, "product": drive.product, "profile": drive.profile}),
            f'limits = """\n{drive.limits}"""',
            *errors,
            *(_fields({"misses": list(drive.misses)}) if drive.misses else ()),
            f"host_ns = {drive.host_ns}",
            "points = [",
            *(f"  {{ {', '.join(_fields(_given(point)))} }}," for point in drive.points),
            "]",
            "",
            "[source]",
            *_fields(drive.source),
            "",
            "[settings]",
            *_fields(drive.settings),
            "",
            "[parameters]",
            *_fields(drive.parameters),
            "",
        ]
    )


def _fields(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]


def _given(point: Point) -> dict[str, Any]:
    """A point as its file has it."""
    misses = {"misses": list(point.misses)} if point.misses else {}
    return {"role": point.role, **point.load, **point.measured, **point.noted, **misses}


_LOAD = ("op", "pattern", "bytes", "depth", "jobs", "after_s", "writes_per_s")
_NOTED = ("p50_us",)  # kept beside the judged figures


def _number(where: str, value: Any) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise RequestError(f"{where} must be a number, not {value!r}")


def _point(where: str, value: Any) -> None:
    tomlfile.table_of(lambda *_: None)(where, value)
    known = {"role", "misses", *_LOAD, *JUDGED, *_NOTED}
    if wrong := value.keys() - known:
        raise RequestError(f"{where} has {', '.join(sorted(wrong))}; known: {sorted(known)}")
    if value.get("role") not in ROLES:
        raise RequestError(f"{where} must have a role: {', '.join(ROLES)}")
    for key in value.keys() & {*JUDGED, *_NOTED}:
        _number(f"{where} {key}", value[key])


def _made(given: Mapping[str, Any]) -> Point:
    return Point(
        role=given["role"],
        load={key: given[key] for key in _LOAD if key in given},
        measured={key: given[key] for key in JUDGED if key in given},
        noted={key: given[key] for key in _NOTED if key in given},
        misses=tuple(given.get("misses", ())),
    )
