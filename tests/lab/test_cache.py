# SPDX-License-Identifier: GPL-2.0-only
"""The cache: entries are whole, and made once."""

import asyncio
import threading
import time
from pathlib import Path

import pytest
from triagelab import cache


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "cache"))


def test_a_failed_entry_leaves_nothing_and_is_made_again() -> None:
    def fails(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        cache.entry("kind/name", fails)
    made = cache.entry("kind/name", lambda folder: (folder / "whole").touch())
    assert [path.name for path in made.iterdir()] == ["whole"]
    assert not [path for path in made.parent.iterdir() if "part" in path.name]


def test_what_one_who_was_killed_has_left_goes() -> None:
    left = cache.root() / "kind/name.part-abcd"
    left.mkdir(parents=True)
    (left / "half").write_text("half")
    made = cache.entry("kind/name", lambda folder: None)
    assert {path.name for path in made.parent.iterdir()} == {"name", "name.lock"}


def test_two_that_want_the_same_make_it_once() -> None:
    calls: list[Path] = []

    def slow(folder: Path) -> None:
        calls.append(folder)
        time.sleep(0.2)

    threads = [threading.Thread(target=cache.entry, args=("kind/name", slow)) for _ in range(3)]
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
        await asyncio.gather(*(cache.entry_meanwhile("kind/name", slow) for _ in range(3)))

    asyncio.run(both())
    assert len(calls) == 1


def test_one_who_is_stopped_meanwhile_leaves_it_to_the_next() -> None:
    async def never(_: Path) -> None:
        await asyncio.sleep(100)

    async def whole(folder: Path) -> None:
        (folder / "whole").touch()

    async def both() -> Path:
        first = asyncio.create_task(cache.entry_meanwhile("kind/name", never))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(cache.entry_meanwhile("kind/name", whole))
        await asyncio.sleep(0.1)
        first.cancel()
        return await second

    made = asyncio.run(both())
    assert {path.name for path in made.parent.iterdir()} == {"name", "name.lock"}
    assert [path.name for path in made.iterdir()] == ["whole"]
