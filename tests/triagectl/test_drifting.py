# SPDX-License-Identifier: GPL-2.0-only
"""Test the answers of `triagectl try` on simulated loads that change by themselves."""

import itertools
import random

import pytest

from tests.triagectl import drifting
from triagectl import compare, trial


@pytest.mark.parametrize("name", drifting.LOADS)
def test_false_verdicts_are_seldom_on_any_load(name: str) -> None:
    """Judge the same blocks by every order that the tosses can give, so the rate is exact.

    An order and its opposite have opposite verdicts. So the test tries only half of the orders.
    """
    seconds = 120.0
    pairs, length = trial.pairs_in(seconds), trial.block_length(seconds)
    load = drifting.Load(drifting.LOADS[name], 2 * seconds, random.Random(name))
    found = drifting.blocks(load, [False] * 2 * pairs, length, drifting.NONE)
    answers = []
    for tosses in itertools.product([False, True], repeat=pairs - 1):
        order = [tries for toss in (False, *tosses) for tries in (toss, not toss)]
        answers.append(compare.summary(trial.judged(order, found)))
    assert len(answers) == 2048
    assert sum(one in drifting.VERDICTS for one in answers) <= 0.05 * len(answers)


@pytest.mark.parametrize("name", drifting.LOADS)
def test_a_halved_p99_is_seen(name: str) -> None:
    _, seen = drifting.rates(name, 120.0, 60)
    assert seen >= (0.5 if name == "bursts" else 0.9)


@pytest.mark.parametrize("seconds", [trial.SHORTEST_S, 120.0, 199.0, 200.0, 86400.0])
def test_each_trial_that_is_allowed_can_give_a_verdict(seconds: float) -> None:
    pairs = trial.pairs_in(seconds)
    assert trial.block_length(seconds) >= 1
    assert compare.outside(pairs) >= 2
    assert len(trial.drawn(pairs, random.Random(1))) == 2 * pairs


def test_the_tosses_are_fair_and_independent() -> None:
    chance = random.Random(5)
    orders = [trial.drawn(12, chance) for _ in range(4000)]
    for order in orders[:100]:
        assert all(order[at] != order[at + 1] for at in range(0, 24, 2))
    for one, other in itertools.combinations(range(0, 24, 2), 2):
        same = sum(order[one] == order[other] for order in orders)
        assert 1800 <= same <= 2200
    for at in range(24):
        assert 1850 <= sum(order[at] for order in orders) <= 2150


def test_the_interval_leaves_an_equal_part_of_the_chance_to_each_figure() -> None:
    """With 12 pairs, the chance that at most one goes against the others is 2 x 13 / 4096.

    This is below 5 % / 7. The chance for at most two is 2 x 79 / 4096, which is above.
    """
    assert [compare.outside(pairs) for pairs in (0, 1, 8, 9, 11, 12, 15, 16, 18, 19, 20)] == [
        0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4
    ]  # fmt: skip
