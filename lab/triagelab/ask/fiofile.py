# SPDX-License-Identifier: GPL-2.0-only
"""fio job files: checked by fio itself, and made ready to be run on the lab's device."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from triagelab.base import tools
from triagelab.base.errors import RequestError

#: Latency logs are averaged over windows of this many milliseconds.
LOG_WINDOW_MS = 50

#: fio reads so many job files at once: it has room for 4096 processes.
_AT_ONCE = 12

#: Options for which the lab has no meaning: a job gets a block device, is one file, and is
#: called by its section's name.
_REFUSED = ("directory", "include", "opendir", "name")

#: Options that would take a job off the device or hide measurements; the lab's own replace them.
_REPLACED = (
    "filename", "filename_format", "nrfiles", "nr_files", "read_iolog", "replay_redirect",
    "randseed", "allrandrepeat", "randrepeat", "write_lat_log", "log_avg_msec", "per_job_logs",
    "log_max_value", "log_offset", "log_prio", "log_unix_epoch", "log_alternate_epoch",
    "log_compression", "log_store_compressed",
    "lat_percentiles", "clat_percentiles", "slat_percentiles",
    "disable_lat", "disable_clat", "disable_slat", "gtod_reduce",
    "group_reporting", "unified_rw_reporting", "stats",
)  # fmt: skip


#: Other options by which fio could touch more of this computer than the device under test.
_REFUSED_ON_HOST = (
    "filename", "filename_format", "read_iolog", "write_iolog", "merge_blktrace_file",
    "exec_prerun", "exec_postrun", "ioscheduler", "cgroup", "cgroup_weight",
)  # fmt: skip

#: The engines that do nothing but read and write the file they are given.
_ENGINES_ON_HOST = (
    "sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "mmap",
    "splice", "null", "cpuio",
)  # fmt: skip

_NAME = re.compile(r"\$\{(\w+)\}")
_SECTION = re.compile(r"\[([^\[\]]+)\]")
#: The name of a section with options for all jobs after it.
GLOBAL = "global"
#: Another name of an option -> the name under which the lab looks for it.
_ALIASES = {"timeout": "runtime"}


@dataclass(frozen=True)
class Section:
    """A job of a fio file.

    lines    its own lines, without the [name]
    options  its effective options, with those of the [global] sections before it
    """

    name: str
    lines: tuple[str, ...]
    options: dict[str, str]

    @property
    def urgency(self) -> tuple[int, int]:
        """The job's I/O priority as a sort key, the most urgent first: RT, BE or none, IDLE."""
        io_class = self.number("prioclass", 0)
        level = self.number("prio", 4)
        return {1: 0, 3: 2}.get(io_class, 1), level

    @property
    def processes(self) -> int:
        """The number of processes that run the job."""
        return self.number("numjobs", 1)

    @property
    def traces(self) -> tuple[str, ...]:
        """The files that its processes replay, where it replays a trace (see traces.py)."""
        if "read_iolog" not in self.options:
            return ()
        return tuple(f"{self.name}-{process}.iolog" for process in range(self.processes))

    @property
    def writes(self) -> bool:
        """Return whether the job might write to the device: true unless it surely only reads."""
        ways = [self.options[key] for key in ("rw", "readwrite") if key in self.options]
        reads = all(re.split("[:,]", way)[0].strip() in ("read", "randread") for way in ways)
        return not reads or any("verify" in key for key in self.options)

    def number(self, option: str, default: int) -> int:
        """An option's value; an error for a number that fio would calculate."""
        return self._value(option, default, number, "4 or 0x4")

    def time_us(self, option: str, default: int) -> int:
        """An option's time in µs; an error for one that the lab cannot read as fio does."""
        return self._value(option, default, time_us, "5, 5s, 5000ms or 1m")

    def _value(self, option: str, default: int, read: Callable[[str], int], like: str) -> int:
        if option not in self.options:
            return default
        try:
            return read(self.options[option])
        except ValueError as error:
            raise RequestError(
                f"job {self.name}: {option}={self.options[option]}: {error}; "
                f"write one like {like}, as the lab needs it too"
            ) from error


