# SPDX-License-Identifier: GPL-2.0-only
"""Read and write the files of named drives: model parameters, their source, the model's errors.

drives/NAME.toml describes the drive NAME. docs/modeldisk.md explains the file's fields.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict, get_type_hints

from triagelab.ask import models
from triagelab.base import sources, tomlfile
from triagelab.base.errors import unknown
from triagelab.base.tomlfile import Count, Must

FOLDER = sources.ROOT / "drives"

#: The roles of points (measured loads). fit: the optimiser used the point. held: the optimiser did
#: not use the point, so the model predicts it. seen: the point was known when a person chose the
#: parameters. scaled: the point was measured on the whole drive and converted to the modelled part
#: of the drive. state: the drive was in another state. info: the operation was not fitted. Points
#: of role state or info are not judged.
ROLES = ("fit", "held", "seen", "scaled", "state", "info")
#: The roles for which a drive's errors are stated, the best evidence first -> the role in words.
PREDICTED: Mapping[str, str] = {
    "held": "not used by the fit",
    "scaled": "measured on the whole drive, and converted",
    "seen": "known when a person chose the parameters",
}

#: A judged figure of a point -> the kind of its error, and the largest error allowed, in percent.
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
#: A kind of error -> the largest median allowed over a drive's points of one role, in percent.
MEDIANS: Mapping[str, float] = {"rate": 10, "mean": 10, "p99": 35}
#: The fields of a drive's source; the licence is required.
_SOURCE = ("repository", "commit", "path", "licence", "measured")
#: A mix of reads and writes consists of a probe and of a load beside it. The probe sends this many
#: reads a second, and as many writes. A point's latencies are those of the probe.
PROBE = 5000


@dataclass(frozen=True)
class Point:
    """A load, and the figures measured under it.

    load      op, pattern, bytes, depth and jobs: each job keeps `depth` commands in the device;
              or writes_per_s: the mix of reads and writes that docs/modeldisk.md describes
    measured  the judged figures, by their names in JUDGED
    noted     other figures, which are not judged
    misses    names of the judged figures in which the model's error is too large
    has_room  during the whole measurement the drive had free quick cells, or clean space
    """

    role: str
    load: Mapping[str, int | str]
    measured: Mapping[str, float]
    noted: Mapping[str, float]
    misses: tuple[str, ...]
    has_room: bool = False

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"must have a role: {', '.join(ROLES)}")
        if self.has_room and self.load.get("op") != "write":
            raise ValueError("has_room: only a point of writes fills a drive")

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.load.items())


def _require_known(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError if a name in `given` is not in `known`, such as a misspelt key of a file."""
    if wrong := sorted(set(given) - set(known)):
        raise ValueError(f"{what}: not known: {', '.join(wrong)}; there are {', '.join(known)}")


def _require_allowed(
    what: str, given: Mapping[str, int], bounds: Mapping[str, models.Bounds]
) -> None:
    """Raise ValueError unless every name has bounds in modeldisk, and its value is within them."""
    _require_known(what, given, bounds)
    for key, value in given.items():
        if not bounds[key].allow(str(value)):
            raise ValueError(f"{what}.{key} must be {bounds[key]}, not {value}")


def _one_of(*words: str) -> Must:
    return Must(lambda value: value in words, f"must be {' or '.join(words)}, not {{}}")


_Bytes = Annotated[
    int,
    Must(
        lambda value: isinstance(value, int) and value % 512 == 0 and 0 < value <= models.LARGEST,
        f"must be a multiple of 512 and at most {models.LARGEST}, not {{}}",
    ),
]


class _Judged(TypedDict):
    """The fields that every point has in a drive's file, besides load and figures."""

    role: str
    misses: NotRequired[tuple[str, ...]]


class _JobsLoad(TypedDict):
    op: Annotated[str, _one_of("read", "write")]
    pattern: Annotated[str, _one_of("random", "sequential")]
    bytes: _Bytes
    depth: Count
    jobs: Count


class _Jobs(_Judged, _JobsLoad):
    """A point as a drive's file has it, with a load of jobs: load and figures in one table."""

    has_room: NotRequired[bool]
    iops: float
    mean_us: NotRequired[float]
    p50_us: NotRequired[float]
    p99_us: NotRequired[float]


class _MixLoad(TypedDict):
    writes_per_s: Annotated[
        int,
        Must(
            lambda value: isinstance(value, int) and value > PROBE,
            f"must be a whole number above {PROBE}, not {{}}",
        ),
    ]


