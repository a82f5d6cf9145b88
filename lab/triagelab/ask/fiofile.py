# SPDX-License-Identifier: GPL-2.0-only
"""Read fio job files, let fio check them, and prepare them for the device under test."""

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

#: fio averages its latency logs over windows of this many milliseconds.
LOG_WINDOW_MS = 50

#: One call of fio checks at most this many job files. fio accepts at most 4096 processes in a call,
#: over all its files.
_AT_ONCE = 12

#: Options that the lab refuses: a job must use only the device under test, a job file must not
#: include another file, and the name of a section must be the name of the job.
_REFUSED = ("directory", "include", "opendir", "name")

#: Options that would send a job to another device, or change its random numbers or fio's output.
#: The lab removes them, and adds the options of _ours().
_REPLACED = (
    "filename", "filename_format", "nrfiles", "nr_files", "read_iolog", "replay_redirect",
    "randseed", "allrandrepeat", "randrepeat", "write_lat_log", "log_avg_msec", "per_job_logs",
    "log_max_value", "log_offset", "log_prio", "log_unix_epoch", "log_alternate_epoch",
    "log_compression", "log_store_compressed",
    "lat_percentiles", "clat_percentiles", "slat_percentiles",
    "disable_lat", "disable_clat", "disable_slat", "gtod_reduce",
    "group_reporting", "unified_rw_reporting", "stats",
)  # fmt: skip


#: Options that the lab refuses with --machine host, because fio could touch more of this computer
#: than the device under test.
_REFUSED_ON_HOST = (
    "filename", "filename_format", "read_iolog", "write_iolog", "merge_blktrace_file",
    "exec_prerun", "exec_postrun", "ioscheduler", "cgroup", "cgroup_weight",
)  # fmt: skip

#: fio's I/O engines that touch nothing but the job's file; --machine host allows only these.
_ENGINES_ON_HOST = (
    "sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "mmap",
    "splice", "null", "cpuio",
)  # fmt: skip

_NAME = re.compile(r"\$\{(\w+)\}")
_SECTION = re.compile(r"\[([^\[\]]+)\]")
#: The name of a section whose options apply to all jobs after this section.
GLOBAL = "global"
#: A second name of an option in fio -> the name that the lab uses.
_ALIASES = {"timeout": "runtime"}


@dataclass(frozen=True)
class Section:
    """A section of a fio file: a job, or a [global] section.

    lines    its own lines, without the [name]
    options  its own options, and those of the [global] sections before it
    """

    name: str
    lines: tuple[str, ...]
    options: dict[str, str]

    @property
    def urgency(self) -> tuple[int, int]:
        """Return a sort key for the job's I/O priority; the most urgent job sorts first.

        The class counts first: real-time, then best-effort or none, then idle. Within a class the
        lower level is more urgent.
        """
        io_class = self.number("prioclass", 0)
        level = self.number("prio", 4)
        return {1: 0, 3: 2}.get(io_class, 1), level

    @property
    def processes(self) -> int:
        """Return the number of processes that run the job."""
        return self.number("numjobs", 1)

    @property
    def traces(self) -> tuple[str, ...]:
        """Return the names of the job's iologs, one for each process; empty if it has no trace.

        ask/traces.py makes these iologs.
        """
        if "read_iolog" not in self.options:
            return ()
        return tuple(f"{self.name}-{process}.iolog" for process in range(self.processes))

    @property
    def writes(self) -> bool:
        """Return whether the job may write to the device; False only if it certainly does not."""
        ways = [self.options[key] for key in ("rw", "readwrite") if key in self.options]
        reads = all(re.split("[:,]", way)[0].strip() in ("read", "randread") for way in ways)
        return not reads or any("verify" in key for key in self.options)

    def has(self, option: str) -> bool:
        """Return whether an option is given with a number other than 0, with or without a unit."""
        return re.fullmatch(r"0*[a-z]*", self.options.get(option, "0"), re.I) is None

    def number(self, option: str, default: int) -> int:
        """Return an option's number. Raise RequestError for 2*8 or 4k: only fio can read these."""
        return self._value(option, default, number, "4 or 0x4")

    def time_us(self, option: str, default: int) -> int:
        """Return an option's time in µs. Raise RequestError if the lab cannot read the time."""
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

    text    the file's text, unchanged
    values  NAME -> the value of ${NAME} in the text. A NAME that is missing here takes its value
            from the lab's environment variables
    """

    path: Path
    text: str
    values: Mapping[str, str]

    @cached_property
    def expanded(self) -> str:
        """Return the text with each ${NAME} replaced by its value.

        fio would look for the values in the guest's environment, which lacks them. If `values`
        gives NAME an empty value, leave out an option whose value is ${NAME}.
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
        """Return all sections in the file's order, [global] sections included."""
        return _parse(self.path, self.expanded)

    @property
    def jobs(self) -> list[Section]:
        """Return the sections that are jobs. A section with numjobs=0 is not a job."""
        return [
            section for section in self.sections if section.name != GLOBAL and section.processes
        ]

    @property
    def names(self) -> list[str]:
        """Return every NAME for which the file contains ${NAME}."""
        return _NAME.findall(self.text)

    def require_values(self) -> None:
        """Raise RequestError if an option contains a ${NAME} that has no value.

        fio would read an empty text there, and its message would not mention NAME.
        """
        found = _NAME.findall("\n".join(map(_meant, self.text.splitlines())))
        known = os.environ | self.values
        if missing := [name for name in dict.fromkeys(found) if name not in known]:
            raise RequestError(
                f"{self.path} has {', '.join(f'${{{name}}}' for name in missing)} without a value: "
                f"add {' '.join(f'--vary {name}=…' for name in missing)}"
            )

    def check(self) -> None:
        """Raise RequestError if fio does not accept the file, or if _require_jobs() refuses it.

        fio parses the file and runs no job. The error contains fio's own message.
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
        """Raise RequestError if the file has no job, or a job that fio would run wrongly."""
        urgencies = [job.urgency for job in self.jobs]  # raises if a priority is not a plain number
        if not urgencies:
            raise RequestError(f"{self.path} defines no job: it needs a section like [my_job]")
        for job in self.jobs:
            if job.has("ramp_time") and job.has("thinktime"):
                raise RequestError(
                    f"{self.path}: job {job.name} has ramp_time and thinktime: when the ramp ends, "
                    "fio before 3.35 forgets to pause for as many requests as it had sent; "
                    "remove ramp_time"
                )

    def require_device_alone(self) -> None:
        """Raise RequestError if a job could touch anything on this computer except the device."""
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
        """Return the text of a job file, ready for fio, with only the jobs that `jobs` names.

        A job's requests go to `devices` (names in /dev) in turn; a trace is replayed on the first
        device. A job's random numbers depend on `seed`. The names of its logs contain the job's
        position in `jobs`.
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
        """Return the lines that prepared() leaves out. The report shows them."""
        return [line for section in self.sections for line in section.lines if _replaced(line)]


