# SPDX-License-Identifier: GPL-2.0-only
"""Choose how long a load is simulated, from the load and from the model's own parameters.

A point's figures are those of the drive's steady state: the drive was measured for minutes, or
prepared first. So a longer simulation must give the same figures. The warm-up therefore lasts until
the load has filled the model's buffer, quick cells, clean space and write cache. The measurement
lasts for many periods of everything in the model that repeats. A point with has_room was measured
while the drive had free cells: its simulation ends before these are full.
"""

from collections.abc import Mapping
from dataclasses import dataclass

#: The measurement has at least this many commands of each kind whose figures are judged: 200 of
#: them exceed the P99.
_COMMANDS = 20_000
#: The measurement has at least this many turns of the queue (Load.turn_s). The P99 of 256 commands
#: at once needs so many: after 80 turns it still grows by a fifth.
_TURNS = 800
#: The measurement has at least this many of the model's periods (_period_s()).
_PERIODS = 100
#: The number of commands of a short simulation.
_BRIEF_COMMANDS = 6_000


@dataclass(frozen=True)
class Load:
    """The parts of a load that decide how long it is simulated.

    rarest   commands a second of the rarest kind whose figures are judged
    all      commands a second
    at_once  commands in the device
    writes   writes a second; 0: the load only reads
    bytes    bytes of a write
    has_room during the whole measurement, programs cause no copies
    """

    rarest: float
    all: float
    at_once: int
    writes: float
    bytes: int
    has_room: bool = False

    @property
    def turn_s(self) -> float:
        """Return the time in which the device completes as many commands as it holds."""
        return self.at_once / self.all


@dataclass(frozen=True)
class Window:
    """The times of a simulation, in s: the measurement, and the warm-up before it."""

    warmup_s: float
    counted_s: float

    def settings(self) -> dict[str, int]:
        """Return the simulator's settings for these times."""
        warmup_ms = round(self.warmup_s * 1000)
        return {"warmup_ms": warmup_ms, "time_ms": warmup_ms + round(self.counted_s * 1000) + 1}


def steady(model: Mapping[str, int], load: Load, times: float = 1) -> Window:
    """Return the window in which a model with these parameters shows its steady state.

    `times` multiplies the measurement's length. A test passes 10, and checks that the same figures
    exceed their bounds as with 1.
    """
    counted_s = times * max(
        _COMMANDS / load.rarest, _TURNS * load.turn_s, _PERIODS * _period_s(model, load)
    )
    settled_s = _settling_s(model, load) + 2 * load.turn_s
    if load.has_room:
        counted_s = min(counted_s, (_room_s(model, load) - settled_s) / 1.05)
        if counted_s <= 0:
            raise ValueError("a point with has_room, but the model has too little room")
    return Window(settled_s + counted_s / 20, counted_s)


def brief(load: Load) -> Window:
    """Return a short window, for the many trials of a search. The load must only read."""
    counted_s = _BRIEF_COMMANDS / load.all
    return Window(2 * load.turn_s + counted_s / 20, counted_s)


def _settling_s(model: Mapping[str, int], load: Load) -> float:
    """Return the time until the load has filled the buffer, the write cache and all free cells.

    Some rules of a model change when waiting commands reach an age, so add these ages too.
    """
    ages_s = (model["protect_after_ms"] + model["age_limit_ms"]) / 1000
    room = (model["buffer_kib"] + model["write_cache_kib"]) << 10
    if not load.has_room:
        room += _free_bytes(model)
    return ages_s + (room / _filled_per_s(model, load) if load.writes else 0)


def _period_s(model: Mapping[str, int], load: Load) -> float:
    """Return the longer period: of the controller's slow phases, or of bursts of copies."""
    slow_s = model["ctrl_slow_every_ms"] / 1000 if model["ctrl_slow_ms"] else 0.0
    if not load.writes or load.has_room or not _copies(model):
        return slow_s
    programs = model["gc_burst"] / _copies(model)
    return max(slow_s, programs * (model["program_kib"] << 10) / _filled_per_s(model, load))


def _room_s(model: Mapping[str, int], load: Load) -> float:
    """Return the time until programs cause copies: the quick cells, if any, are full first."""
    free = (model["slc_mib"] << 20) or _free_bytes(model)
    return free / _filled_per_s(model, load)


def _free_bytes(model: Mapping[str, int]) -> int:
    """Return the bytes that the model can program before each program causes all its copies."""
    clean_mib = model["gc_after_mib"] if model["gc_amplify_pct"] > 100 else 0
    return (model["slc_mib"] + clean_mib) << 20


def _filled_per_s(model: Mapping[str, int], load: Load) -> float:
    """Return how many bytes of the buffer the load fills per second, once the model is steady.

    A write fills at least one unit of map_kib. Flash programs, and the copies that they cause,
    limit the rate. A hard disk has neither, so only the load limits its rate.
    """
    wanted = load.writes * max(load.bytes, model["map_kib"] << 10)
    copies = 0 if load.has_room else _copies(model)
    program_ns = model["program_ns"] + copies * model["gc_ns"]
    if not program_ns:
        return wanted
    return min(wanted, model["dies"] * (model["program_kib"] << 10) / (program_ns / 1e9))


def _copies(model: Mapping[str, int]) -> float:
    """Return the number of copies that each flash program causes once no cells are free."""
    return bool(model["slc_mib"]) + max(model["gc_amplify_pct"] - 100, 0) / 100
