# SPDX-License-Identifier: GPL-2.0-only
"""Compare the models of kernel/modeldisk with closed forms, in user space, under sanitizers.

Most tests simplify a device until a formula predicts its figures. Each figure must be within 3 % of
the formula's. `simulate.c` also fails if a model completes a command before the earliest time that
the model has announced to its driver.
"""

import math
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from triagelab.ask import models
from triagelab.base import sources
from triagelab.fit.simulator import Simulator

WITHIN = 0.03
MIB = 1 << 20


@pytest.fixture(scope="session")
def simulate(tmp_path_factory: pytest.TempPathFactory) -> Simulator:
    return Simulator.build(tmp_path_factory.mktemp("simulate"))


def near(expected: float) -> Any:
    return pytest.approx(expected, rel=WITHIN)


# Flash in which only the dies take a time worth mentioning. Each test adds the parts that it tests.
PLAIN_FLASH = {
    "cmd_ns": 0, "ctrl_ns": 0, "bus_mbps": 100_000, "slots": 256, "dies": 16, "page_kib": 16,
    "read_ns": 50_000, "read_full_ns": 0, "full_mbps": 0, "read_spread_pct": 0, "program_kib": 64,
    "program_ns": 640_000, "map_kib": 4, "gc_amplify_pct": 100, "size_mib": 16384,
}  # fmt: skip


def test_flash_latency_alone_is_the_sum_of_its_terms(simulate: Simulator) -> None:
    terms = {"cmd_ns": 4000, "ctrl_ns": 5000, "read_ns": 52000, "bus_mbps": 1000}
    alone = simulate("flash", "a:read:random:4096:1", **PLAIN_FLASH | terms)["a"]
    assert alone["min_ns"] == alone["max_ns"] == 4000 + 5000 + 52000 + 4096


def test_flash_pages_of_one_read_are_read_together_and_moved_in_turn(simulate: Simulator) -> None:
    settings = PLAIN_FLASH | {"bus_mbps": 1000}
    alone = simulate("flash", "a:read:sequential:65536:1", **settings)["a"]
    # The reads are aligned, so the four pages of a read are in one row, on four different dies.
    assert alone["p50_ns"] == pytest.approx(50_000 + 65536, abs=4)


def test_flash_peak_random_reads_are_dies_over_read_time(simulate: Simulator) -> None:
    peak = simulate("flash", "a:read:random:4096:256", **PLAIN_FLASH)["a"]
    # 256 random requests leave some of the 16 dies idle; the next test explains the formula.
    assert peak["iops"] == near(256 / (256 + 15) * 16 / 50e-6)


@pytest.mark.parametrize("depth", [1, 4, 16, 64])
def test_flash_random_reads_collide_as_in_a_closed_queueing_network(
    simulate: Simulator, depth: int
) -> None:
    # If service times are exponential, N customers keep each of D equal stations busy for the share
    # N / (N + D - 1) of the time. If service times are constant, stations are busy for longer. So
    # the formula is a lower bound.
    found = simulate("flash", f"a:read:random:4096:{depth}", **PLAIN_FLASH)["a"]["iops"]
    bound = 16 / 50e-6
    assert 0.97 * depth / (depth + 15) * bound <= found <= 1.03 * min(depth / 16, 1) * bound


def test_flash_sequential_bandwidth_is_the_bus(simulate: Simulator) -> None:
    settings = PLAIN_FLASH | {"bus_mbps": 1500}
    assert simulate("flash", "a:read:sequential:65536:32", **settings)["a"]["bytes_per_s"] == near(
        1.5e9
    )


def test_flash_sequential_bandwidth_is_the_dies_if_these_are_slower(simulate: Simulator) -> None:
    found = simulate("flash", "a:read:sequential:65536:128", **PLAIN_FLASH)["a"]["bytes_per_s"]
    assert found == near(16 * 16384 / 50e-6)


def test_flash_controller_bounds_commands(simulate: Simulator) -> None:
    settings = PLAIN_FLASH | {"ctrl_ns": 8000}
    assert simulate("flash", "a:read:random:4096:256", **settings)["a"]["iops"] == near(125_000)


def test_flash_controller_is_slower_for_a_while(simulate: Simulator) -> None:
    slow = {"ctrl_slow_pct": 100, "ctrl_slow_ms": 20, "ctrl_slow_every_ms": 200}
    settings = PLAIN_FLASH | {"ctrl_ns": 100_000, "time_ms": 4000} | slow
    found = simulate("flash", "a:read:random:4096:32", **settings)["a"]
    assert found["iops"] == near((180 / 100e-6 + 20 / 200e-6) / 200)
    assert found["p50_ns"] == near(32 * 100_000)
    assert found["p99_ns"] == near(32 * 200_000)