@dataclass(frozen=True)
class FioFile:
    """A fio job file.

    text    as it was read
    values  the values of ${NAME} in it that differ from this environment's
    """

    path: Path
    text: str
    values: Mapping[str, str]

    @cached_property
    def expanded(self) -> str:
        """The text with fio's ${NAME} filled in here, because the guest's environment is another.

        An option whose value is an unset NAME is left out.
        """
        known = os.environ | self.values
        lines = [line for line in self.text.splitlines() if not self._stands_for_nothing(line)]
        text = "\n".join(lines) + "\n"
        return _NAME.sub(lambda match: known.get(match[1], ""), text)

    def _stands_for_nothing(self, line: str) -> bool:
        name = _NAME.fullmatch(_option(_meant(line))[1])
        return name is not None and self.values.get(name[1]) == ""

    @cached_property
    def sections(self) -> list[Section]:
        """The sections in order, `global` ones among them."""
        return _parse(self.path, self.expanded)

    @property
    def jobs(self) -> list[Section]:
        """The sections that are jobs; one with numjobs=0 is none."""
        return [
            section for section in self.sections if section.name != GLOBAL and section.processes
        ]

    @property
    def names(self) -> list[str]:
        """Every NAME whose ${NAME} is in the file."""
        return _NAME.findall(self.text)

    def check(self) -> None:
        """Raise RequestError unless this is a job file; what fio itself says is the error's text.

        fio runs no job for this.
        """
        tools.require([tools.FIO])
        done = subprocess.run(
            [tools.path(tools.FIO), "--parse-only", "-"],
            input=self.expanded,
            capture_output=True,
            text=True,
            cwd=self.path.absolute().parent,
        )
        if done.returncode:
            words = (done.stderr + done.stdout).strip()
            raise RequestError(f"fio does not accept {self.path}:\n{words}")
        self._require_jobs()

    def _require_jobs(self) -> None:
        urgencies = [job.urgency for job in self.jobs]  # an error where one is no number
        if not urgencies:
            raise RequestError(f"{self.path} defines no job: it needs a section like [my_job]")

    def require_device_alone(self) -> None:
        """Raise RequestError for what could touch more of this computer than the device."""
        for section in self.sections:
            for line in section.lines:
                option, value = _option(line)
                elsewhere = value.startswith(("/", "..")) or ":/" in value
                if option in _REFUSED_ON_HOST or elsewhere:
                    raise RequestError(
                        f"{self.path}: '{line}' cannot be used on this computer: jobs get the "
                        "device that --device names, and nothing else; remove the line"
                    )
            engine = section.options.get("ioengine", _ENGINES_ON_HOST[0])
            if engine not in _ENGINES_ON_HOST:
                raise RequestError(
                    f"{self.path}: 'ioengine={engine}' cannot be used on this computer; "
                    f"use one of {', '.join(_ENGINES_ON_HOST)}"
                )

    def prepared(self, devices: tuple[str, ...], seed: int, jobs: tuple[str, ...]) -> str:
        """The file as a guest runs it: on `devices` of /dev in turn, with `seed`, and measured.

        It contains only the jobs named in `jobs`; the names of logs have the job's position in it.
        """
        text: list[str] = []
        for number, section in enumerate(self.sections):
            if section.name not in (GLOBAL, *jobs):
                continue
            text += [f"[{section.name}]", *(line for line in section.lines if not _replaced(line))]
            if section.name != GLOBAL:
                text += _ours(devices, seed + number, jobs.index(section.name))
                if section.traces:
                    text += [
                        f"read_iolog={':'.join(section.traces)}",
                        f"replay_redirect=/dev/{devices[0]}",
                    ]
        return "\n".join(text) + "\n"

    def replaced(self) -> list[str]:
        """The lines that `prepared` leaves out, for the report."""
        return [line for section in self.sections for line in section.lines if _replaced(line)]


def check(files: Sequence[FioFile]) -> None:
    """Check job files of one folder as FioFile.check() does, many in one call of fio.

    fio takes 0.1 s to begin, however many files it reads. If it refuses a file, each is checked
    alone, so that the error names one.
    """
    for begin in range(0, len(files), _AT_ONCE):
        some = files[begin : begin + _AT_ONCE]
        if len(some) > 1 and _accepts(some):
            for file in some:
                file._require_jobs()
        else:
            for file in some:
                file.check()


