# SPDX-License-Identifier: GPL-2.0-only
"""Read from modeldisk's sources the names of its profiles, and the bounds of all settings."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from triagelab.base.settings import is_number
from triagelab.base.sources import MODULES

#: The longest request of a model, in bytes: MODEL_MAX_BYTES in model.h.
LARGEST = 512 * 1024
_FOLDER = MODULES / "modeldisk"


@dataclass(frozen=True)
class Bounds:
    """The values that a setting may have."""

    lowest: int
    highest: int
    power_of_2: bool = False

    def allow(self, text: str) -> bool:
        """Return whether `text` is a number within the bounds."""
        if not is_number(text) or not self.lowest <= int(text) <= self.highest:
            return False
        return not self.power_of_2 or int(text).bit_count() == 1

    def __str__(self) -> str:
        kind = "power of 2" if self.power_of_2 else "whole number"
        return f"a {kind} from {self.lowest} to {self.highest}"


@cache
def profiles() -> Mapping[str, str]:
    """Return a map from each profile to the name of its model, flash or hdd."""
    text = (_FOLDER / "profiles.c").read_text()
    return dict(re.findall(r'\.name = "([\w-]+)",\s*\.model = &(\w+)_model,', text))


def settings(profile: str) -> Mapping[str, Bounds]:
    """Return the bounds of the settings of a profile's block device, by the settings' names."""
    return _bounds("settings.h", profiles()[profile])


def parameters(profile: str) -> Mapping[str, Bounds]:
    """Return the bounds of the parameters of a profile's model, by the parameters' names."""
    return _bounds("model-params.h", profiles()[profile])


@cache
def _bounds(header: str, model: str) -> Mapping[str, Bounds]:
    found = {}
    for line in re.findall(r"^PARAM\((.*)\)$", (_FOLDER / header).read_text(), re.M):
        name, lowest, highest, flags = (word.strip() for word in line.split(","))
        if f"PARAM_{model.upper()}" in flags or "PARAM_ANY" in flags:
            power_of_2 = "PARAM_POWER_OF_2" in flags
            found[name] = Bounds(_number(lowest), _number(highest), power_of_2)
    return found


def _number(text: str) -> int:
    """Return a number that modeldisk's headers give as U32_MAX, N or N << N."""
    if text == "U32_MAX":
        return 0xFFFFFFFF
    factor, _, shift = text.partition("<<")
    return int(factor) << int(shift or 0)