@pytest.mark.parametrize(("turns", "ahead"), [(0, 256), (1, 16 + 1)])
def test_flash_a_command_alone_in_its_queue_waits_for_that_queues_turn(
    simulate: Simulator, turns: int, ahead: int
) -> None:
    settings = PLAIN_FLASH | {"ctrl_ns": 10_000, "read_ns": 1, "slots": 16, "queue_turns": turns}
    jobs = ["deep:read:random:4096:256", "lone:read:random:4096:1:queue=1"]
    found = simulate("flash", *jobs, time_ms=2000, warmup_ms=100, **settings)
    # In order of arrival, all other commands go first. In turns, only those with a slot do, and the
    # first one of the other queue.
    assert found["lone"]["mean_ns"] == near((ahead + 1) * 10_000)
    assert found["lone"]["iops"] + found["deep"]["iops"] == near(100_000)


@pytest.mark.parametrize(("turns", "shares"), [(0, (0.2, 0.3, 0.5)), (1, (1 / 3, 1 / 3, 1 / 3))])
def test_flash_queues_that_take_turns_have_equal_shares(
    simulate: Simulator, turns: int, shares: tuple[float, ...]
) -> None:
    settings = PLAIN_FLASH | {"ctrl_ns": 10_000, "read_ns": 1, "slots": 16, "queue_turns": turns}
    # Two jobs share the last queue. Without turns, shares are those of the commands.
    jobs = [
        "a:read:random:4096:40:queue=0",
        "b:read:random:4096:60:queue=7",
        "c:read:random:4096:50:queue=1023",
        "d:read:random:4096:50:queue=1023",
    ]
    found = simulate("flash", *jobs, time_ms=2000, warmup_ms=100, **settings)
    rates = [found["a"]["iops"], found["b"]["iops"], found["c"]["iops"] + found["d"]["iops"]]
    assert rates == [near(share * 100_000) for share in shares]


def test_flash_one_queue_has_every_turn(simulate: Simulator) -> None:
    jobs = ["r:read:random:4096:64", "w:write:random:65536:8", "f:flush:random:0:1"]
    alone, in_turns = (
        simulate("flash", *jobs, slots=8, queue_turns=turns)["stats"] for turns in (0, 1)
    )
    assert alone["trace"] == in_turns["trace"]


def test_the_model_has_as_many_hardware_queues_as_a_device() -> None:
    text = (sources.MODULES / "modeldisk/model.h").read_text()
    found = re.search(r"#define MODEL_MAX_QUEUES\s+(\d+)", text)
    assert found
    assert int(found[1]) == models.settings("flash")["hw_queues"].highest


def test_flash_write_buffer_plateau_and_cliff(simulate: Simulator) -> None:
    settings = PLAIN_FLASH | {"buffer_kib": 64 * 1024, "bus_mbps": 3000}
    found = simulate("flash", "a:write:sequential:65536:8", time_ms=200, interval_ms=1, **settings)[
        "a"
    ]["intervals"]
    programmed = 16 * 65536 / 640e-6
    # The buffer fills at the rate of the bus, less the rate of the programs.
    full_ms = 64 * MIB / (3e9 - programmed) * 1e3
    assert sum(found[2:20]) / 18e-3 == near(3e9)
    assert sum(found[100:]) / 100e-3 == near(programmed)
    cliff = next(ms for ms, moved in enumerate(found) if moved < (3e6 + programmed / 1e3) / 2)
    assert cliff == pytest.approx(full_ms, rel=WITHIN, abs=1)


def test_flash_garbage_collection_slows_sustained_writes(simulate: Simulator) -> None:
    settings = PLAIN_FLASH | {
        "gc_after_mib": 512, "gc_amplify_pct": 300, "gc_ns": 800_000, "buffer_kib": 4096,
    }  # fmt: skip
    found = simulate("flash", "a:write:random:65536:64", time_ms=3000, interval_ms=10, **settings)[
        "a"
    ]["intervals"]
    before, after = 16 * 65536 / 640e-6, 16 * 65536 / (640e-6 + 2 * 800e-6)
    assert sum(found[2:20]) / 180e-3 == near(before)
    assert sum(found[100:]) / 2 == near(after)
    cliff = next(i for i, moved in enumerate(found[1:], 1) if moved < (before + after) / 200)
    assert cliff * 0.01 == pytest.approx(512 * MIB / before, rel=WITHIN, abs=0.01)


