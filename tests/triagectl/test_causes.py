# SPDX-License-Identifier: GPL-2.0-only
"""Test that `explain` finds the cause of a slow request, with a prepared case for each cause."""

from collections.abc import Sequence

import pytest

from triagectl.causes import Cause, Place, Seen, find
from triagectl.requests import Request

MS = 1_000_000
VICTIM, OTHER = 1, 2
NOW = 10_000 * MS


def request(
    tid: int,
    queued: float,
    got: float,
    issued: float,
    completed: float,
    of: str = "NORMAL",
    reason: str = "",
    write: bool = False,
) -> Request:
    """Return a request of 4 KiB with the given times, in ms."""
    one = Request(1, 0, 8, write, not write, tid, b"x", int(queued * MS), of=of, reason=reason)
    one.got = one.inserted = int(got * MS)
    one.issued = int(issued * MS)
    one.completed = int(completed * MS)
    return one


def cause(
    victim: Request,
    others: Sequence[Request],
    held: Sequence[float] = (),
    queues: int = 1,
    **place: object,
) -> Cause:
    tunables = {key: str(value) for key, value in place.items() if key.startswith("limit_")}
    scheduler = str(place.get("scheduler", "triage"))
    wbt = 75000 if place.get("wbt") else 0
    arm = bool(place.get("rotational"))
    seen = Seen(
        Place(scheduler, tunables, tags=64, queues=queues, wbt_us=wbt, rotational=arm),
        [victim, *others],
        lambda one: one.of,
        [int(time * MS) for time in held],
    )
    return find(victim, seen, NOW)


def alone(count: int = 20) -> list[Request]:
    """Return requests that were alone in the device, each for 0.1 ms."""
    return [request(OTHER, 900 + n, 900 + n, 900 + n, 900.1 + n) for n in range(count)]


def test_depth() -> None:
    inside = [request(OTHER, 1, 1, 2, 8 + n / 10) for n in range(32)]
    for one in inside:
        one.beside = 9
    found = cause(request(VICTIM, 5, 5, 5, 12), [*inside, *alone()], scheduler="none")
    assert found.name == "depth"
    assert found.others == {OTHER: 32}
    assert "triagectl try" in found.do


def given_up(requests: Sequence[Request], at: float) -> Sequence[Request]:
    """Return the requests as a pause of the recording leaves them: their ends were not seen."""
    for one in requests:
        one.completed, one.until = 0, int(at * MS)
    return requests


def test_requests_that_are_no_longer_followed_are_not_in_the_device_for_ever() -> None:
    earlier = given_up([request(OTHER, 1, 1, 2, 0) for _ in range(64)], 3)
    inside = [request(OTHER, 4, 4, 4, 9)]
    found = cause(request(VICTIM, 5, 5, 5, 12), [*earlier, *inside, *alone()], scheduler="none")
    assert found.others == {OTHER: 1}


def test_requests_that_are_no_longer_followed_do_not_keep_their_tags() -> None:
    earlier = given_up([request(OTHER, 1, 1, 2, 0) for _ in range(64)], 3)
    victim = request(VICTIM, 5, 30, 30.1, 30.2)
    assert cause(victim, [*earlier, *alone()]).name == "unknown"


def test_requests_that_are_followed_for_a_while_keep_their_tags_until_then() -> None:
    holding = given_up([request(OTHER, 1, 1, 2, 0) for _ in range(64)], 29)
    assert cause(request(VICTIM, 5, 30, 30.1, 30.2), [*holding, *alone()]).name == "tag"


def test_depth_where_nothing_was_ever_alone() -> None:
    """If no request was alone in the device, a usual time is assumed: longer on a rotating disk."""
    inside = [request(OTHER, 1, 1, 2, 8 + n / 10) for n in range(32)]
    victim = request(VICTIM, 5, 5, 5, 12)
    for one in [victim, *inside]:
        one.beside = 9
    assert cause(victim, inside).name == "depth"
    assert cause(victim, inside, rotational=True).name == "device"


