# SPDX-License-Identifier: GPL-2.0-only
"""Tests of `./triage storm` as users call it."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from triagelab import cli
from triagelab.commands import storm, verify
from triagelab.provision import kernels
from triagelab.run import machines

from tests import due
from tests.kernel import bugs
from tests.product.product import README, ROOT, qemus, triage

#: Bug in tests/kernel/seeded/ -> a seed whose storm finds the bug, and a pattern of the message.
FOUND = {
    "lost-on-requeue": (33, "do not end|a request waits"),
}


def record(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "storm.json").read_text())
    return found


#: The seeds that triage must withstand, in parts. tests/due.py selects some of the parts.
SEEDS = [range(1, 14), range(14, 27), range(27, 40), range(40, 51)]


def test_the_seeds_are_those_that_a_user_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = [seed for part in SEEDS for seed in part]
    asked: list[int] = []

    def carry_out(*given: Any) -> int:
        asked.extend(each.plan.seed for each in given[3])
        return 0

    nothing = kernels.Kernel("6.12.1", tmp_path, tmp_path, None), ()
    monkeypatch.setattr(verify, "prepared", lambda *_, **__: nothing)
    monkeypatch.setattr(machines, "make", Mock())
    monkeypatch.setattr(storm, "_carry_out", carry_out)
    assert cli.main(["storm", "triage", "--out", str(tmp_path / "out")]) == 0
    assert asked == seeds == list(range(1, 51))
    assert f"survives {len(seeds)} storms" in README


@pytest.mark.parametrize("seeds", due.selected(SEEDS), ids=lambda s: f"{s.start}-{s.stop - 1}")
def test_triage_withstands(seeds: range, tmp_path: Path) -> None:
    words = ["--seed", seeds.start, "--seeds", len(seeds), "--out", tmp_path / "out"]
    done = triage("storm", "triage", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(seeds)} storms, 0 failed" in done.stdout
    found = record(tmp_path / "out")
    assert found["result"] == "pass"
    assert len({storm["fingerprint"] for storm in found["storms"]}) == len(seeds)


@pytest.mark.parametrize("scheduler", ["triage", "kyber"])
def test_a_seed_replays_to_the_last_instruction(scheduler: str, tmp_path: Path) -> None:
    """Replays of a seed have the same fingerprint, and another seed has another one.

    A fingerprint covers each yield point that a CPU passes, and the time. A yield point is a call
    in triage's code, or a kprobe in kyber.
    """
    prints = []
    for n in range(2):
        out = tmp_path / str(n)
        triage("storm", scheduler, "--replay", "10", "--out", out)
        prints += [storm["fingerprint"] for storm in record(out)["storms"]]
    assert re.fullmatch(r"[0-9a-f]{16}", prints[0])
    assert prints[1] == prints[0]
    triage("storm", scheduler, "--replay", "11", "--out", tmp_path / "other")
    assert record(tmp_path / "other")["storms"][0]["fingerprint"] != prints[0]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bugs.Bug, Path]]:
    """Build the bugs that storms must find here; return each bug and its module, by name."""
    names = {*FOUND, *(name for name, _, _ in HANGS)}
    wanted = [bug for bug in bugs.seeded() if bug.patch.stem in names]
    folder = tmp_path_factory.mktemp("storm")
    made = bugs.build(kernels.find(kernels.DEFAULT_SERIES), wanted, folder, storm=True)
    return {bug.patch.stem: (bug, module) for bug, module in made.items()}


@pytest.mark.parametrize("name", FOUND)
def test_a_bug_is_found_and_its_replay_shrunk(
    name: str, built: dict[str, tuple[bugs.Bug, Path]], tmp_path: Path
) -> None:
    seed, says = FOUND[name]
    bug, module = built[name]
    words = ["storm", bug.scheduler, "--module", module]
    done = triage(*words, "--seed", seed, "--seeds", 1, "--shrink", "--out", tmp_path / "out")
    assert done.returncode == 1, done.stdout + done.stderr
    (failed,) = record(tmp_path / "out")["failed"]
    assert re.search(says, failed["reason"])
    assert failed["last"]
    command = f"./triage storm {bug.scheduler} --replay {failed['replay']} --module {module}"
    assert command in done.stdout
    again = triage(*words, "--replay", failed["replay"], "--out", tmp_path / "again")
    assert again.returncode == 1
    (same,) = record(tmp_path / "again")["failed"]
    assert (same["fingerprint"], same["reason"]) == (failed["fingerprint"], failed["reason"])


#: A bug that a check finds, and that one storm in three finds too: its name, the number of seeds to
#: try, and the message's pattern.
ALSO_CHECKED = (
    "triage-foreign-class",
    10,
    "the count of a class is wrong|a request waits|do not end|lockup|NULL pointer",
)
HANGS = [
    ALSO_CHECKED,
    *(
        (bug.patch.stem, bug.seeds, bug.says)
        for bug in bugs.seeded()
        if isinstance(bug, bugs.Stormed)
    ),
]


@pytest.mark.parametrize(("name", "seeds", "says"), HANGS)
def test_a_hang_is_found(
    name: str,
    seeds: int,
    says: str,
    built: dict[str, tuple[bugs.Bug, Path]],
    tmp_path: Path,
) -> None:
    bug, module = built[name]
    out = tmp_path / "out"
    words = ["--module", module, "--seeds", seeds, "--until-failure", "--out", out]
    done = triage("storm", bug.scheduler, *words)
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(re.search(says, storm["reason"]) for storm in record(out)["failed"])


def test_the_table_of_bugs_says_which_ones_storms_find_too() -> None:
    also = {name for name, by in bugs.said("Also").items() if by == "storm"}
    assert also == {*FOUND, ALSO_CHECKED[0]}


def test_what_makes_no_sense_is_refused() -> None:
    for words in (
        ["storm", "nothing"],
        ["storm", "kyber", "--replay", "x"],
        ["storm", "kyber", "--replay", "1", "--seeds", "2"],
        ["storm", "kyber", "--seeds", "0"],
        ["storm", "kyber", "--cpus", "0"],
    ):
        done = triage(*words)
        assert done.returncode == 2, words
        assert done.stderr.startswith("triage: ")


def test_interrupted_it_leaves_no_qemu_behind(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [str(ROOT / "triage"), "storm", "kyber", "--minutes", "9", "--out", str(out)]
    running = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    end = time.monotonic() + 900
    while not qemus(out):
        assert time.monotonic() < end, "no guest was started"
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGINT)
    running.communicate(timeout=300)
    assert running.returncode == 130
    assert not qemus(out)