def test_flash_idle_time_makes_room_again(simulate: Simulator) -> None:
    settings = PLAIN_FLASH | {"gc_after_mib": 64, "gc_amplify_pct": 200, "gc_ns": 1_000_000}
    # 640 writes of 64 KiB are 40 MiB. They leave 24 of the 64 MiB clean.
    job = "a:write:sequential:65536:1:limit={}:think_ns={}"
    settings |= {"time_ms": 2000}
    written = simulate("flash", job.format(640, 0), **settings)["stats"]
    assert written["clean_bytes"] == 24 * MIB
    paused = simulate(
        "flash",
        "b:write:random:65536:1:limit=2:think_ns=2000000000",
        "a:write:sequential:65536:1:limit=640",
        **settings | {"time_ms": 2100},
    )
    # After a pause of nearly 2 s all 64 MiB are clean again, less the second write of job b.
    assert paused["stats"]["clean_bytes"] >= 63 * MIB


def test_flash_quick_cells_come_before_slow_ones_and_these_before_garbage_collection(
    simulate: Simulator,
) -> None:
    settings = PLAIN_FLASH | {
        "slc_mib": 1024, "gc_after_mib": 512, "gc_amplify_pct": 300, "program_ns": 320_000,
        "gc_ns": 800_000, "buffer_kib": 4096,
    }  # fmt: skip
    found = simulate("flash", "a:write:random:65536:64", time_ms=4000, interval_ms=10, **settings)[
        "a"
    ]["intervals"]
    # A program takes no copy, then one to the slow cells, then two more to make clean space.
    quick, slow, dirty = (16 * 65536 / (320e-6 + copies * 800e-6) for copies in (0, 1, 3))
    full_s = 1024 * MIB / quick
    dirty_s = full_s + 512 * MIB / slow
    assert sum(found[2:30]) / 280e-3 == near(quick)
    assert sum(found[40:80]) / 400e-3 == near(slow)
    assert sum(found[150:]) / 2.5 == near(dirty)
    for at_s, before, after in ((full_s, quick, slow), (dirty_s, slow, dirty)):
        middle = (before + after) / 200
        cliff = next(i for i, moved in enumerate(found[1:], 1) if moved < middle)
        assert cliff * 0.01 == pytest.approx(at_s, rel=WITHIN, abs=0.01)


def test_flash_quick_cells_alone_are_clean_space_with_a_copy_more(simulate: Simulator) -> None:
    jobs = [
        "w:write:random:4096:16",
        "r:read:random:4096:4",
        "f:flush:random:0:1:think_ns=3000000",
        "d:discard:random:1048576:1:think_ns=50000000",
    ]
    settings = PLAIN_FLASH | {"gc_ns": 800_000, "gc_burst": 500, "buffer_kib": 2048}
    cells = {"slc_mib": 64, "gc_after_mib": 0, "gc_amplify_pct": 100}
    space = {"slc_mib": 0, "gc_after_mib": 64, "gc_amplify_pct": 200}
    of_cells, of_space = (
        simulate("flash", *jobs, time_ms=2000, **settings | each)["stats"]
        for each in (cells, space)
    )
    assert of_cells["copies"] > 1000
    assert of_cells["trace"] == of_space["trace"]


def stats_after_idleness(simulate: Simulator, settings: dict[str, int]) -> dict[str, int]:
    """Return flash's counters after 640 writes of 64 KiB, and idleness until 1 s.

    So of 64 MiB of quick cells 24 are free when the idleness begins. One more write ends it.
    """
    found: dict[str, int] = simulate(
        "flash",
        "a:write:sequential:65536:1:limit=640",
        "b:write:random:65536:1:limit=1:host_ns=1000000000",
        time_ms=1100,
        **settings,
    )["stats"]
    return found


@pytest.mark.parametrize(("clean_mib", "amplify"), [(0, 100), (0, 200), (8, 200), (64, 200)])
def test_flash_idle_time_empties_the_quick_cells(
    simulate: Simulator, clean_mib: int, amplify: int
) -> None:
    settings = PLAIN_FLASH | {
        "slc_mib": 64, "gc_after_mib": clean_mib, "gc_amplify_pct": amplify, "gc_ns": 25_000_000,
    }  # fmt: skip
    found = stats_after_idleness(simulate, settings)
    copies = (1 - 640 * 640e-6 / 16) * 16 / 25e-3
    # Each program that leaves the quick cells takes clean space, or costs the copies that make it.
    cheap = min(copies, clean_mib * 16)
    emptied = cheap + (copies - cheap) * 100 / amplify
    assert found["slc_free_bytes"] + 65536 - 24 * MIB == near(emptied * 65536)
    assert found["clean_bytes"] == pytest.approx((clean_mib * 16 - cheap) * 65536, abs=MIB)


def test_flash_idle_time_makes_clean_space_once_the_quick_cells_are_empty(
    simulate: Simulator,
) -> None:
    settings = PLAIN_FLASH | {
        "slc_mib": 64, "gc_after_mib": 64, "gc_amplify_pct": 200, "gc_ns": 16_000_000,
    }  # fmt: skip
    # 40 MiB leave the quick cells, which takes 640 copies and 40 MiB of clean space.
    found = stats_after_idleness(simulate, settings)
    copies = (1 - 640 * 640e-6 / 16) * 16 / 16e-3
    assert found["slc_free_bytes"] == 64 * MIB - 65536
    assert found["clean_bytes"] == near(24 * MIB + (copies - 640) * 65536)


