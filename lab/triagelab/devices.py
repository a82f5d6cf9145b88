# SPDX-License-Identifier: GPL-2.0-only
"""Devices to schedule for, and how a guest sets one up."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from triagelab.errors import RequestError, unknown


@dataclass(frozen=True)
class Setting:
    """One number a device is set up with."""

    default: int
    lowest: int
    highest: int
    meaning: str


@dataclass(frozen=True)
class Device:
    """A device with its settings.

    block    the block device's name in the guest
    modules  kernel modules it needs
    """

    name: str
    block: str
    modules: tuple[str, ...]
    settings: Mapping[str, int]
    description: str

    @property
    def capacity_iops(self) -> float:
        """Requests a second at which every place in the device is always taken."""
        in_service = self.settings["queues"] * self.settings["depth"]
        return in_service * 1e6 / self.settings["completion_us"]

    @property
    def scheduler_tags(self) -> int:
        """The nr_requests a scheduler gets; `none` has what the device has."""
        return self.settings["scheduler_tags"]

    @property
    def device_up(self) -> str:
        """The shell function `device_up`, which sets the device up in the guest."""
        values = {
            "size": self.settings["size_mb"],
            "submit_queues": self.settings["queues"],
            "hw_queue_depth": self.settings["depth"],
            "irqmode": 2,  # completions from a timer
            "completion_nsec": self.settings["completion_us"] * 1000,
            "memory_backed": self.settings["memory_backed"],
            "max_sectors": self.settings["max_kb"] * 2,
            "power": 1,
        }
        lines = [f"\techo {value} > {key} || return 1" for key, value in values.items()]
        return "\n".join(
            [
                "device_up() {",
                "\tmodprobe null_blk nr_devices=0 || return 1",
                f"\tmkdir /sys/kernel/config/nullb/{self.block} || return 1",
                f"\tcd /sys/kernel/config/nullb/{self.block} || return 1",
                *lines,
                "\tcd /job",
                "}",
            ]
        )


_NULL = {
    "completion_us": Setting(400, 1, 1_000_000, "how long one request takes, µs"),
    "depth": Setting(4, 1, 1024, "requests in service at once, for each hardware queue"),
    "queues": Setting(1, 1, 64, "hardware queues"),
    "size_mb": Setting(65_536, 1, 16_777_216, "capacity, MiB"),
    "memory_backed": Setting(0, 0, 1, "1: what is written can be read back"),
    # Twice the depth would be Linux's choice, and a queue of 8 holds no decision to make.
    "scheduler_tags": Setting(256, 2, 2048, "requests a scheduler may hold (nr_requests)"),
    # Service time does not depend on size here, so a merged request would be a free one.
    "max_kb": Setting(128, 4, 1024, "largest request, KiB"),
}

_DEVICES = {
    "null": (
        _NULL,
        "null_blk: every request takes the same time, whatever it is and wherever it goes",
    ),
}


def names() -> list[str]:
    """The devices there are."""
    return list(_DEVICES)


def describe(name: str) -> str:
    """One line on a device."""
    return _DEVICES[name][1]


def find(name: str, changes: Mapping[str, str]) -> Device:
    """The device called `name` with some settings changed (text, as the user gave it)."""
    if name not in _DEVICES:
        raise unknown("device", name, _DEVICES)
    known, description = _DEVICES[name]
    settings = {key: setting.default for key, setting in known.items()}
    device = Device(name, "nullb0", ("null_blk", "configfs"), settings, description)
    return replace(device, settings=settings | _changed(name, known, changes))


def _changed(name: str, known: Mapping[str, Setting], changes: Mapping[str, str]) -> dict[str, int]:
    values = {}
    for key, text in changes.items():
        if key not in known:
            raise unknown(f"setting of device {name}", key, known)
        setting = known[key]
        if not text.isdecimal() or not setting.lowest <= int(text) <= setting.highest:
            raise RequestError(
                f"device.{key}={text}: expected a whole number from {setting.lowest} "
                f"to {setting.highest} ({setting.meaning})"
            )
        values[key] = int(text)
    return values
