# SPDX-License-Identifier: GPL-2.0-only
"""Simulate trials of `triagectl try` on loads that change by themselves; count their answers.

    python -m tests.triagectl.drifting        (make trials)

The program prints two rates for each kind of load. The first is how often a trial gives a verdict
(`helped`, `harmed` or `mixed`) though the tried settings change nothing. The second is how often it
says `helped` if the tried settings halve the P99 of reads. The program uses no disk, and prints the
same in each run.

A load has one activity, which changes with time. Each figure is a power of the activity, with its
exponent in `FIGURES` and a noise of its own.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from triagectl import compare, trial
from triagectl.trial import Block

#: For each figure: the exponent of the activity, and the standard deviation that noise gives to the
#: figure's logarithm in a block of 10 s.
FIGURES = {
    "requests/s": (1.0, 0.03),
    "bytes read/s": (1.0, 0.05),
    "bytes written/s": (0.7, 0.10),
    "read mean": (0.8, 0.05),
    "read P99": (1.2, 0.15),
    "write mean": (0.8, 0.10),
    "write P99": (1.2, 0.20),
}
#: An effect: for each figure that the tried settings change, the factor.
NONE: Mapping[str, float] = {}
HALVED = {"read P99": 0.5, "read mean": 0.8}
#: Each figure's value at activity 1, without noise or effect. It is far above 1, because compare.py
#: counts values below 1 as 1.
_TYPICAL = 1e6
VERDICTS = ("helped", "harmed", "mixed")
#: The time between two values of an activity, in s.
_STEP_S = 0.5

#: A kind of load: a function that returns the activity's logarithm at each of a number of steps.
Path = Callable[[random.Random, int], list[float]]


def _steady(_: random.Random, steps: int) -> list[float]:
    return [0.0] * steps


def _trend(chance: random.Random, steps: int) -> list[float]:
    """Let the activity double or halve during the trial."""
    whole = math.log(2) * chance.choice((-1, 1))
    return [whole * step / steps for step in range(steps)]


def _walk(chance: random.Random, steps: int) -> list[float]:
    """Let the activity's logarithm walk at random, with a final standard deviation of log 2."""
    of_a_step = math.log(2) / math.sqrt(steps)
    return list(accumulate(chance.gauss(0, of_a_step) for _ in range(steps)))


def _autocorrelated(chance: random.Random, steps: int) -> list[float]:
    """Let the activity's logarithm be a first-order autoregression with a time constant of 30 s."""
    keeps = math.exp(-_STEP_S / 30)
    of_a_step = 0.3 * math.sqrt(1 - keeps**2)
    values = [chance.gauss(0, 0.3)]
    while len(values) < steps:
        values.append(keeps * values[-1] + chance.gauss(0, of_a_step))
    return values


def _cycle(chance: random.Random, steps: int) -> list[float]:
    """Let the activity's logarithm be a sine wave; half a wave to two waves fit into the trial."""
    waves, phase = chance.uniform(0.5, 2), chance.uniform(0, 2 * math.pi)
    return [0.5 * math.sin(2 * math.pi * waves * step / steps + phase) for step in range(steps)]


def _step(chance: random.Random, steps: int) -> list[float]:
    """Let the activity double or halve at one moment, as when a backup begins or ends."""
    at, size = chance.randrange(steps), math.log(2) * chance.choice((-1, 1))
    return [size * (step >= at) for step in range(steps)]


def _bursts(chance: random.Random, steps: int) -> list[float]:
    """Let each of three bursts triple the activity for a twentieth of the trial."""
    begins = [chance.randrange(steps) for _ in range(3)]
    return [
        math.log(3) * any(0 <= s - begin < steps / 20 for begin in begins) for s in range(steps)
    ]


LOADS: Mapping[str, Path] = {
    "steady": _steady,
    "trend": _trend,
    "random walk": _walk,
    "autocorrelated": _autocorrelated,
    "cycle": _cycle,
    "step": _step,
    "bursts": _bursts,
}


class Load:
    """A load drawn at random, which gives the figures of any block of time."""

    def __init__(self, path: Path, seconds: float, chance: random.Random) -> None:
        steps = math.ceil(seconds / _STEP_S)
        self._chance = chance
        self._sums = [0.0, *accumulate(path(chance, steps))]

    def block(self, begin: float, length: float, effect: Mapping[str, float]) -> Block:
        """Return a block's figures."""
        first = int(begin / _STEP_S)
        last = max(first + 1, int((begin + length) / _STEP_S))
        level = (self._sums[last] - self._sums[first]) / (last - first)
        noise = math.sqrt(10 / length)
        return Block(
            {
                name: _TYPICAL
                * effect.get(name, 1.0)
                * math.exp(part * level + self._chance.gauss(0, sigma * noise))
                for name, (part, sigma) in FIGURES.items()
            }
        )


def blocks(
    load: Load, order: Sequence[bool], length: float, effect: Mapping[str, float]
) -> list[Block]:
    """Return the blocks of a trial, at the times at which `try` measures them."""
    every = length + trial._SETTLE_S
    return [
        load.block(at * every + trial._SETTLE_S, length, effect if tries else NONE)
        for at, tries in enumerate(order)
    ]


def answer(path: Path, seconds: float, effect: Mapping[str, float], chance: random.Random) -> str:
    """Return the answer of one trial on a load of this kind."""
    load = Load(path, 2 * seconds, chance)
    order = trial.drawn(trial.pairs_in(seconds), chance)
    found = blocks(load, order, trial.block_length(seconds), effect)
    return compare.summary(trial.judged(order, found))


def rates(name: str, seconds: float, trials: int) -> tuple[float, float]:
    """Return the share of trials with a false verdict, and the share that see a halved P99."""
    chance = random.Random(f"{name} {seconds}")
    false = sum(answer(LOADS[name], seconds, NONE, chance) in VERDICTS for _ in range(trials))
    seen = sum(answer(LOADS[name], seconds, HALVED, chance) == "helped" for _ in range(trials))
    return false / trials, seen / trials


def main() -> None:
    """Print the rates for each kind of load and some lengths of a trial."""
    lengths = {"48s": trial.SHORTEST_S, "2m": 120.0, "10m": 600.0}
    print(
        "| load |", " | ".join(f"{what}, {n}" for n in lengths for what in ("false", "seen")), "|"
    )
    print("|---|" + "---|" * 2 * len(lengths))
    for name in LOADS:
        both = [rate for seconds in lengths.values() for rate in rates(name, seconds, 2000)]
        print(f"| {name} |", " | ".join(f"{100 * rate:.1f} %" for rate in both), "|")


if __name__ == "__main__":
    main()