def test_a_tag() -> None:
    holding = [request(OTHER, 0, 1, 2, 30 + n / 2) for n in range(64)]
    found = cause(request(VICTIM, 10, 30.1, 30.2, 30.5), [*holding, *alone()])
    assert found.name == "tag"
    assert found.others[OTHER] >= 58
    assert "nr_requests" in found.do
    assert found.text == "64 of 64 tags were taken, so it had no place"


def test_a_tag_of_one_of_several_queues() -> None:
    holding = [request(OTHER, 0, 1, 2, 30 + n / 2) for n in range(70)]
    found = cause(request(VICTIM, 10, 30.1, 30.2, 30.5), [*holding, *alone()], queues=4)
    assert found.name == "tag"
    assert found.text.startswith("70 tags were taken, and a hardware queue has 64")


def test_a_queue_has_no_more_tags_taken_than_it_has() -> None:
    """The tags can be the process's own. A tag may be taken again before its end is seen."""
    holding = [request(VICTIM, 0, 1, 2, 30 + n / 2) for n in range(70)]
    found = cause(request(VICTIM, 10, 30.1, 30.2, 30.5), [*holding, *alone()])
    assert found.text == "64 of 64 tags were taken, so it had no place"
    assert set(found.others) == {VICTIM}


def test_a_tag_between_two_owners() -> None:
    """In the middle of the victim's wait, an eighth of the tags have no owner."""
    owners = [request(OTHER, 0, 1, 2, 19.9) for _ in range(64)]
    nexts = [request(OTHER, 5, 20 + (n < 8), 22, 40) for n in range(64)]
    found = cause(request(VICTIM, 10, 30.1, 30.2, 30.5), [*owners, *nexts, *alone()])
    assert (found.name, found.others) == ("tag", {OTHER: 64})


def passing(late: float) -> list[Request]:
    """Return requests that share 64 tags.

    Every 2 ms, 8 of the tags are given back; their next owners come `late` ms later.
    """
    return [
        request(OTHER, 1, 2 * turn + late, 2 * turn + late, 2 * (turn + 8))
        for turn in range(60)
        for _ in range(8)
    ]


@pytest.mark.parametrize(("late", "name"), [(1.5, "tag"), (1.7, "unknown")])
def test_tags_that_wait_for_their_next_owners_most_of_the_time(late: float, name: str) -> None:
    """All tags are taken for 25 % of the wait, or for 15 %."""
    victim = request(VICTIM, 16.5, 113, 113.1, 113.5)
    assert cause(victim, [*passing(late), *alone()]).name == name


@pytest.mark.parametrize("busy", [44, 50])
@pytest.mark.parametrize("wbt", [False, True])
def test_tags_of_which_many_are_free_but_in_bursts(busy: int, wbt: bool) -> None:
    """Every 10 ms, all tags are taken for 3 ms. At other times `busy` of 64 are."""
    most = [request(OTHER, 1, 2, 2, 101) for _ in range(busy)]
    bursts = [
        request(OTHER, 10 * turn, 10 * turn, 10 * turn, 10 * turn + 3)
        for turn in range(1, 10)
        for _ in range(64 - busy)
    ]
    victim = request(VICTIM, 5, 100, 100.2, 100.5, write=True)
    victim.sync = False
    found = cause(victim, [*most, *bursts, *alone()], wbt=wbt)
    if busy == 50:
        assert (found.name, found.others) == ("tag", {OTHER: 64})
    else:
        assert found.name == ("writeback" if wbt else "unknown")


def test_aging() -> None:
    aged = [request(OTHER, 0, 0, 10 + n, 10.9 + n, "LOW", "aged") for n in range(40)]
    found = cause(request(VICTIM, 9, 9, 51, 51.2, "HIGH"), [*aged, *alone()])
    assert found.name == "aging"
    assert "aging_expire_low" in found.do


