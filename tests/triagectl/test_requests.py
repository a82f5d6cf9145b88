# SPDX-License-Identifier: GPL-2.0-only
"""Test that the matcher puts requests together from events."""

import errno

import pytest

from tests.triagectl.test_ringbuffer import recorded
from triagectl.requests import Matcher, Request, text
from triagectl.ringbuffer import Event

DEV, PART = 8 << 20, 8 << 20 | 1


class Log:
    """A matcher, and the requests that it reports as done or given up."""

    def __init__(self) -> None:
        self.done: list[Request] = []
        self.given_up: list[Request] = []
        self.matcher = Matcher({PART: DEV}, self.done.append, gave_up=self.given_up.append)

    def feed(self, *events: Event) -> list[Request]:
        self.matcher.feed(events)
        return self.done


def bio(
    kind: str,
    at: int,
    sector: int,
    sectors: int = 8,
    dev: int = DEV,
    tid: int = 7,
    rwbs: bytes = b"R",
) -> Event:
    return (at, f"block_{kind}", tid, dev, sector, sectors, rwbs, b"fio")


def ended(at: int, sector: int, error: int = -errno.EAGAIN, dev: int = DEV) -> Event:
    """Return the event of a bio that ended without a request."""
    return (at, "block_bio_complete", dev, sector, error)


def rq(kind: str, at: int, sector: int, sectors: int = 8) -> Event:
    return (at, f"block_rq_{kind}", 1, DEV, sector, sectors, 0, b"R", b"kworker")


def done(at: int, sector: int, sectors: int = 8) -> Event:
    return (at, "block_rq_complete", 0, DEV, sector, sectors)


def test_a_requests_times() -> None:
    (one,) = Log().feed(
        bio("bio_queue", 10, 100, dev=PART),
        bio("getrq", 20, 100, dev=PART),
        rq("insert", 30, 100),
        (35, "triage_dispatch", DEV, 100, 4096, 9, b"HIGH\0\0", b"sparse\0"),
        rq("issue", 40, 100),
        done(90, 100),
    )
    assert (one.queued, one.got, one.inserted, one.issued, one.completed) == (10, 20, 30, 40, 90)
    assert (one.waited, one.served, one.bytes, one.tid) == (30, 50, 4096, 7)
    assert (one.of, one.reason) == ("HIGH", "sparse")


def test_merged_bios_are_the_requests_they_joined() -> None:
    log = Log()
    (one,) = log.feed(
        bio("bio_queue", 1, 100),
        bio("getrq", 2, 100),
        bio("bio_queue", 3, 108),
        bio("bio_backmerge", 4, 108),
        bio("bio_queue", 5, 92),
        bio("bio_frontmerge", 6, 92),
        rq("issue", 10, 92, 24),
        done(20, 92, 24),
    )
    assert (one.sector, one.sectors, one.queued) == (92, 24, 1)
    assert not log.matcher.pending


def test_of_two_requests_that_join_one_is_left() -> None:
    log = Log()
    for sector in (0, 8):
        log.feed(bio("bio_queue", 1, sector), bio("getrq", 2, sector))
    log.feed(rq("merge", 3, 8), rq("issue", 4, 0, 16), done(9, 0, 16))
    assert [one.sectors for one in log.done] == [16]
    assert not log.matcher.pending


def test_the_rest_of_a_split_bio_begins_when_it_has_a_tag() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0, 16), bio("getrq", 2, 0), rq("issue", 3, 0), done(4, 0))
    log.feed(bio("getrq", 5, 8), rq("issue", 6, 8), done(7, 8))
    assert [one.queued for one in log.done] == [1, 5]


def test_a_part_that_is_done_is_not_the_end() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0, 16), rq("issue", 2, 0, 16), done(3, 0, 8))
    assert not log.done
    log.feed(done(9, 8, 8))
    assert [one.completed for one in log.done] == [9]


def test_a_request_that_the_driver_sent_back() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), rq("issue", 2, 0))
    log.feed((3, "block_rq_requeue", 1, DEV, 0, 8))
    assert not log.matcher.inside[DEV]
    (one,) = log.feed(rq("issue", 5, 0), done(6, 0))
    assert (one.issued, one.requeues) == (5, 1)


def test_two_at_one_sector_are_left_out_and_counted() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), bio("bio_queue", 2, 0), rq("issue", 3, 0), done(4, 0))
    assert not log.done
    assert log.matcher.ambiguous == 2


def test_what_is_ambiguous_is_not_unfinished() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), rq("issue", 2, 0), bio("bio_queue", 3, 0))
    log.feed(bio("bio_queue", 4, 64), rq("issue", 5, 64))
    assert [one.queued for one in log.matcher.unfinished()] == [4]