class _Mix(_Judged, _MixLoad):
    """A point as a drive's file has it, with a mixed load: load and figures in one table."""

    writes_done: NotRequired[float]
    read_p50_us: NotRequired[float]
    write_p50_us: NotRequired[float]
    read_p99_us: NotRequired[float]
    write_p99_us: NotRequired[float]


_Written = _Jobs | _Mix
tomlfile.choose(
    _Written,
    lambda given: _Mix if isinstance(given, dict) and "writes_per_s" in given else _Jobs,
)


def _point(written: _Jobs | _Mix) -> Point:
    given: dict[str, Any] = dict(written)
    role, misses = given.pop("role"), given.pop("misses", ())
    has_room = given.pop("has_room", False)
    of_load = get_type_hints(_MixLoad if "writes_per_s" in given else _JobsLoad)
    load = {key: given.pop(key) for key in of_load}
    measured = {key: value for key, value in given.items() if key in JUDGED}
    noted = {key: value for key, value in given.items() if key not in JUDGED}
    _require_known("misses", misses, measured)
    return Point(role, load, measured, noted, misses, has_room)


tomlfile.build(Point, _Written, _point)


@dataclass(frozen=True)
class Drive:
    """A named drive: a model of one product, and the measurements behind the model.

    kind        its class, as in "consumer NVMe"
    product     the measured product
    profile     the modeldisk profile from which `settings` and `parameters` differ
    source      where the measurements are, with their licence
    limits      effects that the model lacks, and guesses in the model
    host_ns     time that the measuring computer took to submit a command, in ns; a process submits
                one at a time
    settings    the block device's settings that differ from the profile
    parameters  the model's parameters that differ from the profile
    errors      by role: the median and the worst error of each kind, in percent
    misses      kinds of errors whose median exceeds MEDIANS in at least one role
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
        _require_known("source", self.source, _SOURCE)
        if "licence" not in self.source:
            raise ValueError("source must name a licence")
        _require_known("profile", [self.profile], models.profiles())
        _require_allowed("settings", self.settings, models.settings(self.profile))
        _require_allowed("parameters", self.parameters, models.parameters(self.profile))
        _require_known("misses", self.misses, MEDIANS)
        _require_known("errors", self.errors, PREDICTED)
        for role, kinds in self.errors.items():
            _require_known(f"errors.{role}", kinds, MEDIANS)

    @property
    def lone_read_us(self) -> float | None:
        """Return the mean time of a 4 KiB read that is alone in the drive; None: not measured."""
        lone = {"op": "read", "pattern": "random", "bytes": 4096, "depth": 1, "jobs": 1}
        found = (1e6 / point.measured["iops"] for point in self.points if point.load == lone)
        return next(found, None)

    @property
    def error_text(self) -> str:
        """Return the model's errors as a line of text.

        For each role, the line has the median error and the worst error of each figure.
        """
        roles = []
        for role, errors in self.errors.items():
            each = (f"{kind} {low:g}/{high:g} %" for kind, (low, high) in errors.items())
            roles.append(f"{role}: {', '.join(each)}")
        return "; ".join(roles) or "not judged"


def names() -> list[str]:
    """Return the names of all drives."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def alike(name: str, others: Iterable[str]) -> str | None:
    """Return the name of the drive among `others` that is most like the device `name`, or None.

    Only drives with the device's profile count. If the device is a named drive, choose the drive
    whose time for a lone read differs least. Without this time, a drive is like no other. If the
    device is no named drive, such as `hdd`, choose the first drive.
    """
    own = find(name) if name in names() else None
    found = [
        drive for drive in map(find, others) if drive.profile == (own.profile if own else name)
    ]
    if own is None:
        return found[0].name if found else None
    lone = own.lone_read_us
    times = {drive.name: drive.lone_read_us for drive in found}
    apart = {at: abs(math.log(time / lone)) for at, time in times.items() if time and lone}
    return min(apart, key=lambda at: apart[at], default=None)


def find(name: str) -> Drive:
    """Return the drive called `name`."""
    if name not in names():
        raise unknown("drive", name, names())
    return _read(FOLDER / f"{name}.toml")


@cache
def _read(path: Path) -> Drive:
    return tomlfile.read(path, Drive, name=path.stem)


def text(drive: Drive) -> str:
    """Return the text of a drive's file."""
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
    """Return a point as a drive's file has it, in one table: role, load, figures and misses."""
    misses = {"misses": list(point.misses)} if point.misses else {}
    room = {"has_room": True} if point.has_room else {}
    return {"role": point.role, **point.load, **room, **point.measured, **point.noted, **misses}
