# SPDX-License-Identifier: GPL-2.0-only
"""Explore the protocol of triage's core; core.pml describes the properties and the method.

Spin looks at each order in which CPUs can go on, and at each value that a weak memory can
give them. A scenario must hold as it is, and must fail with a flaw in it.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from triagelab import modules, tools

MODEL = Path(__file__).with_name("core.pml")
SPIN = tools.Tool("spin", "spin")
#: Each takes at most a few million states; core.pml explains the names.
SCENARIOS = {
    "drained-by-another": {"URGENT": 2, "MERGERS": 1},
    "held-behind-bulk": {"URGENT": 1, "BULK": 1, "BUSY": 1, "MERGERS": 1},
    "run-by-two": {"URGENT": 1, "BULK": 1, "BUSY": 1, "WORKERS": 2},
    "taken-for-bulk": {"URGENT": 1, "BULK": 1, "BUSY": 1, "MERGERS": 1, "MISTAKEN": 1},
    "completed": {"BULK": 1, "BUSY": 1, "MERGERS": 1, "COMPLETERS": 1},
    "granted": {"BULK": 1, "BUSY": 1, "GRANTERS": 1},
    "limited": {"BULK": 1, "BUSY": 1, "LIMITS": 1, "COMPLETERS": 1},
}
ABSENT = dict.fromkeys(
    ("URGENT", "BULK", "COMPLETERS", "GRANTERS", "MERGERS", "MISTAKEN", "BUSY", "LIMITS"), 0
) | {"WORKERS": 1}


@dataclass(frozen=True)
class Flaw:
    """A barrier, order, look or rerun that is not there, and a scenario that needs it."""

    scenario: str
    rule: int


#: Flaws, each with the rule of core.c that it breaks.
FLAWS = {
    "DRAIN_UNSEEN": Flaw("drained-by-another", 1),
    "DRAIN_WITHOUT_BARRIER": Flaw("drained-by-another", 1),
    "HAS_WORK_WITHOUT_BARRIER": Flaw("drained-by-another", 1),
    "NO_WATCHDOG": Flaw("limited", 2),
    "LIMITED_KEPT": Flaw("limited", 2),
    "PUSH_WITHOUT_BARRIER": Flaw("held-behind-bulk", 3),
    "INSERT_KEEPS_HOLD": Flaw("held-behind-bulk", 3),
    "HELD_WITHOUT_BARRIER": Flaw("held-behind-bulk", 3),
    "COUNTED_LATE": Flaw("completed", 3),
    "BACK_WITHOUT_BARRIER": Flaw("completed", 3),
    "BACK_WITHOUT_WAKE": Flaw("completed", 3),
    "GRANT_WITHOUT_BARRIER": Flaw("granted", 3),
    "GRANT_WITHOUT_WAKE": Flaw("granted", 3),
    "WAKE_WITHOUT_RUN": Flaw("completed", 4),
    "WATCHDOG_WITHOUT_RUN": Flaw("limited", 4),
    "LEFT_WITHOUT_RUN": Flaw("taken-for-bulk", 4),
    "ONE_LOOK": Flaw("completed", 5),
}


def explore(folder: Path, scenario: str, flaw: str | None = None) -> str:
    """Return what Spin says of a scenario: assertions, and cycles without an end."""
    tools.require([SPIN, tools.GCC])
    settings = [f"-D{name}={number}" for name, number in (ABSENT | SCENARIOS[scenario]).items()]
    if flaw:
        settings.append(f"-DFLAW_{flaw}")
    subprocess.run([tools.path(SPIN), *settings, "-a", MODEL], cwd=folder, check=True)
    # No cycle makes progress, so each one is an error (-DNP, -l). A flaw shows in a state.
    kind, look = ("-DSAFETY", []) if flaw else ("-DNP", ["-l"])
    compiler = ["gcc-12", "-O2", "-w", kind, "-DNOFAIR", "-DVECTORSZ=1024", "-DCOLLAPSE"]
    subprocess.run([*compiler, "-o", "pan", "pan.c"], cwd=folder, check=True)
    said = subprocess.run(
        ["./pan", "-m100000", *look], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    assert "max search depth too small" not in said, said
    assert "Search not completed" not in said or flaw, said
    return said


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_request_is_left_waiting(scenario: str, tmp_path: Path) -> None:
    assert "errors: 0" in explore(tmp_path, scenario)


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_is_found(flaw: str, tmp_path: Path) -> None:
    assert "errors: 1" in explore(tmp_path, FLAWS[flaw].scenario, flaw)


def test_each_flaw_of_the_model_is_looked_for() -> None:
    assert set(re.findall(r"FLAW_(\w+)", MODEL.read_text())) == set(FLAWS)
    assert {flaw.rule for flaw in FLAWS.values()} == set(range(1, 6))


def test_no_value_is_cut_off() -> None:
    """A process loads values into its own variables, or a caller's: each has room for a count."""
    model = MODEL.read_text()
    (declared,) = re.findall(r"^#define LOCALS\s+byte ([^;\n]*)$", model, re.M)
    names = {name.split("=")[0].strip() for name in declared.split(",")}
    loaded = set(re.findall(r"\bload\(\w+, (\w+)\)", model)) - {"to"}
    assert {"seen", "back", "list"} <= loaded <= names


def functions(source: str) -> dict[str, str]:
    """Bodies of the functions in a file in the kernel's style, without white space."""
    head = r"^[a-z][^;{}()\n]*?\b(\w+)\([^;{}]*?\)\n(?:\t__\w+\(.*\n)*"
    found = re.findall(head + r"\{\n([\s\S]*?)^\}", source, re.M)
    return {name: "".join(body.split()) for name, body in found}


def quotes() -> list[tuple[str, str, str]]:
    return re.findall(r"/\* (\w+\.[ch]) (\w+): (.+?) \*/", MODEL.read_text())


def test_each_step_stands_for_code_that_is_there() -> None:
    files = {
        name: functions((modules.SOURCE / "triage" / name).read_text())
        for name in {name for name, _, _ in quotes()}
    }
    assert len(quotes()) > 40
    for name, function, code in quotes():
        assert "".join(code.split()) in files[name][function], (name, function, code)


def test_the_model_has_each_shared_step_of_the_core() -> None:
    """Shared steps order memory, move requests, handle a hold, or have a queue run."""
    shared = re.compile(
        r"smp_\w+\(|cmpxchg\(|llist_add_batch|llist_del_all|test_and_\w+_bit|\b(?:set|clear)_bit"
        r"|atomic_(?:inc|dec)|tg_run\(|tg_wake\(|tg_release\(|tg_drain\(|tg_set_held\(|tg_watch\("
    )
    quoted = {("".join(code.split())) for name, _, code in quotes() if name == "core.c"}
    core = functions((modules.SOURCE / "triage/core.c").read_text())
    lines = {
        "".join(line.split())
        for line in (modules.SOURCE / "triage/core.c").read_text().splitlines()
        if re.match(r"\t+[^\t/*]", line) and shared.search(line)
    }
    assert len(core) > 15
    assert lines - quoted == set()