def test_flash_discards_free_the_quick_cells_first(simulate: Simulator) -> None:
    settings = PLAIN_FLASH | {
        "slc_mib": 32, "gc_after_mib": 64, "gc_amplify_pct": 200, "gc_ns": 1_000_000_000,
        "buffer_kib": 65536,
    }  # fmt: skip
    # Of 40 MiB of writes the quick cells hold 32, and 8 took clean space.
    writes = "a:write:sequential:65536:1:limit=640"
    full = simulate("flash", writes, time_ms=100, **settings)["stats"]
    assert (full["slc_free_bytes"], full["clean_bytes"]) == (0, 56 * MIB)
    discard = f"d:discard:random:{34 * MIB}:1:limit=1:host_ns=60000000"
    after = simulate("flash", writes, discard, time_ms=100, **settings)["stats"]
    assert (after["slc_free_bytes"], after["clean_bytes"]) == (32 * MIB, 58 * MIB)


def test_flash_small_random_writes_cost_whole_units_and_sequential_ones_do_not(
    simulate: Simulator,
) -> None:
    settings = PLAIN_FLASH | {"map_kib": 16, "buffer_kib": 2048, "time_ms": 1000}
    random = simulate("flash", "a:write:random:4096:32", **settings)["a"]["bytes_per_s"]
    sequential = simulate("flash", "a:write:sequential:4096:32", **settings)["a"]["bytes_per_s"]
    programmed = 16 * 65536 / 640e-6
    assert random == near(programmed / 4)
    assert sequential == near(programmed)


def test_flash_flush_waits_for_the_buffer_unless_it_is_power_safe(simulate: Simulator) -> None:
    jobs = ["w:write:random:65536:1:limit=64", "f:flush:random:0:1:think_ns=100000"]
    # The writes are 4 MiB, or four programs on each of 16 dies. The flush comes 0.1 ms later.
    waited = simulate("flash", *jobs, time_ms=20, **PLAIN_FLASH)["f"]["max_ns"]
    assert waited == near(4 * 640_000 - 100_000)
    safe = simulate("flash", *jobs, time_ms=20, power_safe=1, **PLAIN_FLASH)["f"]["max_ns"]
    assert safe < 100_000


def test_flash_fua_write_takes_as_long_as_its_program(simulate: Simulator) -> None:
    alone = simulate("flash", "a:fua:random:65536:1", **PLAIN_FLASH)["a"]
    assert alone["mean_ns"] == near(640_000)


@pytest.mark.parametrize("steps", [1, 4])
def test_flash_read_waits_for_the_end_of_a_step_of_a_program(
    simulate: Simulator, steps: int
) -> None:
    # One die that always programs. A read that comes at a random time waits half a step on average.
    settings = PLAIN_FLASH | {"dies": 1, "program_steps": steps, "overtake_max": 1000}
    step_ns = 640_000 // steps
    # All reads of a run come at the same point of a step, so average over eight points.
    means = [
        simulate(
            "flash",
            "w:write:random:65536:64",
            f"r:read:random:4096:1:think_ns={6_400_000 + (2 * phase + 1) * step_ns // 16}",
            time_ms=1000,
            **settings,
        )["r"]["p50_ns"]
        for phase in range(8)
    ]
    assert sum(means) / len(means) == near(step_ns / 2 + 50_000)


def test_flash_programs_let_only_so_many_reads_pass(simulate: Simulator) -> None:
    # The only die does four reads, then a program, then four reads...
    settings = PLAIN_FLASH | {"dies": 1, "overtake_max": 4, "program_steps": 1}
    jobs = ["w:write:random:65536:64", "r:read:random:4096:8"]
    found = simulate("flash", *jobs, time_ms=4000, warmup_ms=1000, **settings)
    cycle_s = 4 * 50e-6 + 640e-6
    assert found["r"]["iops"] == near(4 / cycle_s)
    assert found["w"]["iops"] == near(1 / cycle_s)


@pytest.mark.parametrize(("slots", "writes"), [(16, 512), (1024, 1536)])
def test_flash_slots_full_of_writes_keep_reads_out(
    simulate: Simulator, slots: int, writes: int
) -> None:
    settings = PLAIN_FLASH | {"slots": slots, "buffer_kib": 2048}
    jobs = [f"w:write:random:65536:{writes}", "r:read:random:4096:1"]
    found = simulate("flash", *jobs, time_ms=3000, warmup_ms=1000, **settings)
    # The read waits for a slot behind all writes that have none. Programs set the writes' rate.
    assert found["r"]["mean_ns"] == near((writes - slots) * 65536 / (16 * 65536 / 640e-6) * 1e9)