def test_a_limit() -> None:
    mine = [request(VICTIM, 0, 0, 100 + 100 * n, 100.2 + 100 * n, "LOW") for n in range(8)]
    others = [request(OTHER, 0, 0, 100 + n, 100.2 + n, "NORMAL") for n in range(700)]
    victim = request(VICTIM, 50, 50, 850, 850.2, "LOW")
    found = cause(victim, [*mine, *others, *alone()], limit_iops_low=10)
    assert (found.name, found.do) == ("limit", "raise limit_iops_low 10, or set it to 0")
    # A limit is not the cause if the class sent far more or far less than the limit allows, or if
    # the limit is another class's.
    assert cause(victim, [*mine, *others, *alone()], limit_iops_low=1).name != "limit"
    assert cause(victim, [*mine, *others, *alone()], limit_iops_low=20).name != "limit"
    assert cause(victim, [*mine, *others, *alone()], limit_kib_low=100_000).name != "limit"
    assert cause(victim, [*mine, *others, *alone()], limit_iops_normal=10).name != "limit"


@pytest.mark.parametrize("part", ["device", "queue", "tag"])
def test_a_stalled_device(part: str) -> None:
    """A stall from 100 to 400 ms is the cause, wherever the victim waits meanwhile."""
    stuck = [request(OTHER, 99, 99, 99.5, 400 + n / 10) for n in range(10)]
    times = {
        "device": (100, 100, 100, 400),
        "queue": (110, 110, 400.2, 400.5),
        "tag": (110, 400.2, 400.3, 400.5),
    }[part]
    found = cause(request(VICTIM, *times), [*stuck, *alone()])
    assert found.name == "stall"
    assert int(found.text.split(" for ")[1].split()[0]) >= 290


def test_a_device_that_never_answers() -> None:
    victim = request(VICTIM, 100, 100, 100, 0)
    assert cause(victim, alone()).name == "stall"
    # The cause is the same if `explain` has stopped following the request.
    victim.until = 1100 * MS
    assert cause(victim, []).name == "stall"


def test_a_device_without_work_has_not_stalled() -> None:
    before = request(OTHER, 0, 0, 0, 1)
    victim = request(VICTIM, 400, 400, 400, 430)
    assert cause(victim, [before, *alone()]).name == "device"


def test_somebodys_priority() -> None:
    high = [request(OTHER, n, n, n + 0.1, n + 0.9, "HIGH", "sparse") for n in range(10, 60)]
    found = cause(request(VICTIM, 10, 10, 60, 60.2), [*high, *alone()])
    assert found.name == "priority"
    assert found.others == {OTHER: 50}
    assert "share_normal" in found.do


def test_the_budget_of_bulk() -> None:
    peers = [request(OTHER, n, n, n + 0.1, n + 0.9) for n in range(10, 60, 10)]
    held = [10 + n for n in range(50)]
    found = cause(request(VICTIM, 10, 10, 60, 60.2), [*peers, *alone()], held)
    assert found.name == "budget"


def test_too_much_of_the_same() -> None:
    own = [request(VICTIM, n, n, n + 0.1, n + 0.9) for n in range(10, 60)]
    found = cause(request(VICTIM, 10, 10, 60, 60.2), [*own, *alone()], scheduler="bfq")
    assert found.name == "order"
    assert "50 of them of its own thread" in found.text


def test_a_request_that_waited_for_nothing() -> None:
    assert cause(request(VICTIM, 10, 10, 60, 60.2), alone(), scheduler="bfq").name == "idle"


def test_writeback_throttling() -> None:
    victim = request(VICTIM, 10, 60, 60.1, 60.2, write=True)
    victim.sync = False
    assert cause(victim, alone(), wbt=True).name == "writeback"
    assert cause(victim, alone()).name == "unknown"


def test_the_devices_own_time() -> None:
    assert cause(request(VICTIM, 5, 5, 5, 12), alone()).name == "device"
