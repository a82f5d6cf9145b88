# SPDX-License-Identifier: GPL-2.0-only
"""Parse and run the command line. The manual page and completion use the same help texts."""

import argparse
import io
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from triagectl import doctor, durations, explain, screen, status, top, trial, wayback
from triagectl.errors import CtlError, RequestError
from triagectl.system import System, number
from triagectl.version import version

_INTERRUPTED = 130
#: The time under the tried settings, in s, if none is given.
_TRY_S = 120.0
_DISK = "a disk: sda, /dev/sda or a partition of it"


class StoppedError(Exception):
    """Raised when SIGTERM or SIGHUP tells the process to end."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="triagectl", description="See, explain and try the I/O schedulers of this machine."
    )
    made.add_argument("--version", action="version", version=f"triagectl {version()}")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    _add_status(commands)
    _add_top(commands)
    _add_explain(commands)
    _add_try(commands)
    _add_doctor(commands)
    _add_put_back(commands)
    return made


_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add_status(commands: _Commands) -> None:
    command = commands.add_parser(
        "status",
        help="show each disk's scheduler, who set it, and what a process's priority does",
        description="Show each disk's scheduler, who or what set it and whether that changed "
        "since the boot; or what the I/O priority of a process or unit does on its disks.",
    )
    command.add_argument("disks", nargs="*", metavar="DISK", help=_DISK + " (default: all)")
    which = command.add_mutually_exclusive_group()
    which.add_argument("--pid", type=_count, metavar="PID", help="show what this process has")
    which.add_argument("--unit", metavar="UNIT", help="show what a systemd unit's processes have")
    which.add_argument(
        "--record",
        action="store_true",
        help="write the schedulers down in /run, so that a later status tells what changed",
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_status)


def _status(system: System, given: argparse.Namespace) -> int:
    options = status.Options(given.disks, given.pid, given.unit, given.record, given.json)
    return status.run(system, options)


def _add_top(commands: _Commands) -> None:
    command = commands.add_parser(
        "top",
        help="show who uses the disks and how long requests take, live",
        description="Show who uses the disks, how long requests wait and are in the device, by "
        "class and process, and whom they wait behind. Works under any scheduler. Needs root.",
    )
    command.add_argument("disks", nargs="*", metavar="DISK", help=_DISK + " (default: all)")
    command.add_argument(
        "--interval",
        type=durations.between("0.5s", "1h"),
        default=2.0,
        metavar="TIME",
        help="time between two screens, as 5 (seconds), 5s or 1m (default: 2s)",
    )
    command.add_argument(
        "--count", type=_count, default=0, metavar="N", help="end after N screens (default: go on)"
    )
    command.add_argument("--json", action="store_true", help="print one JSON object a line")
    command.add_argument(
        "--prometheus",
        type=Path,
        metavar="FILE",
        help="also write FILE.prom for the node exporter's textfile collector",
    )
    command.set_defaults(run=_top)


def _top(system: System, given: argparse.Namespace) -> int:
    return top.run(
        system, top.Options(given.disks, given.interval, given.count, given.json, given.prometheus)
    )


def _add_explain(commands: _Commands) -> None:
    command = commands.add_parser(
        "explain",
        help="say why the slowest requests of the next seconds are slow",
        description="Record some seconds, and say of the slowest requests where they spent "
        "their time, what went ahead, and what to change. Works under any scheduler. Needs root.",
    )
    command.add_argument("disks", nargs="*", metavar="DISK", help=_DISK + " (default: all)")
    command.add_argument(
        "--for",
        type=durations.between("0.5s", "1h"),
        default=10.0,
        dest="seconds",
        metavar="TIME",
        help="how long to record, as 5 (seconds), 5s or 1m (default: 10s)",
    )
    command.add_argument(
        "--count", type=_count, default=5, metavar="N", help="requests of each disk (default: 5)"
    )
    command.add_argument("--pid", type=_count, metavar="PID", help="only requests of this process")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_explain)


def _explain(system: System, given: argparse.Namespace) -> int:
    options = explain.Options(given.disks, given.seconds, given.count, given.pid, given.json)
    return explain.run(system, options)


def _add_try(commands: _Commands) -> None:
    command = commands.add_parser(
        "try",
        help="try a scheduler or tunables for some minutes, with a way back",
        description="Choose a scheduler or tunables for some minutes, by turns with the old ones "
        "and in random order; put everything back, and say whether it helped the load that is "
        "there. A process apart puts the disk back should this one be killed. Needs root.",
    )
    command.add_argument("disk", metavar="DISK", help=_DISK)
    command.add_argument(
        "--scheduler", type=_scheduler, metavar="NAME", help="the scheduler to try"
    )
    command.add_argument(
        "--set",
        action="append",
        default=[],
        type=_setting,
        dest="tunables",
        metavar="NAME=VALUE",
        help="a tunable of the scheduler, nr_requests or wbt_lat_usec; may be repeated",
    )
    command.add_argument(
        "--for",
        type=durations.between(f"{trial.SHORTEST_S:.0f}s", "24h"),
        dest="seconds",
        metavar="TIME",
        help="how long, as 90 (seconds), 90s, 10m or 1h (default: 2m). The old settings have as "
        "much time, by turns with the tried ones",
    )
    command.add_argument("--undo", action="store_true", help="put back what a try has left behind")
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.set_defaults(run=_try)


def _try(system: System, given: argparse.Namespace) -> int:
    if given.undo and (given.scheduler or given.tunables or given.seconds or given.json):
        raise RequestError("--undo takes no other option: it puts back what a try has left behind")
    for name, count in Counter(name for name, _ in given.tunables).items():
        if count > 1:
            raise RequestError(f"'{name}' has two values: give --set {name}=VALUE once")
    options = trial.Options(
        given.disk,
        given.scheduler,
        dict(given.tunables),
        given.seconds or _TRY_S,
        given.json,
        given.undo,
    )
    return trial.run(system, options)


def _add_doctor(commands: _Commands) -> None:
    command = commands.add_parser(
        "doctor",
        help="write one file with all that a report of a bug needs",
        description="Write one file with all that a report of a bug needs. Host names, serial "
        "numbers, mount paths, addresses and processes' arguments are left out.",
    )
    command.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the file (default: triagectl-doctor-TIME.txt here)",
    )
    command.add_argument("--json", action="store_true", help="write JSON in place of text")
    command.set_defaults(run=_doctor)


def _doctor(system: System, given: argparse.Namespace) -> int:
    return doctor.run(system, doctor.Options(given.output, given.json))


def _add_put_back(commands: _Commands) -> None:
    # Only `try` starts this command. It has no help text, so no list of commands shows it.
    command = commands.add_parser("put-back")
    command.add_argument("disk")
    command.set_defaults(run=lambda system, given: wayback.keep(system, given.disk))


def _scheduler(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("'': give the name of a scheduler")
    return text


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"\w+", name) or not value:
        raise argparse.ArgumentTypeError(f"'{text}': give NAME=VALUE")
    return name, value


def _count(text: str) -> int:
    value = number(text)
    if value is None or value < 1:
        raise argparse.ArgumentTypeError(f"'{text}': give a whole number, 1 or more")
    return value


def main(arguments: Sequence[str] | None = None, system: System | None = None) -> int:
    """Run one command. Return its exit status: 0 done, 1 failed, 2 bad request, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        # Names of processes may have characters that the locale's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) is not signal.SIG_IGN:
            signal.signal(ending, _stop)
    given = parser().parse_args(arguments)
    try:
        return int(given.run(system or System(), given))
    except CtlError as error:
        print(f"triagectl: {screen.plain(str(error))}", file=sys.stderr)
        return error.exit_status
    except (KeyboardInterrupt, StoppedError):
        print("triagectl: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of the output is gone. Drop the rest of the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"triagectl: {screen.plain(f'{where}{error.strerror or error}')}", file=sys.stderr)
        return 1


def _stop(*_: object) -> None:
    raise StoppedError