def test_flash_writes_that_wait_for_long_let_reads_pass(simulate: Simulator) -> None:
    settings = PLAIN_FLASH | {
        "slots": 16, "buffer_kib": 2048, "program_steps": 4, "protect_after_ms": 500,
    }  # fmt: skip
    # A die that programs pauses for a read at the end of its present step. The reads come at random
    # times, so they wait half a step on average.
    jobs = ["w:write:random:65536:512", "r:read:random:4096:1:rate=1000"]
    before = simulate("flash", *jobs, time_ms=500, warmup_ms=100, **settings)
    after = simulate("flash", *jobs, time_ms=4000, warmup_ms=1000, **settings)
    assert before["r"]["p50_ns"] == near((512 - 16) * 640e3 / 16)
    assert after["r"]["mean_ns"] == near(640_000 / 8 + 50_000)
    assert after["w"]["iops"] == near(16 / 640e-6)


def test_flash_long_reads_have_a_time_and_a_bandwidth_of_their_own(simulate: Simulator) -> None:
    settings = PLAIN_FLASH | {"bus_mbps": 2000, "read_full_ns": 90_000, "full_mbps": 1000}
    short = simulate("flash", "a:read:random:4096:1", **settings)["a"]
    assert short["min_ns"] == short["max_ns"] == 50_000 + 2048
    whole = simulate("flash", "a:read:random:8192:1", **settings)["a"]
    assert whole["min_ns"] == whole["max_ns"] == 90_000 + 8192
    many = simulate("flash", "a:read:sequential:65536:64", **settings)["a"]
    assert many["bytes_per_s"] == near(1e9)


def test_flash_pages_are_of_three_kinds(simulate: Simulator) -> None:
    spread = PLAIN_FLASH | {"read_spread_pct": 30}
    found = simulate("flash", "a:read:random:4096:1", **spread)["a"]
    assert found["min_ns"] == pytest.approx(0.7 * 50_000, abs=50)
    assert found["p50_ns"] == pytest.approx(50_000, abs=50)
    assert found["max_ns"] == pytest.approx(1.3 * 50_000, abs=50)
    assert found["mean_ns"] == near(50_000)
    # A read of two pages ends with the slower one. Sometimes both are fast.
    two = simulate("flash", "a:read:random:32768:1", **spread)["a"]
    assert two["min_ns"] == pytest.approx(0.7 * 50_000, abs=400)
    assert two["p99_ns"] == pytest.approx(1.3 * 50_000, abs=400)


def test_flash_some_pages_are_read_again(simulate: Simulator) -> None:
    slow = {"read_slow_permille": 200, "read_slow_ns": 100_000}
    found = simulate("flash", "a:read:random:4096:1", time_ms=10_000, **slow, **PLAIN_FLASH)["a"]
    assert found["mean_ns"] == near(50_000 + 0.2 * 100_000)
    assert found["p50_ns"] == pytest.approx(50_000, abs=50)
    assert found["p99_ns"] == pytest.approx(150_000, abs=50)


def test_flash_copies_in_bursts_stop_writes_and_sustain_the_same(simulate: Simulator) -> None:
    settings = PLAIN_FLASH | {
        "gc_after_mib": 0, "gc_amplify_pct": 300, "gc_ns": 800_000, "buffer_kib": 2048,
        "gc_burst": 3200,
    }  # fmt: skip
    found = simulate("flash", "a:write:random:65536:64", time_ms=9000, warmup_ms=1000, **settings)
    assert found["a"]["bytes_per_s"] == near(16 * 65536 / (640e-6 + 2 * 800e-6))
    # A write waits for 3200 copies on 16 dies, and for the programs of 64 writes.
    assert found["a"]["max_ns"] == near(3200 * 800e3 / 16 + 64 * 640e3 / 16)


# A hard disk without caches, overhead and time for seeks, and with one rate for all zones.
PLAIN_HDD = {
    "cmd_ns": 0, "write_cache_kib": 0, "readahead_kib": 0, "outer_mbps": 150, "inner_mbps": 150,
    "seek_settle_ns": 0, "seek_sqrt_ns": 0, "age_limit_ms": 0, "queue_rule": 0, "reorder_min": 0,
    "slots": 32, "size_mib": 65536,
}  # fmt: skip
TURN_NS = 60e9 / 7200
TRANSFER_NS = 4096 / 150e6 * 1e9


def test_hdd_rotational_delay_is_half_a_turn(simulate: Simulator) -> None:
    alone = simulate("hdd", "a:read:random:4096:1", time_ms=100_000, **PLAIN_HDD)["a"]
    assert alone["mean_ns"] == near(TURN_NS / 2 + TRANSFER_NS)
    assert alone["max_ns"] <= TURN_NS + TRANSFER_NS + 1


