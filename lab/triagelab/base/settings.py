# SPDX-License-Identifier: GPL-2.0-only
"""Check the settings of runs, and group them: device, scheduler's tunables, number of CPUs.

--set, --vary and experiments use these names:

device.SETTING, model.PARAMETER   a setting of the device, a parameter of its model
slow.PARAMETER                    a model's parameter for the last of several devices only
SCHEDULER.TUNABLE                 a scheduler's tunable (iosched.SCHEDULER.TUNABLE is the same)
cpus                              the number of the machine's virtual CPUs
device                            the device's name, in experiments that vary the device

Any other name has no dot. Its value replaces ${name} in the job file or in an application's script.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from triagelab.base.errors import RequestError, unknown

Value = int | str
T = TypeVar("T")

CPUS = "cpus"
DEVICE = "device"
_MOST_CPUS = 64
_OF_DEVICES = ("device", "model", "slow")


@dataclass(frozen=True)
class Settings:
    """Settings, grouped: those of the device, of the schedulers and of the machine.

    device    device.SETTING, model.PARAMETER or slow.PARAMETER -> value
    tunables  scheduler -> tunable -> value
    cpus      None: the machine's own choice
    """

    device: Mapping[str, str]
    tunables: Mapping[str, Mapping[str, str]]
    cpus: int | None


def plain(name: str) -> str:
    """Return the short form of a name, without `iosched.`."""
    return name.removeprefix("iosched.")


def by_name(given: Iterable[tuple[str, str, T]]) -> dict[str, T]:
    """Return name -> value from triples (place, name, value), with `iosched.` removed from names.

    Raise RequestError, with the place, if a name is given twice or has more than one dot.
    """
    found: dict[str, T] = {}
    for where, name, it in given:
        short = plain(name)
        if short.count(".") > 1:
            raise RequestError(f"{where}: a name has one dot at most, as in SCHEDULER.TUNABLE")
        if short in found:
            raise RequestError(f"{where}: {short} is given twice; give it once")
        found[short] = it
    return found


def value(where: str, given: Value) -> Value:
    """Return a user's value; a number becomes an int. Raise RequestError if it has a leading 0."""
    text = str(given)
    if re.fullmatch(r"0[0-9]+", text):
        decimal = text.lstrip("0") or "0"
        raise RequestError(
            f"{where}: {text} is octal for a kernel and decimal for fio; write {decimal}, "
            f"or 0x{int(text, 8) if set(text) <= set('01234567') else int(text):x}"
        )
    return int(text) if is_number(text) else given


def values(where: str, given: Iterable[Value]) -> tuple[Value, ...]:
    """Return a user's values for a name that an experiment varies, without duplicates."""
    return tuple(dict.fromkeys(value(where, each) for each in given))


def require_schedulers(names: Iterable[str], schedulers: Iterable[str]) -> None:
    """Raise RequestError if one of `names` is a tunable of a scheduler not in `schedulers`."""
    known = tuple(schedulers)
    for name in names:
        owner = scheduler(name)
        if owner is not None and owner not in known:
            raise unknown(f"scheduler in {name}", owner, known)


def is_setting(name: str) -> bool:
    """Return whether `name` is a setting. If not, it stands for ${name} in a job file or script."""
    return name in (CPUS, DEVICE) or "." in name


def is_virtual(name: str) -> bool:
    """Return whether `name` is a setting of a modelled device or a virtual machine."""
    return name == CPUS or name.partition(".")[0] in _OF_DEVICES


def scheduler(name: str) -> str | None:
    """Return SCHEDULER for a name SCHEDULER.TUNABLE; None if the name is no tunable."""
    first, dot, _ = name.partition(".")
    return first if dot and first not in _OF_DEVICES else None


def is_number(text: str) -> bool:
    """Return whether `text` is a whole number with no more digits than 2**64.

    Return False for a leading 0, as in 010: a kernel reads this number as octal, and fio as
    decimal.
    """
    return re.fullmatch(r"0|[1-9][0-9]*", text) is not None and len(text) <= len(str(2**64))


def split(values: Mapping[str, Value]) -> Settings:
    """Return the settings among `values`, grouped. Ignore all other names, and `device`.

    If the value of a device's setting is the word `cpus`, replace it by the number of virtual CPUs.
    """
    cpus = _cpus(values[CPUS]) if CPUS in values else None
    device: dict[str, str] = {}
    tunables: dict[str, dict[str, str]] = {}
    for name, value in values.items():
        if (owner := scheduler(name)) is not None:
            tunables.setdefault(owner, {})[name.partition(".")[2]] = str(value)
        elif name not in (CPUS, DEVICE) and is_setting(name):
            device[name] = _number_of_cpus(name, cpus) if value == CPUS else str(value)
    return Settings(device, tunables, cpus)


def _cpus(value: Value) -> int:
    if not is_number(str(value)) or not 1 <= int(value) <= _MOST_CPUS:
        raise RequestError(f"{CPUS}={value}: expected a whole number from 1 to {_MOST_CPUS}")
    return int(value)


def _number_of_cpus(name: str, cpus: int | None) -> str:
    if cpus is None:
        raise RequestError(f"{name}={CPUS}: how many they are is not said; add --{CPUS} N")
    return str(cpus)
