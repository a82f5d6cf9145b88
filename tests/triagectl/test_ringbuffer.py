# SPDX-License-Identifier: GPL-2.0-only
"""Test that pages of the trace buffer are decoded to events.

Some pages are synthetic. The recorded pages must have the events that the kernel's text shows.
"""

import lzma
import re
from pathlib import Path

import pytest

from tests.triagectl import pages
from triagectl import ringbuffer, tracefs
from triagectl.errors import RequestError
from triagectl.ringbuffer import Event

DATA = Path(__file__).parent / "data"
WANTED = ("common_pid", "dev", "sector", "comm")


def decoded(page: bytes) -> tuple[list[Event], bool]:
    layout = ringbuffer.layout("issue", pages.FORMAT.format(id=7), WANTED)
    found: list[Event] = []
    lost = ringbuffer.decode(page, ringbuffer.header(pages.HEADER), {7: layout}, found)
    return found, lost


def test_events_and_their_times() -> None:
    page = pages.page(
        1000,
        [
            pages.event(7, -3, 0x800000, 1 << 40, b"fio", delta=5),
            pages.event(8, 1, 1, 1, b"of another kind", delta=10),
            pages.discarded(60, delta=100),
            pages.event(7, 4, 1, 2, b"dd", delta=2),
            pages.extend((5 << 27) + 3),
            pages.long_event(7, 99, 200, delta=4),
            pages.stamp((1 << 40) + 1),
            pages.event(7, 4, 1, 3, b"dd", delta=1),
        ],
    )
    found, lost = decoded(page)
    assert not lost
    assert [event[0] for event in found] == [
        1005,
        1117,  # the time of a discarded event counts
        1117 + (5 << 27) + 3 + 4,
        (1 << 40) + 2,
    ]
    assert found[0][1:] == ("issue", -3, 0x800000, 1 << 40, b"fio".ljust(16, b"\0"))
    assert found[2][4] == 99


def test_an_absolute_time_has_its_upper_bits_from_the_page() -> None:
    page = pages.page(3 << 59, [pages.stamp(77), pages.event(7, 1, 1, 1, b"", delta=0)])
    assert decoded(page)[0][0][0] == 3 << 59 | 77


def test_a_full_buffer_is_told() -> None:
    assert decoded(pages.page(0, [], missed=True))[1]


def test_a_field_that_a_kernel_lacks_is_empty() -> None:
    layout = ringbuffer.layout("x", pages.FORMAT.format(id=7), ("dev", "ioprio", "comm"))
    found: list[Event] = []
    page = pages.page(0, [pages.event(7, 1, 5, 6, b"fio")])
    ringbuffer.decode(page, ringbuffer.header(pages.HEADER), {7: layout}, found)
    assert found[0][2:4] == (5, b"")


def test_fields_in_another_order_are_refused() -> None:
    with pytest.raises(RequestError, match="orders the fields"):
        ringbuffer.layout("x", pages.FORMAT.format(id=7), ("sector", "dev"))


def recorded() -> list[Event]:
    """Return recorded events: dd read and wrote a loop device, under mq-deadline on Linux 6.18."""
    formats = dict(re.findall(r"^==== (\S+)\n(.*?)(?=^====|\Z)", text("formats"), re.M | re.S))
    begins = ringbuffer.header(formats.pop("header_page"))
    layouts = {}
    for name, form in formats.items():
        layout = ringbuffer.layout(name.rpartition("/")[2], form, tracefs.FIELDS[name])
        layouts[layout.id] = layout
    found: list[Event] = []
    raw = lzma.decompress((DATA / "pages.xz").read_bytes())
    for at in range(0, len(raw), begins.page):
        ringbuffer.decode(raw[at : at + begins.page], begins, layouts, found)
    return sorted(found, key=lambda event: event[0])


def text(name: str) -> str:
    return (DATA / f"{name}.txt").read_text()


LINE = re.compile(
    r"-(\d+) +\[\d+\] \S+ +(\d+)\.(\d+): (\w+): (\d+),(\d+) \w+ (?:\d+ )?(?:\(\) )?(\d+) \+ (\d+)"
)


def test_recorded_pages_say_what_the_kernels_text_says() -> None:
    lines = [match.groups() for match in LINE.finditer(text("trace"))]
    assert len(lines) == text("trace").count("\n") - 1
    mine = [
        (event[2], (event[0] + 500) // 1000, event[1], event[3], event[4], event[5])
        for event in recorded()
    ]
    theirs = [
        (
            int(pid),
            int(s) * 10**6 + int(us),
            kind,
            int(major) << 20 | int(minor),
            int(sector),
            int(count),
        )
        for pid, s, us, kind, major, minor, sector, count in lines
    ]
    assert len(mine) == len(theirs)

    def order(event: tuple[int, int, str, int, int, int]) -> tuple[object, ...]:
        return (event[2:], event[0], event[1])

    for one, other in zip(sorted(mine, key=order), sorted(theirs, key=order), strict=True):
        assert (one[0], *one[2:]) == (other[0], *other[2:])
        # Pages and text come from two trace instances, which read the clock one after the other.
        assert abs(one[1] - other[1]) <= 20


def test_more_disks_than_the_kernels_filter_takes() -> None:
    with pytest.raises(RequestError, match="name disks"):
        tracefs._filter(range(1000))
    assert tracefs._filter([1, 2]) == "dev == 1 || dev == 2"