@pytest.mark.parametrize("depth", [4, 16, 32])
def test_hdd_nearest_first_gain(simulate: Simulator, depth: int) -> None:
    # Seeks take no time, so the disk serves a request when its sector next passes the head: half a
    # turn after it came, on average. But when a new request comes, the head already waits for the
    # sector of another one. If the disk serves `served` requests a turn, the new request's sector
    # passes during this wait with a probability of 1 / served. The request then waits a turn more.
    # So a request takes depth / served = 1 / 2 + 1 / served turns.
    settings = PLAIN_HDD | {"outer_mbps": 10_000, "inner_mbps": 10_000}
    found = simulate("hdd", f"a:read:random:512:{depth}", time_ms=30_000, **settings)["a"]
    assert found["iops"] == near(2 * (depth - 1) / TURN_NS * 1e9)


def seek_ns(share: float, settle: float, root: float, knee: float) -> float:
    """Return the time of a seek over this share of the tracks, as in kernel/modeldisk/hdd.c."""
    if share <= knee:
        return settle + root * math.sqrt(share)
    return settle + root * (math.sqrt(knee) + (share - knee) / (2 * math.sqrt(knee)))


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_hdd_seek_curve(simulate: Simulator, share: float) -> None:
    curve = {"seek_settle_ns": 1_000_000, "seek_sqrt_ns": 13_580_000, "seek_knee_permille": 300}
    span = int(share * (65536 << 20)) // 512 * 512
    stats = simulate(
        "hdd", f"a:read:alternate:512:1:span={span}", time_ms=20_000, **PLAIN_HDD | curve
    )
    done = stats["a"]["ios"]
    # There may be one seek less than ios, because the first request needs none, or one more, if the
    # last request has not ended.
    assert stats["stats"]["seek_ns"] / done == pytest.approx(
        seek_ns(share, 1e6, 13.58e6, 0.3), rel=WITHIN
    )


def test_hdd_random_reads_cost_mean_seek_and_half_a_turn(simulate: Simulator) -> None:
    curve = {"seek_settle_ns": 1_000_000, "seek_sqrt_ns": 10_000_000, "seek_knee_permille": 1000}
    found = simulate(
        "hdd", "a:read:random:4096:1", time_ms=200_000, **PLAIN_HDD | curve | {"cmd_ns": 300_000}
    )["a"]
    # If x is the distance of two random places, the mean of sqrt(x) is 8/15.
    expected = 300_000 + 1e6 + 8 / 15 * 1e7 + TURN_NS / 2 + TRANSFER_NS
    assert found["mean_ns"] == near(expected)


@pytest.mark.parametrize("depth", [1, 16])
@pytest.mark.parametrize(("where", "rate"), [(0.0, 110e6), (0.98, 55e6)])
def test_hdd_sequential_reads_run_at_the_zone_rate(
    simulate: Simulator, depth: int, where: float, rate: float
) -> None:
    offset = int(where * (262144 << 20)) // MIB * MIB
    found = simulate("hdd", f"a:read:sequential:65536:{depth}:offset={offset}", time_ms=5000)
    assert found["a"]["bytes_per_s"] == near(rate)


def test_hdd_sequential_writes_run_at_the_zone_rate(simulate: Simulator) -> None:
    # The writes go through the write cache. The warm-up fills it, so the disk sets the rate.
    found = simulate("hdd", "a:write:sequential:65536:1", time_ms=10_000, warmup_ms=1000)
    assert found["a"]["bytes_per_s"] == near(110e6)


def test_hdd_sequential_writes_one_by_one_without_cache_miss_a_turn_each(
    simulate: Simulator,
) -> None:
    settings = PLAIN_HDD | {"cmd_ns": 100_000}
    found = simulate("hdd", "a:write:sequential:65536:1", time_ms=20_000, **settings)["a"]
    # When the host knows that a write has ended, the head is past the start of the next one.
    assert found["mean_ns"] == near(TURN_NS + 65536 / 150e6 * 1e9)


def test_hdd_streams_side_by_side_are_read_ahead(simulate: Simulator) -> None:
    # Two sequential readers, a third of the disk apart, pause between their reads. If both pause,
    # the head reads ahead in the stream that it read last. This stream's next read is then cached.
    think_ns = 20_000_000
    jobs = [
        f"s{i}:read:sequential:65536:1:think_ns={think_ns}:offset={i * (80 << 30)}"
        for i in range(2)
    ]
    with_ahead = simulate("hdd", *jobs, time_ms=10_000)
    without = simulate("hdd", *jobs, time_ms=10_000, readahead_kib=0)
    assert without["stats"]["cache_hits"] == 0
    assert with_ahead["stats"]["cache_hits"] > with_ahead["s0"]["ios"] / 4
    for stream in ("s0", "s1"):
        assert with_ahead[stream]["ios"] > 1.1 * without[stream]["ios"]