def check(files: Sequence[FioFile]) -> None:
    """Check `files`, all in one folder, as FioFile.check() does, but several in one call of fio.

    A call takes 0.1 s, whatever the number of files. If fio refuses the files of a call, check each
    of them alone, so that the error can name the file.
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
    """Return the options that the lab adds to a job."""
    return [
        "filename=" + ":".join(f"/dev/{device}" for device in devices),
        f"randseed={seed}",
        "randrepeat=0",  # without it, fio ignores randseed for random offsets
        "lat_percentiles=1",
        "clat_percentiles=1",
        f"write_lat_log=out/logs/{log}",
        f"log_avg_msec={LOG_WINDOW_MS}",
        "per_job_logs=0",
    ]


def number(text: str) -> int:
    """Return a decimal or 0x… number as fio reads it. Raise ValueError for any other form."""
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,8}", text):
        return int(text, 16)
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text)
    raise ValueError(f"'{text}' is not a plain number")


#: A unit of time -> its length in µs. A time without a unit is in seconds.
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
    """Return a time as fio reads it, in µs. Raise ValueError if its unit is not in _TIME_UNITS_US.

    fio reads a time with any other unit, even `5min` or `5sec`, as µs.
    """
    found = re.fullmatch(r"([0-9]{1,9})([a-z]*)", text.lower())
    if found is None or found[2] not in _TIME_UNITS_US:
        raise ValueError(f"'{text}' is not a plain time")
    return int(found[1]) * _TIME_UNITS_US[found[2]]


_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size(text: str) -> int:
    """Return a size as fio reads it, in bytes. Raise ValueError unless it is like 4096, 4k or 4kb.

    `4kib` raises ValueError, because fio reads it as 4000 bytes.
    """
    found = re.fullmatch(r"([0-9]{1,9})([kmg]?)b?", text.lower())
    if found is None:
        raise ValueError(f"'{text}' is not a plain size; write one like 4096 or 4k")
    return int(found[1]) * _SIZE_UNITS[found[2]]


def _meant(line: str) -> str:
    """Return a line without its comment. In fio, a comment begins at the first # or ;."""
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
                raise RequestError(
                    f"{path}: '{line}' does not name a job: write [name], and nothing more"
                )
            # fio takes every section whose name begins with "global" for a global one.
            names.append(GLOBAL if match[1].startswith(GLOBAL) else match[1])
            lines.append([])
        elif lines:
            option = re.split(r"[=\s]", line)[0]  # at a space too: `include FILE` has no =
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
