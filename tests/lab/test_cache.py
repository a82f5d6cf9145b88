# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the cache: entries are complete, and made once.

When an entry is made, the cache removes entries of the same kind that nobody used for a month. It
keeps downloaded entries, and those that a process holds locked.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from triagelab.base import cache, files


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "cache"))


def test_a_failed_entry_leaves_nothing_and_is_made_again() -> None:
    def fails(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        cache.made("kind/name", fails)
    made = cache.made("kind/name", lambda folder: (folder / "whole").touch())
    assert [path.name for path in made.iterdir()] == ["whole"]
    assert not [path for path in made.parent.iterdir() if "part" in path.name]


def test_what_one_who_was_killed_has_left_goes() -> None:
    left = cache.root() / "kind/name.part-abcd"
    left.mkdir(parents=True)
    (left / "half").write_text("half")
    made = cache.made("kind/name", lambda folder: None)
    assert {path.name for path in made.parent.iterdir()} == {"name", "name.lock"}


def test_two_that_want_the_same_make_it_once() -> None:
    calls: list[Path] = []

    def slow(folder: Path) -> None:
        calls.append(folder)
        time.sleep(0.2)

    threads = [threading.Thread(target=cache.made, args=("kind/name", slow)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_two_that_want_the_same_make_it_once_meanwhile() -> None:
    calls: list[Path] = []

    async def slow(folder: Path) -> None:
        calls.append(folder)
        await asyncio.sleep(0.2)

    async def both() -> None:
        await asyncio.gather(*(cache.made_meanwhile("kind/name", slow) for _ in range(3)))

    asyncio.run(both())
    assert len(calls) == 1


def test_one_who_is_stopped_meanwhile_leaves_it_to_the_next() -> None:
    async def never(_: Path) -> None:
        await asyncio.sleep(100)

    async def whole(folder: Path) -> None:
        (folder / "whole").touch()

    async def both() -> Path:
        first = asyncio.create_task(cache.made_meanwhile("kind/name", never))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(cache.made_meanwhile("kind/name", whole))
        await asyncio.sleep(0.1)
        first.cancel()
        return await second

    made = asyncio.run(both())
    assert {path.name for path in made.parent.iterdir()} == {"name", "name.lock"}
    assert [path.name for path in made.iterdir()] == ["whole"]


# ---- unused entries ---------------------------------------------------------------


def fill(folder: Path) -> None:
    (folder / "whole").touch()


async def fill_meanwhile(folder: Path) -> None:
    fill(folder)


def made(name: str) -> None:
    cache.made(name, fill)


def made_meanwhile(name: str) -> None:
    asyncio.run(cache.made_meanwhile(name, fill_meanwhile))


def fetched(name: str) -> None:
    cache.fetched(name, fill)


def grow_old(name: str, days: float = 31) -> None:
    then = time.time() - days * 24 * 3600
    os.utime(cache.root() / name, (then, then))


def there(kind: str) -> set[str]:
    return {path.name for path in (cache.root() / kind).iterdir() if path.is_dir()}


makers = pytest.mark.parametrize("make", [made, made_meanwhile])


@makers
def test_what_nobody_has_used_for_a_month_goes_when_another_is_made(
    make: Callable[[str], None],
) -> None:
    ages = {"kind/old": 31, "kind/new": 29, "kind/used": 31, "other/old": 31}
    for name in ages:
        make(name)
    for name, days in ages.items():
        grow_old(name, days)
    make("kind/used")
    assert there("kind") == {"old", "new", "used"}, "nothing was made"
    make("kind/another")
    assert there("kind") == {"new", "used", "another"}
    assert there("other") == {"old"}
    make("kind/old")
    assert (cache.root() / "kind/old/whole").exists()


def test_what_was_downloaded_stays() -> None:
    fetched("kind/old")
    grow_old("kind/old")
    fetched("kind/another")
    assert there("kind") == {"old", "another"}


@makers
def test_what_somebody_is_at_stays_and_nobody_waits(make: Callable[[str], None]) -> None:
    make("kind/old")
    grow_old("kind/old")
    (cache.root() / "kind/made.part-abcd").mkdir()
    with (
        files.locked(cache.root() / "kind/old.lock"),
        files.locked(cache.root() / "kind/made.lock"),
    ):
        make("kind/another")
    assert there("kind") == {"old", "another", "made.part-abcd"}
    make("kind/third")
    assert there("kind") == {"another", "third"}, "their locks are free again"