def nearest_by_seek(depth: int, seek: Callable[[float], float]) -> float:
    """Return the mean time of a seek if the arm always goes to the nearest of `depth` places.

    The places are random; a new one replaces the nearest. `seek`: share of the disk -> time.
    """
    random = Random(1)
    places = [random.random() for _ in range(depth)]
    arm, total, rounds = 0.5, 0.0, 100_000
    for _ in range(rounds):
        nearest = min(places, key=lambda place: abs(place - arm))
        places.remove(nearest)
        total += seek(abs(nearest - arm))
        arm = nearest
        places.append(random.random())
    return total / rounds


@pytest.mark.parametrize("depth", [2, 8, 32])
def test_hdd_nearest_by_seek_saves_seeks_and_no_rotation(simulate: Simulator, depth: int) -> None:
    curve = {"seek_settle_ns": 1_000_000, "seek_sqrt_ns": 13_580_000, "seek_knee_permille": 300}
    found = simulate(
        "hdd",
        f"a:read:random:4096:{depth}",
        time_ms=300_000,
        **PLAIN_HDD | curve | {"queue_rule": 1},
    )
    # A new request comes when another ends. By then the arm has already chosen its next request, so
    # it chooses from one request fewer.
    wanted = nearest_by_seek(depth - 1, lambda share: seek_ns(share, 1e6, 13.58e6, 0.3))
    done = found["a"]["ios"]
    assert found["stats"]["seek_ns"] / done == near(wanted)
    assert found["stats"]["rotation_ns"] / done == near(TURN_NS / 2)


@pytest.mark.parametrize(("rule", "depth"), [(0, 8), (1, 8), (0, 2)])
def test_hdd_takes_few_requests_in_order(simulate: Simulator, rule: int, depth: int) -> None:
    settings = PLAIN_HDD | {
        "seek_settle_ns": 1_000_000, "seek_sqrt_ns": 10_000_000, "seek_knee_permille": 1000,
        "queue_rule": rule, "time_ms": 200_000,
    }  # fmt: skip
    job = f"a:read:random:4096:{depth}"
    in_order = simulate("hdd", job, **settings | {"reorder_min": depth})["a"]
    # Requests go one at a time. If x is the distance of two random places, sqrt(x) averages 8/15.
    service_ns = 1e6 + 8 / 15 * 1e7 + TURN_NS / 2 + TRANSFER_NS
    assert in_order["iops"] == near(1e9 / service_ns)
    assert in_order["mean_ns"] == near(depth * service_ns)
    chosen = simulate("hdd", job, **settings | {"reorder_min": depth - 1})
    any_number = simulate("hdd", job, **settings)
    assert chosen["a"] == any_number["a"]
    assert chosen["stats"] == any_number["stats"]
    if depth > 2:
        assert chosen["a"]["iops"] > 1.1 * in_order["iops"]


def test_hdd_few_requests_do_not_keep_a_flush_waiting(simulate: Simulator) -> None:
    jobs = [
        "w:write:random:4096:1:limit=32",
        "f:flush:random:0:1:limit=2:think_ns=50000000",
        "r:read:random:4096:2",
    ]
    settings = {"reorder_min": 8, "time_ms": 5000}
    assert simulate("hdd", *jobs, **settings)["f"]["ios"] == 2


def test_hdd_old_requests_are_served_next(simulate: Simulator) -> None:
    # Without an age limit, nearest-first would never serve the request that is far away.
    jobs = ["near:read:random:4096:8:span=1048576", f"far:read:random:4096:1:offset={200 << 30}"]
    bound = simulate("hdd", *jobs, time_ms=20_000, age_limit_ms=200)["far"]
    assert bound["ios"] > 50
    assert bound["max_ns"] < 200e6 + 100e6


def test_hdd_flush_waits_for_the_write_cache(simulate: Simulator) -> None:
    jobs = ["w:write:random:4096:1:limit=32", "f:flush:random:0:1:limit=2:think_ns=5000000"]
    found = simulate("hdd", *jobs, time_ms=5000)
    # The flush waits for nearly all of the 32 random writes, which take several ms each.
    assert found["f"]["max_ns"] > 25 * 2e6
    assert found["stats"]["dirty_bytes"] == 0


