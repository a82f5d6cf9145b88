# SPDX-License-Identifier: GPL-2.0-only
"""Tests of `./triage storm`: plans from seeds, the text of --replay, results, and shrinking."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from triagelab.base.errors import LabError, RequestError
from triagelab.check import storm, verify
from triagelab.plan.machine import BootError, GuestError, Job, Outcome
from triagelab.provision import programs
from triagelab.run import machines


def test_a_seed_makes_the_same_plan_every_time_and_another_makes_another() -> None:
    assert storm.make(17) == storm.make(17)
    assert len({storm.make(seed).parts for seed in range(50)}) == 50


def test_plans_have_every_disturbance_and_not_always() -> None:
    plans = [storm.make(seed, debug=True) for seed in range(200)]
    for kind in storm.DISTURBANCES:
        share = sum(f"kind={kind} " in " ".join(plan.parts) for plan in plans) / len(plans)
        assert 0.05 < share < 0.6, kind
    stock = [part for seed in range(200) for part in storm.make(seed).parts]
    assert not any("allocations" in part for part in stock)


def test_each_plan_has_processes_that_the_guests_program_takes() -> None:
    source = (verify.CHECKS / "tools/storm.c").read_text()
    known = set(re.findall(r'value\(line, "(\w+)"', source))
    known |= set(re.findall(r'"(\w+)"', source.split("op_names[OPS] = {")[1].split("}")[0]))
    kinds = set(re.findall(r'\{ "(\w+)", act_', source))
    assert kinds == set(storm.DISTURBANCES)
    for seed in range(100):
        parts = storm.make(seed).parts
        assert any(part.startswith("process ") for part in parts)
        for part in parts:
            word, *pairs = part.split(" ")
            assert word in ("process", "disturb")
            assert {pair.split("=")[0] for pair in pairs} <= known | {"kind"}, part


def test_the_text_has_the_parts_of_the_mask() -> None:
    plan = storm.Plan(3, "storm seed=1", 16, ("process a", "process b", "disturb c"), 300)
    text = storm.Storm(plan, 0b101, 300).text(slow=4)
    assert text == "storm seed=1\nload ms=300 tags=16 slow=4\nprocess a\ndisturb c\n"


@pytest.mark.parametrize("text", ["17", "17:1", "17:3:150"])
def test_what_a_failure_prints_replays_it(text: str) -> None:
    found = storm.parse_replay(text)
    assert found.plan == storm.make(17)
    assert found.replay == text
    assert storm.parse_replay(found.replay) == found


@pytest.mark.parametrize("text", ["", "x", "17:", "17:g", "17:ffffffffffff", "17:1:", "-1"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="--replay"):
        storm.parse_replay(text)


LAST = "200 cpu1 0 tg_leave+0x1/0x2 [triage_iosched]\n100 cpu0 7 tg_drain+0x1/0x2"
CONSOLE = (
    "triage: ready\r\n"
    "[    2.1] watchdog: BUG: soft lockup - CPU#1 stuck for 5s!\r\n"
    "[    2.1] Kernel panic - not syncing: softlockup: hung tasks\r\n"
    "[    2.2] storm: fingerprint 00000000deadbeef\r\n"
    "[    2.2] storm: 200 cpu1 0 tg_leave+0x1/0x2 [triage_iosched]\r\n"
    "[    2.2] storm: 100 cpu0 7 tg_drain+0x1/0x2\r\n"
)


class Machine:
    """A machine without a guest: its run leaves `files`, then raises `error` if there is one."""

    def __init__(self, files: dict[str, str], status: int = 0, error: Exception | None = None):
        self.files, self.status, self.error = files, status, error

    async def run(self, job: Job, folder: Path) -> Outcome:
        self.job = job
        out = folder / "out"
        out.mkdir(parents=True)
        for name, text in self.files.items():
            (folder / name if name == "console.log" else out / name).write_text(text)
        if self.error:
            raise self.error
        return Outcome(self.status, out, None)


def carried_out(machine: Machine, folder: Path) -> storm.Result:
    # Machine has only run(), which is the only method of a machine that a storm calls.
    runner = storm.Runner(machine, "kyber", (), False, folder)  # type: ignore[arg-type]
    return asyncio.run(runner.run(storm.whole(storm.make(17))))


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "static", lambda source: source)


def test_a_storm_that_passes_leaves_a_fingerprint_and_no_files(tmp_path: Path) -> None:
    files = {"log": "measured: 9 requests\nPASS\n", "fingerprint": "0123\n"}
    machine = Machine(files)
    result = carried_out(machine, tmp_path)
    assert (result.reason, result.fingerprint, result.measured) == ("", "0123", "9 requests")
    assert machine.job.files["plan"] == storm.whole(storm.make(17)).text()
    assert list(tmp_path.iterdir()) == []


def test_a_storm_that_fails_says_why_and_keeps_its_files(tmp_path: Path) -> None:
    log = "FAIL: a request for block 12 ended twice\n  waits: read\n"
    result = carried_out(Machine({"log": log, "last": LAST}, status=1), tmp_path)
    assert result.reason == log.strip()
    assert result.kind == "a request for block N ended twice"
    assert result.record()["last"] == LAST.splitlines()
    assert result.record()["replay"] == "17"
    assert (result.folder / "out/log").exists()


def test_a_guest_without_a_word_has_failed(tmp_path: Path) -> None:
    assert carried_out(Machine({"log": ""}, status=1), tmp_path).reason == "it ended with 1"


def test_of_a_kernel_that_panics_the_console_tells(tmp_path: Path) -> None:
    error = GuestError("the guest's kernel panicked\nIts last lines were:\n" + CONSOLE)
    result = carried_out(Machine({"console.log": CONSOLE}, error=error), tmp_path)
    assert result.kind == "watchdog: BUG: soft lockup - CPU#N stuck for Ns!"
    assert result.fingerprint == "00000000deadbeef"
    assert result.last == LAST


@pytest.mark.parametrize("error", [BootError("no boot"), LabError("no room")])
def test_what_is_the_labs_own_is_no_failure_of_the_scheduler(
    tmp_path: Path, error: Exception
) -> None:
    with pytest.raises(LabError, match=str(error)):
        carried_out(Machine({}, error=error), tmp_path)


def result_of(wanted: storm.Storm, reason: str) -> storm.Result:
    return storm.Result(wanted, reason, "", "", "", 1.0, Path("/none"))


def failing_if(condition: Callable[[storm.Storm], bool], ran: list[storm.Storm]) -> storm.RunStorm:
    async def run(wanted: storm.Storm) -> storm.Result:
        ran.append(wanted)
        return result_of(wanted, "FAIL: stuck for 7 ms" if condition(wanted) else "")

    return run


def test_seeds_are_run_once_each_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "cores", lambda: 2)
    ran: list[storm.Storm] = []
    told: list[storm.Result] = []
    wanted = [storm.whole(storm.make(seed)) for seed in (3, 1, 2)]
    results = storm.run(failing_if(lambda s: s.plan.seed == 2, ran), wanted, told.append)
    assert [result.storm.plan.seed for result in results] == [1, 2, 3]
    assert [bool(result.reason) for result in results] == [False, True, False]
    assert sorted(s.plan.seed for s in ran) == [1, 2, 3]
    assert len(told) == 3


def test_when_the_time_is_over_no_seed_is_begun() -> None:
    ran: list[storm.Storm] = []
    assert storm.run(failing_if(lambda _: True, ran), iter([]), lambda _: None, minutes=1) == []
    seeds = (storm.whole(storm.make(seed)) for seed in range(1000))
    assert storm.run(failing_if(lambda _: True, ran), seeds, lambda _: None, minutes=0) == []
    assert ran == []


def test_until_a_failure_no_seed_begins_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "cores", lambda: 2)
    ran: list[storm.Storm] = []

    async def run(wanted: storm.Storm) -> storm.Result:
        ran.append(wanted)
        # Storms of odd seeds take longer: when seed 4 fails, another storm is still running.
        for _ in range(9 if wanted.plan.seed % 2 else 3):
            await asyncio.sleep(0)
        return result_of(wanted, "FAIL: wrong data" if wanted.plan.seed == 4 else "")

    seeds = (storm.whole(storm.make(seed)) for seed in range(1, 1000))
    results = storm.run(run, seeds, lambda _: None, until_failure=True)
    assert [result.storm.plan.seed for result in results if result.reason] == [4]
    assert [s.plan.seed for s in ran] == [1, 2, 3, 4, 5][: len(ran)]
    assert len(results) == len(ran)


PLAN = storm.Plan(5, "storm seed=1", 0, tuple(f"process {n}" for n in range(12)), 400)


def shrunk(condition: Callable[[storm.Storm], bool]) -> tuple[storm.Storm, int]:
    ran: list[storm.Storm] = []
    failed = result_of(storm.whole(PLAN), "FAIL: stuck for 99 ms")
    return storm.shrink(failing_if(condition, ran), failed).storm, len(ran)


def test_shrinking_leaves_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "cores", lambda: 2)
    needed = 1 << 2 | 1 << 9
    found, tries = shrunk(lambda s: s.mask & needed == needed and s.ms >= 100)
    assert (found.mask, found.ms) == (needed, 100)
    assert tries < 60


def test_shrinking_ends_where_everything_fails_and_where_nothing_does() -> None:
    found, _ = shrunk(lambda s: True)
    assert (len(found.parts), found.ms) == (1, 25)
    found, tries = shrunk(lambda s: False)
    assert found == storm.whole(PLAN)
    assert tries < 90


def test_another_failure_is_not_taken_for_the_same() -> None:
    async def run(wanted: storm.Storm) -> storm.Result:
        return result_of(wanted, "FAIL: wrong data")

    failed = result_of(storm.whole(PLAN), "FAIL: stuck for 99 ms")
    assert storm.shrink(run, failed) is failed
