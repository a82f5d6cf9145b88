# SPDX-License-Identifier: GPL-2.0-only
"""Describe the devices of experiments, and write the shell code that makes them in a guest.

Two kernel modules, null_blk and modeldisk, make a device for each folder in configfs. Each file in
the folder is a setting of the device. A drive in drives/ is a modeldisk device with the settings in
the drive's file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from triagelab.ask import drives, models
from triagelab.ask.models import Bounds
from triagelab.base.errors import RequestError, unknown


@dataclass(frozen=True)
class Part:
    """A part of a device that can be busy, such as the dies of a flash drive.

    busy    names of counters; their sum is the part's busy time, in ns
    places  name of the counter that says how many operations the part does at once, for example
            the number of dies; None: one operation
    """

    busy: tuple[str, ...]
    places: str | None = None


@dataclass(frozen=True)
class Device:
    """A device with its settings, or several devices that have the same settings.

    blocks          the block devices' names in /dev
    module          the kernel module that makes the device; None: the device exists already, and
                    the lab uses it as it is
    group           the module's folder in configfs
    settings        file in the device's folder -> value, in the order of writing; if `module` is
                    None: facts about the device, for the report
    slow            settings of the last of several devices; they replace those in `settings`
    capacity_iops   the most requests a second that all devices together complete; None: unknown
    parts           the device's parts and their counters, by the part's name
    scheduler_tags  nr_requests under every scheduler but `none`; None: Linux's own choice
    """

    name: str
    description: str
    blocks: tuple[str, ...]
    module: str | None
    group: str | None
    settings: Mapping[str, str]
    capacity_iops: float | None = None
    parts: Mapping[str, Part] = field(default_factory=dict)
    scheduler_tags: int | None = None
    slow: Mapping[str, str] = field(default_factory=dict)

    @property
    def device_up(self) -> str:
        """Return the text of the shell function `device_up`.

        The function sets up all devices, and writes the first device's settings to out/device. If
        `module` is None, the function does nothing.
        """
        if self.module is None:
            return "device_up() { :; }"
        folders = [f"/sys/kernel/config/{self.group}/{block}" for block in self.blocks]
        arguments = " nr_devices=0" if self.module == "null_blk" else ""
        return "\n".join(
            [
                "device_up() {",
                f"\tmodprobe {self.module}{arguments} &&",
                *(line for folder in folders[:-1] for line in self._one_up(folder, {})),
                *self._one_up(folders[-1], self.slow),
                f"\t(cd {folders[0]} && grep . *) 2> /dev/null | sed 's/:/=/' > out/device",
                "}",
            ]
        )

    def _one_up(self, folder: str, changes: Mapping[str, str]) -> list[str]:
        wanted = {**self.settings, **changes}
        settings = [f"\techo {value} > {folder}/{key} &&" for key, value in wanted.items()]
        return [f"\tmkdir {folder} &&", *settings, f"\techo 1 > {folder}/power &&"]


_NULL_DEFAULTS = {
    "size": "65536",
    "submit_queues": "1",
    "hw_queue_depth": "4",
    "irqmode": "2",  # completions from a timer
    "completion_nsec": "400000",
    "memory_backed": "0",
    # null_blk takes the same time for a request of any size, so a merged request would cost
    # nothing. max_sectors limits the size of a request, and so the number of merges.
    "max_sectors": "256",
}
_NULL_BOUNDS = {
    "size": Bounds(1, 16_777_216),
    "submit_queues": Bounds(1, 64),
    "hw_queue_depth": Bounds(1, 1024),
    "irqmode": Bounds(0, 2),
    "completion_nsec": Bounds(1000, 1_000_000_000),
    "memory_backed": Bounds(0, 1),
    "max_sectors": Bounds(8, 2048),
}
# The setting for the number of devices. Each device gets the scheduler under test.
_COUNT = "device.count"
_COUNT_BOUNDS = Bounds(1, 8)
# The prefix of a setting that changes a model's parameter for the last of several devices only.
_SLOW = "slow."
# The setting for nr_requests under every scheduler but `none`. The device's folder in configfs has
# no such file.
_SCHEDULER_TAGS = "device.scheduler_tags"
_SCHEDULER_TAGS_BOUNDS = Bounds(4, 4096)
# Linux would choose twice the device's depth, which is 8. A scheduler would then have too few
# requests to choose from.
_NULL_SCHEDULER_TAGS = 256

#: A model -> its parts.
_PARTS = {
    "flash": {
        "dies": Part(("die_read_ns", "die_program_ns", "die_copy_ns"), "dies"),
        "bus": Part(("bus_busy_ns",)),
        "controller": Part(("ctrl_busy_ns",)),
    },
    "hdd": {"arm": Part(("seek_ns", "rotation_ns", "transfer_ns"))},
}

_DESCRIPTIONS = {
    "flash": "modeldisk: 980pro-fifth, a TLC NVMe drive at a fifth of its throughput",
    "fast-flash": "modeldisk: low-latency flash, about 10 µs a read",
    "hdd": "modeldisk: hdd-f1, a hard disk of 7200 revolutions a minute",
    "null": "null_blk: every request takes the same time, wherever it goes",
}


def names() -> list[str]:
    """Return the names of all devices; the drives in drives/ come last."""
    return [*_DESCRIPTIONS, *drives.names()]


def describe(name: str) -> str:
    """Return a description of a device in one line."""
    if name in _DESCRIPTIONS:
        return _DESCRIPTIONS[name]
    drive = drives.find(name)
    return f"modeldisk: {drive.product}, {drive.kind}"


def find(name: str, changes: Mapping[str, str]) -> Device:
    """Return the device `name`, with the changed settings (device.KEY, model.KEY or slow.KEY)."""
    if "/" in name:
        raise RequestError(f"{name}, a device of this computer, is for --machine host")
    if name not in names():
        raise unknown("device", name, names())
    slow: dict[str, str] = {}
    if name == "null":
        bounds = {f"device.{key}": limits for key, limits in _NULL_BOUNDS.items()}
    else:
        bounds = _modeldisk_bounds(name)
        slow = {key: of for key, of in changes.items() if key.startswith(_SLOW)}
        changes = {key: of for key, of in changes.items() if key not in slow}
        own = {key.replace("model.", _SLOW): of for key, of in bounds.items() if "model." in key}
        slow = _checked(name, own, slow)
    bounds |= {_COUNT: _COUNT_BOUNDS, _SCHEDULER_TAGS: _SCHEDULER_TAGS_BOUNDS}
    checked = _checked(name, bounds, changes)
    tags = checked.pop(_SCHEDULER_TAGS.split(".", 1)[1], None)
    device = _null(checked) if name == "null" else _modeldisk(name, checked, slow)
    return device if tags is None else replace(device, scheduler_tags=int(tags))


def _checked(name: str, known: Mapping[str, Bounds], changes: Mapping[str, str]) -> dict[str, str]:
    """Return `changes` with the prefixes device., model. and slow. removed from the names.

    The rest of a name is the name of a file in the device's folder, except `count` and
    `scheduler_tags`. Raise RequestError for an unknown setting, or for a value out of its bounds.
    """
    for key, text in changes.items():
        if key not in known:
            raise unknown(f"setting of device {name}", key, known)
        if not known[key].allow(text):
            raise RequestError(f"{key}={text}: expected {known[key]}")
    return {key.split(".", 1)[1]: text for key, text in changes.items()}


def _null(changes: Mapping[str, str]) -> Device:
    settings = _NULL_DEFAULTS | dict(changes)
    count = int(settings.pop("count", "1"))
    in_service = count * int(settings["submit_queues"]) * int(settings["hw_queue_depth"])
    timed = settings["irqmode"] == "2"
    return Device(
        name="null",
        description=describe("null") + (f"; {count} of these" if count > 1 else ""),
        blocks=tuple(f"nullb{number}" for number in range(count)),
        module="null_blk",
        group="nullb",
        settings=settings,
        capacity_iops=in_service * 1e9 / int(settings["completion_nsec"]) if timed else None,
        scheduler_tags=_NULL_SCHEDULER_TAGS,
    )


def _modeldisk(name: str, changes: Mapping[str, str], slow: Mapping[str, str]) -> Device:
    profile, own = _profile(name)
    settings = {"profile": profile} | own | dict(changes)
    count = int(settings.pop("count", "1"))
    if slow and count == 1:
        raise RequestError(
            f"{', '.join(_SLOW + key for key in slow)}: sets the last of several devices, and "
            "there is one; add device.count=N"
        )
    several = f"; {count} of these" + (", the last one slower" if slow else "")
    return Device(
        name=name,
        description=describe(name) + (several if count > 1 else ""),
        blocks=tuple(f"md{number}" for number in range(count)),
        module="modeldisk",
        group="modeldisk",
        settings=settings,
        # With several devices, the sampler in the guest records no counters of parts.
        parts={} if count > 1 else _PARTS[models.profiles()[profile]],
        slow=slow,
    )


def _profile(name: str) -> tuple[str, dict[str, str]]:
    """Return a device's modeldisk profile, and the settings in which the device differs from it."""
    if name in _DESCRIPTIONS:
        return name, {}
    drive = drives.find(name)
    own = drive.settings | drive.parameters
    return drive.profile, {key: str(value) for key, value in own.items()}


def _modeldisk_bounds(name: str) -> dict[str, Bounds]:
    """Return the bounds of a modeldisk device's settings and parameters.

    The names begin with `device.` or `model.`.
    """
    profile = _profile(name)[0]
    return {
        **{f"device.{key}": of for key, of in models.settings(profile).items()},
        **{f"model.{key}": of for key, of in models.parameters(profile).items()},
    }


def was_set_to(device: Device, out: Path) -> dict[str, str]:
    """Return the settings of a run's device, from the driver's report in the file `out`/device.

    Leave out the rest of the report: modeldisk also reports parameters of models that the device
    does not use, and null_blk settings that the lab does not set. For a device without a module,
    return its `settings`.
    """
    if device.module is None:
        return dict(device.settings)
    if device.module == "modeldisk":
        known = {"profile", *(key.split(".", 1)[1] for key in _modeldisk_bounds(device.name))}
    else:
        known = set(device.settings)
    lines = (out / "device").read_text().splitlines()
    return {key: value for key, _, value in (line.partition("=") for line in lines) if key in known}