#: Profile -> parameters that turn on features of the model, or give them other values than the
#: profile does.
ALL_ON = {
    "flash": {
        "read_full_ns": 40_000, "full_mbps": 2000, "read_spread_pct": 30, "slots": 48,
        "read_slow_permille": 20, "read_slow_ns": 300_000, "gc_after_mib": 0, "gc_burst": 500,
        "slc_mib": 8, "queue_turns": 1,
        "protect_after_ms": 5, "buffer_kib": 2048, "ctrl_slow_pct": 300, "ctrl_slow_ms": 2,
        "ctrl_slow_every_ms": 7,
    },
    "fast-flash": {"read_full_ns": 2000, "full_mbps": 9000, "read_spread_pct": 99, "slots": 1024},
    "hdd": {"age_limit_ms": 100, "reorder_min": 2},
}  # fmt: skip


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("profile", ["flash", "fast-flash", "hdd"])
def test_all_commands_end_whatever_they_are(simulate: Simulator, profile: str, on: bool) -> None:
    jobs = [
        "r:read:random:4096:16:limit=2000:think_ns=1000",
        "big:read:random:524288:2:limit=100",
        "odd:read:alternate:3584:2:limit=500:span=987648",
        "w:write:random:4096:16:limit=2000:queue=1",
        "s:write:sequential:65536:4:limit=500",
        "fua:fua:random:8192:2:limit=100",
        "f:flush:random:0:2:limit=20:think_ns=3000000:queue=2",
    ]
    if profile != "hdd":
        jobs.append("d:discard:random:1048576:2:limit=100")
    found = simulate(profile, *jobs, time_ms=200_000, **ALL_ON[profile] if on else {})
    wanted = {job.split(":")[0]: int(job.split("limit=")[1].split(":")[0]) for job in jobs}
    assert {name: found[name]["ios"] for name in wanted} == wanted


#: Settings without long reads, kinds of pages, bursts, protection and queue rules. With them, the
#: models must give TRACES.
EARLIER = {
    "flash": {
        "cmd_ns": 4000, "bus_mbps": 1324, "slots": 64, "ctrl_ns": 4000, "dies": 16,
        "read_ns": 52_000, "read_full_ns": 0, "full_mbps": 0, "read_spread_pct": 0,
    },
    "fast-flash": {},
    "hdd": {
        "cmd_ns": 100_000, "bus_mbps": 550, "slots": 32, "outer_mbps": 180, "inner_mbps": 90,
        "seek_settle_ns": 1_000_000, "seek_sqrt_ns": 13_580_000, "seek_knee_permille": 300,
        "age_limit_ms": 1000, "queue_rule": 0, "reorder_min": 0,
    },
}  # fmt: skip
#: Device and further settings -> the hash of all commands' times, and the number of times that the
#: driver's timer expired. Both were recorded before the models had the features that EARLIER turns
#: off.
TRACES = {
    "flash gc_after_mib=64 time_ms=1000": (15063793969226614308, 157138),
    "flash gc_after_mib=64 slots=8 buffer_kib=2048 power_safe=1 time_ms=1000": (
        14210491403314916851, 53116,
    ),
    "fast-flash time_ms=500": (14951501820092280338, 62354),
    "hdd time_ms=60000": (6448966688363619802, 29378),
    "hdd age_limit_ms=0 write_cache_kib=0 slots=16 time_ms=60000": (4616803413521198465, 11491),
}  # fmt: skip


@pytest.mark.parametrize("device", TRACES)
def test_what_is_off_changes_nothing(simulate: Simulator, device: str) -> None:
    profile, *settings = device.split()
    jobs = [
        "r:read:random:4096:16:think_ns=1000",
        "big:read:random:65536:4",
        "odd:read:alternate:3584:2:span=987648",
        "w:write:random:4096:16:limit=20000",
        "s:write:sequential:65536:8",
        "fua:fua:random:8192:2:think_ns=100000",
        "f:flush:random:0:2:think_ns=3000000",
    ]
    given = {key: int(value) for key, _, value in (pair.partition("=") for pair in settings)}
    stats = simulate(profile, *jobs, **EARLIER[profile] | given)["stats"]
    assert (stats["trace"], stats["wakes"]) == TRACES[device]


def test_simulating_twice_gives_the_same(simulate: Simulator) -> None:
    jobs = ["r:read:random:4096:8", "w:write:random:65536:8"]
    assert simulate("flash", *jobs) == simulate("flash", *jobs)
    assert simulate("flash", *jobs) != simulate("flash", *jobs, seed=2)


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ("read:random:0:1", "not a whole number of sectors: a"),
        ("write:random:100:1", "not a whole number of sectors: a"),
        ("fua:random:1048576:1", "more than 512 KiB: a"),
        ("discard:random:100:1", "not a whole number of sectors: a"),
        ("flush:random:4096:1", "a flush has 0 bytes: a"),
    ],
)
def test_a_request_that_no_kernel_sends_is_refused(
    simulate: Simulator, job: str, says: str
) -> None:
    with pytest.raises(AssertionError, match=says):
        simulate("flash", f"a:{job}")