def test_a_bio_that_is_asked_for_again_after_it_had_no_tag_is_one_request() -> None:
    """io_uring first submits without waiting for a tag. Then a worker thread submits, and waits."""
    log = Log()
    log.feed(bio("bio_queue", 1, 0, dev=PART), ended(2, 0, dev=PART))
    log.feed(bio("bio_queue", 30, 0, dev=PART, tid=8), ended(31, 0, dev=PART))
    log.feed(bio("bio_queue", 50, 0, dev=PART, tid=8), rq("issue", 60, 0), done(70, 0))
    assert [(one.queued, one.issued, one.tid) for one in log.done] == [(1, 60, 7)]
    assert log.matcher.ambiguous == 0
    # The second attempt got a tag, so the next bio at that sector is another request.
    log.feed(bio("bio_queue", 80, 0), ended(81, 0), bio("bio_queue", 82, 0), rq("issue", 83, 0))
    log.feed(bio("bio_queue", 84, 0), done(90, 0))
    assert log.matcher.ambiguous == 2


def test_an_attempt_that_is_still_to_be_repeated_has_its_age() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), ended(2, 0))
    log.matcher.give_up(50)
    assert [one.end(99) - one.queued for one in log.given_up] == [49]


@pytest.mark.parametrize(("sectors", "rwbs"), [(16, b"R"), (8, b"W")])
def test_another_request_at_a_refused_bios_sector_is_not_its_repetition(
    sectors: int, rwbs: bytes
) -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), ended(2, 0))
    log.feed(bio("bio_queue", 30, 0, sectors, rwbs=rwbs), rq("issue", 31, 0, sectors))
    (one,) = log.feed(done(40, 0, sectors))
    assert (one.queued, one.write) == (30, rwbs == b"W")


def test_a_bio_that_failed_without_a_request_is_followed_no_longer() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), ended(2, 0, error=-errno.EIO))
    assert not log.matcher.pending


def test_a_refused_bio_says_nothing_of_a_request_that_is_there() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), rq("issue", 2, 0))
    log.matcher.open = False
    log.feed(bio("bio_queue", 3, 0), ended(4, 0, error=-errno.EIO), done(5, 0))
    assert [one.completed for one in log.done] == [5]


def test_flushes_are_not_taken_for_requests_at_sector_0() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), rq("issue", 2, 0, 0), done(3, 0, 0))
    assert not log.done
    assert not log.matcher.pending[DEV, 0].issued


def test_what_is_inside() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), bio("bio_queue", 1, 8, tid=9))
    log.feed(rq("issue", 2, 0), rq("issue", 3, 8))
    assert log.matcher.inside[DEV] == {7: 1, 9: 1}
    log.feed(done(4, 0))
    assert log.matcher.inside[DEV] == {9: 1}


def test_a_closed_matcher_follows_those_that_it_has() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), rq("issue", 2, 0))
    log.matcher.open = False
    log.feed(bio("bio_queue", 3, 8), rq("issue", 4, 8), done(5, 8), done(6, 0))
    assert [one.sector for one in log.done] == [0]


def test_a_request_that_is_no_longer_waited_for() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), rq("issue", 2, 0), bio("bio_queue", 3, 8))
    log.matcher.give_up(50)
    one, queued = log.given_up
    assert (one.served, one.end(99)) == (48, 50)
    assert (queued.issued, queued.end(99)) == (0, 50)


def test_a_request_that_came_while_the_recording_was_turned_off_has_no_negative_time() -> None:
    log = Log()
    log.feed(bio("bio_queue", 49, 0), rq("issue", 51, 0), bio("bio_queue", 52, 8))
    log.matcher.give_up(50)
    issued, queued = log.given_up
    assert (issued.served, queued.end(99) - queued.queued) == (0, 0)


def test_a_bio_that_became_no_request_is_not_in_the_way_for_ever() -> None:
    log = Log()
    log.feed(bio("bio_queue", 1, 0), bio("bio_queue", 2, 8), rq("issue", 3, 8))
    log.matcher.expire(50)
    assert list(log.matcher.pending) == [(DEV, 8)]
    log.feed(bio("bio_queue", 60, 0), rq("issue", 61, 0), done(62, 0))
    assert [one.queued for one in log.done] == [60]


def test_recorded_requests() -> None:
    log = Log()
    log.feed(*recorded())
    reads = [one for one in log.done if not one.write]
    writes = [one for one in log.done if one.write]
    assert [(one.sector, one.bytes) for one in reads] == [(1600 + 16 * n, 8192) for n in range(12)]
    assert sum(one.bytes for one in writes) == 6 * 65536
    assert {text(one.comm) for one in reads} == {b"dd"}
    for one in log.done:
        assert one.queued <= one.got <= one.inserted <= one.issued <= one.completed
    assert {one.ioprio for one in reads} == {2 << 13 | 4}