def _accepts(files: Sequence[FioFile]) -> bool:
    """Return whether fio accepts all these files."""
    tools.require([tools.FIO])
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / str(number) for number in range(len(files))]
        for path, file in zip(paths, files, strict=True):
            path.write_text(file.expanded)
        done = subprocess.run(
            [tools.path(tools.FIO), "--parse-only", *paths],
            capture_output=True,
            cwd=files[0].path.absolute().parent,
        )
    return done.returncode == 0


def _ours(devices: tuple[str, ...], seed: int, log: int) -> list[str]:
    """The options every job ends with."""
    return [
        "filename=" + ":".join(f"/dev/{device}" for device in devices),
        f"randseed={seed}",
        "randrepeat=0",  # else fio takes no notice of the seed
        "lat_percentiles=1",
        "clat_percentiles=1",
        f"write_lat_log=out/logs/{log}",
        f"log_avg_msec={LOG_WINDOW_MS}",
        "per_job_logs=0",
    ]


def number(text: str) -> int:
    """A number as fio reads it, decimal or 0x…; ValueError for one that fio would calculate."""
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,8}", text):
        return int(text, 16)
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text)
    raise ValueError(f"'{text}' is no plain number")


#: The units of a time in µs; one without a unit is in seconds.
_TIME_UNITS_US = {
    "us": 1,
    "usec": 1,
    "ms": 1000,
    "msec": 1000,
    "": 1_000_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


def time_us(text: str) -> int:
    """A time as fio reads it, in µs; ValueError for one of a unit or form that is not above.

    fio takes any other unit, `5min` and `5sec` too, for µs.
    """
    found = re.fullmatch(r"([0-9]{1,9})([a-z]*)", text.lower())
    if found is None or found[2] not in _TIME_UNITS_US:
        raise ValueError(f"'{text}' is no plain time")
    return int(found[1]) * _TIME_UNITS_US[found[2]]


_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size(text: str) -> int:
    """Return a size as fio reads it, in bytes; ValueError for one that is not like 4096 or 4k.

    fio takes `4kib` for 4000 bytes.
    """
    found = re.fullmatch(r"([0-9]{1,9})([kmg]?)b?", text.lower())
    if found is None:
        raise ValueError(f"'{text}' is no plain size; write one like 4096 or 4k")
    return int(found[1]) * _SIZE_UNITS[found[2]]


def _meant(line: str) -> str:
    """A line without what fio takes for a comment, wherever that begins."""
    return re.split("[#;]", line, maxsplit=1)[0].strip()


def _option(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name.strip(), value.strip()


def _replaced(line: str) -> bool:
    return _option(line)[0] in _REPLACED


def read(path: Path, values: Mapping[str, str] = MappingProxyType({})) -> FioFile:
    """Read a job file."""
    try:
        return FioFile(path, path.read_text(encoding="utf-8"), values)
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"cannot read the job file {path}: {error}") from error


def _parse(path: Path, text: str) -> list[Section]:
    names: list[str] = []
    lines: list[list[str]] = []
    for line in filter(None, map(_meant, text.splitlines())):
        if line.startswith("["):
            match = _SECTION.fullmatch(line)
            if match is None:
                raise RequestError(f"{path}: '{line}' names no job: write [name], and nothing more")
            # fio looks at the beginning alone.
            names.append(GLOBAL if match[1].startswith(GLOBAL) else match[1])
            lines.append([])
        elif lines:
            option = re.split(r"[=\s]", line)[0]  # fio's include has no =
            if option in _REFUSED:
                raise RequestError(
                    f"{path}: '{line}' cannot be used here: jobs run on the device under test; "
                    f"remove {option}"
                )
            lines[-1].append(line)
    common: dict[str, str] = {}
    sections = []
    for name, own in zip(names, lines, strict=True):
        options = {_ALIASES.get(option, option): value for option, value in map(_option, own)}
        if name == GLOBAL:
            common |= options
        sections.append(Section(name, tuple(own), common | options))
    return sections
