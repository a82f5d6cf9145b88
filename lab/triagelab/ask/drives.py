# SPDX-License-Identifier: GPL-2.0-only
"""Drives by name: a model's parameters, where they come from, and how well they fit.

drives/NAME.toml holds one drive each; docs/modeldisk.md says what its fields mean.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Required, TypedDict, get_type_hints

from triagelab.base import sources, tomlfile
from triagelab.base.errors import unknown
from triagelab.base.tomlfile import Count

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

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"must have a role: {', '.join(ROLES)}")

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.load.items())


class _Load(TypedDict, total=False):
    op: str
    pattern: str
    bytes: Count
    depth: Count
    jobs: Count
    after_s: Count
    writes_per_s: Count


class _Figures(TypedDict, total=False):
    iops: float
    mean_us: float
    p50_us: float
    p99_us: float
    writes_done: float
    read_p50_us: float
    write_p50_us: float
    read_p99_us: float
    write_p99_us: float


class _Written(_Load, _Figures, total=False):
    """A point as a file has it, in one table."""

    role: Required[str]
    misses: tuple[str, ...]


def _point(written: _Written) -> Point:
    given: dict[str, Any] = dict(written)
    role, misses = written["role"], written.get("misses", ())
    load, figures = (
        {key: given[key] for key in get_type_hints(of) if key in given} for of in (_Load, _Figures)
    )
    noted = {key: figures.pop(key) for key in figures.keys() - JUDGED.keys()}
    return Point(role, load, figures, noted, misses)


tomlfile.build(Point, _Written, _point)


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
    parameters: dict[str, int]
    points: tuple[Point, ...]
    host_ns: int = 0
    settings: dict[str, Count] = field(default_factory=dict)
    errors: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict)
    misses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if "licence" not in self.source:
            raise ValueError("source must name a licence")

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
    return tomlfile.read(FOLDER / f"{name}.toml", Drive, name=name)


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
