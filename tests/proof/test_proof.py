# SPDX-License-Identifier: GPL-2.0-only
"""Check core.pml, a model of the protocol of triage's core, with Spin.

Spin tries each order of the CPUs' steps, and each value that a load from weakly ordered memory can
return. It must find no error in any scenario. With a flaw in the protocol, it must find an error in
the scenario that FLAWS names. core.pml describes the properties and the method. Other tests here
compare the steps of core.pml with the code.
"""

import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from triagelab.base import sources, tools

from tests import due

MODEL = Path(__file__).with_name("core.pml")
KERNEL = sources.MODULES / "triage"
SPIN = tools.Tool("spin", "spin")
#: Scenario -> the number of processes of each kind, and the settings that are 1; core.pml explains
#: both. A scenario has at most a few million states.
SCENARIOS = {
    "drained-by-another": {"URGENT": 2, "MERGERS": 1},
    "held-behind-bulk": {"URGENT": 1, "BULK": 1, "BUSY": 1, "MERGERS": 1},
    "run-by-two": {"URGENT": 1, "BULK": 1, "BUSY": 1, "WORKERS": 2},
    "taken-for-bulk": {"URGENT": 1, "BULK": 1, "BUSY": 1, "MERGERS": 1, "MISTAKEN": 1},
    "completed": {"BULK": 1, "BUSY": 1, "MERGERS": 1, "COMPLETERS": 1},
    "granted": {"BULK": 1, "BUSY": 1, "GRANTERS": 1},
    "granted-and-completed": {"BULK": 1, "BUSY": 1, "GRANTERS": 1, "COMPLETERS": 1},
    "learnt": {"BULK": 1, "BUSY": 1, "LEARNERS": 1},
    "ended": {"BULK": 1, "BUSY": 1, "ENDERS": 1},
    "limited": {"BULK": 1, "BUSY": 1, "LIMITS": 1, "COMPLETERS": 1},
    "left": {"URGENT": 2, "COMPLETERS": 1, "LEAVERS": 1},
}
NAMES = "URGENT BULK COMPLETERS GRANTERS LEARNERS ENDERS MERGERS LEAVERS MISTAKEN BUSY LIMITS"
ABSENT = dict.fromkeys(NAMES.split(), 0) | {"WORKERS": 1}


#: A pattern of the code of a shared step: a step that other CPUs can see. Such a step orders
#: memory, moves requests, handles a hold (no queued request may go) or runs a hardware queue.
SHARED = re.compile(
    r"smp_\w+\(|cmpxchg\(|_(?:acquire|relaxed)\(|llist_(?:add|del)|test_and_\w+_bit"
    r"|\b(?:set|clear)_bit|atomic(?:64)?_(?:inc|dec|add|sub|xchg|fetch)\w*\("
    r"|atomic_read\(&[\w>-]*nr_held\)|run_hw_queue|preempt_(?:dis|en)able|synchronize_rcu"
    r"|\bxchg\(|\btg_(?:run|wake|release|push|take_in|drain|set_held|watch)\("
    r"|\btg_(?:shard_enter|shard_leave|core_wait_for_inserters)\("
)
CODE = re.compile(r"\t+[^\t/*]")
#: Shared steps that the model leaves out, by file, function and code, each with the reason.
OUTSIDE = {
    ("controller.c", "tg_any_waits_for_bulk", "if (!atomic_read(&tg->nr_held))"): (
        "a sample; it decides no hold"
    ),
    (
        "flushes.c",
        "tg_flushes_charge",
        "while (!atomic64_try_cmpxchg(&flushes->due, &old, max_t(u64, old, now) + cost))",
    ): "a hold for the pace ends by time alone",
    (
        "flushes.c",
        "tg_pace_passes",
        "} while (!atomic64_try_cmpxchg(&flushes->passed_at, &old, at));",
    ): "as the last one",
    (
        "flushes.c",
        "tg_flushes_learn",
        "if (tg_bulk_inside(tg) > sent || atomic_read(&tg->nr_held))",
    ): "a sample; it decides no hold",
    ("main.c", "tg_exit_sched", "WARN_ON_ONCE(atomic_read(&tg->nr_held));"): "no request is left",
    ("core.c", "tg_waits_for_bulk", "smp_rmb();"): "which of several shards goes first",
    ("triage.h", "tg_some_may_wait", "if (atomic_read(&tg->nr_held))"): "as the last one",
    ("triage.h", "tg_some_may_wait", "smp_rmb();"): "as the last one",
    ("core.c", "tg_watch_others", "smp_mb();"): "as the next two",
    ("core.c", "tg_watch_others", "if (atomic_read(&shard->tg->nr_held))"): (
        "other shards go sooner; each has a watchdog of its own"
    ),
    ("core.c", "tg_watch_others", "tg_watch(shard, ns);"): (
        "other shards go sooner; each has a watchdog of its own"
    ),
    ("core.c", "tg_dispatch_request", "smp_mb();"): "as the last one",
    ("core.c", "tg_dispatch_request", "if (atomic_read(&tg->nr_held) > 1)"): "as the last one",
    # The function has this call twice. The model has only the first call, which is for a grant.
    ("core.c", "tg_dispatch_request", "tg_wake(tg, 1);"): "as the last one",
    ("core.c", "tg_watchdog", "if (atomic_read(&shard->tg->nr_held))"): (
        "other shards go sooner; each has a watchdog of its own"
    ),
    ("core.c", "tg_watchdog", "tg_wake(shard->tg, 1);"): (
        "other shards go sooner; each has a watchdog of its own"
    ),
    ("budget.c", "tg_grant", "while (!atomic64_try_cmpxchg(&tg->budget.granted, &old,"): (
        "a store for the model; its order is not relied on: tg_send_before_bulk() has a barrier"
    ),
    (
        "budget.c",
        "tg_grant_charge",
        "while ((gated || old) && !atomic64_try_cmpxchg(&tg->budget.granted, &old,",
    ): "lets nothing go",
    (
        "group.c",
        "tg_raise",
        "while ((s64)(least - old) > 0 && !atomic64_try_cmpxchg(time, &old, least))",
    ): "which cgroup goes first; beyond its share a request is one of bulk",
    (
        "group.c",
        "tg_account_charge",
        "const u64 time = atomic64_add_return(tg_share_time(cost,",
    ): "which cgroup goes first; beyond its share a request is one of bulk",
    ("device.c", "tg_back", "atomic64_add(TG_GAUGE_ONE + tag.cost, &shard->device.returned);"): (
        "which cgroup goes first; beyond its share a request is one of bulk"
    ),
    ("group.c", "tg_account_use", "atomic64_add(time, &account->used);"): (
        "which cgroup goes first; beyond its share a request is one of bulk"
    ),
    (
        "group.c",
        "tg_groups_advance",
        "from = atomic64_xchg(&groups->held_from, sends ? 0 : ktime_get_ns());",
    ): "which cgroup goes first; beyond its share a request is one of bulk",
    (
        "group.c",
        "tg_groups_advance",
        "!atomic64_try_cmpxchg(&groups->done, &before, done))",
    ): "which cgroup goes first; beyond its share a request is one of bulk",
    (
        "group.c",
        "tg_groups_advance",
        "atomic64_add(tg_groups_passed(tg, done, before, from), &groups->clock);",
    ): "which cgroup goes first; beyond its share a request is one of bulk",
    ("group.c", "tg_accounts_reach", "atomic64_try_cmpxchg(&parent->reach_at, &at, clock))"): (
        "which cgroup goes first; beyond its share a request is one of bulk"
    ),
    ("group.c", "tg_accounts_reach", "atomic64_add(gains, &parent->reach);"): (
        "which cgroup goes first; beyond its share a request is one of bulk"
    ),
    ("group.c", "tg_accounts_ask", "cmpxchg(&account->asked, asked, interval) != asked)"): (
        "which cgroup goes first; beyond its share a request is one of bulk"
    ),
    (
        "group.c",
        "tg_accounts_ask",
        "while (!atomic64_try_cmpxchg(&parent->asking, &old, weight +",
    ): "which cgroup goes first; beyond its share a request is one of bulk",
    ("group.c", "tg_group_is_linked", "return smp_load_acquire(&group->all.parent);"): (
        "which cgroup goes first"
    ),
    ("group.c", "tg_group_link", "smp_store_release(&top->all.parent, parent);"): (
        "which cgroup goes first"
    ),
    ("group.c", "tg_lane_is_due", "smp_store_release(&shard->due, due);"): (
        "which of several shards goes first"
    ),
    ("group.c", "tg_lane_precedes", "due = smp_load_acquire(&shard->due);"): (
        "which cgroup goes first; ending a hold early does no harm"
    ),
    ("group.c", "tg_groups_lead", "own = smp_load_acquire(&shard->due);"): (
        "which of several shards goes first"
    ),
    ("group.c", "tg_groups_lead", "of_other = smp_load_acquire(&other->due);"): (
        "which of several shards goes first"
    ),
    (
        "inspect.c",
        "tg_measure",
        "atomic_inc(&histogram->counts[us < 2 ? 0 : min(ilog2(us), TG_HISTOGRAM_BUCKETS - 1)]);",
    ): "statistics",
    ("inspect.c", "tg_show_counts", "tg_shard_enter(shard);"): "as tg_bio_merge_queued()",
    ("inspect.c", "tg_show_counts", "tg_shard_leave(shard);"): "as tg_bio_merge_queued()",
    ("inspect.c", "tg_show_audit", "tg_shard_enter(tg->shards[i]);"): "as tg_bio_merge_queued()",
    ("inspect.c", "tg_show_audit", "tg_shard_leave(tg->shards[i]);"): "as tg_bio_merge_queued()",
    ("tunables.c", "tg_drain_all", "tg_shard_enter(tg->shards[i]);"): "as tg_bio_merge_queued()",
    ("tunables.c", "tg_drain_all", "tg_shard_leave(tg->shards[i]);"): "as tg_bio_merge_queued()",
    (
        "limits.c",
        "tg_limit_take",
        "while (!atomic64_try_cmpxchg(due, &old, tg_limit_charged(old, now, units, rate)))",
    ): "makes a class wait longer; the watchdog ends a hold by limits",
    (
        "submitter.c",
        "tg_bucket_sweep",
        "if (atomic_cmpxchg(&submitter->held, 0, TG_GONE) != 0)",
    ): "the life of an entry",
    (
        "submitter.c",
        "tg_submitter_hold",
        "const int held = atomic_inc_return(&submitter->held);",
    ): "the life of an entry",
    ("submitter.c", "tg_submitter_hold", "atomic_dec(&submitter->held);"): "the life of an entry",
    ("submitter.c", "tg_submitter_holds_several", "atomic_inc(&tg->submitters.nr_several);"): (
        "for tags, which a request has before it is inserted"
    ),
    ("submitter.h", "tg_submitter_put", "atomic_dec(&submitters->nr_several);"): (
        "for tags, which a request has before it is inserted"
    ),
    (
        "submitter.h",
        "tg_submitter_put",
        "if (unlikely(atomic_dec_return(&submitter->held) == TG_SPARSE_TAGS))",
    ): "as for nr_several",
}


@dataclass(frozen=True)
class Flaw:
    """A flaw of core.pml: a step that is missing, or two steps in the wrong order.

    scenario  the scenario in which Spin must find an error
    rule      the rule of core.c that the flaw breaks; 0: the rule of gauge.h that no CPU sees more
              requests come back than were sent
    """

    scenario: str
    rule: int


#: The flaws that core.pml can have, by name.
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
    "LEARNT_WITHOUT_BARRIER": Flaw("learnt", 3),
    "ENDED_WITHOUT_BARRIER": Flaw("ended", 3),
    "GAUGE_WITHOUT_BARRIER": Flaw("granted-and-completed", 0),
    "WAKE_WITHOUT_RUN": Flaw("completed", 4),
    "WATCHDOG_WITHOUT_RUN": Flaw("limited", 4),
    "LEFT_WITHOUT_RUN": Flaw("taken-for-bulk", 4),
    "ONE_LOOK": Flaw("completed", 5),
    "PUSHED_UNGUARDED": Flaw("left", 6),
}


def explore(folder: Path, scenario: str, flaw: str | None = None) -> str:
    """Return the output of Spin's search of a scenario, with a flaw if one is given.

    Spin looks for failed assertions and, without a flaw, for endless cycles too.
    """
    tools.require([SPIN, tools.GCC])
    settings = [f"-D{name}={number}" for name, number in (ABSENT | SCENARIOS[scenario]).items()]
    if flaw:
        settings.append(f"-DFLAW_{flaw}")
    subprocess.run([tools.path(SPIN), *settings, "-a", MODEL], cwd=folder, check=True)
    # The model marks no state as progress, so -DNP and -l report each cycle. With a flaw, search
    # only for assertions that fail (-DSAFETY).
    kind, look = ("-DSAFETY", []) if flaw else ("-DNP", ["-l"])
    # Most searches take less time than gcc needs with -O2, so -Og is faster for all tests together.
    compiler = ["gcc-12", "-Og", "-w", kind, "-DNOFAIR", "-DVECTORSZ=1024", "-DCOLLAPSE"]
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


@pytest.mark.parametrize("flaw", due.selected(list(FLAWS)))
def test_a_flaw_is_found(flaw: str, tmp_path: Path) -> None:
    assert "errors: 1" in explore(tmp_path, FLAWS[flaw].scenario, flaw)


def test_each_flaw_of_the_model_is_looked_for() -> None:
    assert set(re.findall(r"FLAW_(\w+)", MODEL.read_text())) == set(FLAWS)
    assert {flaw.rule for flaw in FLAWS.values()} == set(range(7))


def test_no_value_is_cut_off() -> None:
    """Each variable that load() writes is one of LOCALS: these are bytes, so they hold a count."""
    model = MODEL.read_text()
    (declared,) = re.findall(r"^#define LOCALS\s+byte ([^;\n]*)$", model, re.M)
    names = {name.split("=")[0].strip() for name in declared.split(",")}
    loaded = set(re.findall(r"\bload\(\w+, (\w+)\)", model)) - {"to"}
    assert {"seen", "back", "list"} <= loaded <= names


def functions(source: str) -> dict[str, str]:
    """Return name -> body of the functions in C code of the kernel's style."""
    head = r"^[a-z][^;{}()\n]*?\b(\w+)\([^;{}]*?\)\n(?:\t__\w+\(.*\n)*"
    return dict(re.findall(head + r"\{\n([\s\S]*?)^\}", source, re.M))


def squeezed(code: str) -> str:
    return "".join(code.split())


def quotes() -> list[tuple[str, str, str]]:
    return re.findall(r"/\* (\w+\.[ch]) (\w+): (.+?) \*/", MODEL.read_text())


def test_each_step_stands_for_code_that_is_there() -> None:
    """Each function of triage has the code that core.pml quotes, in the same order.

    So if a barrier in the code moves, the model must change too.
    """
    bodies = {
        (name, function): squeezed(body)
        for name in {name for name, _, _ in quotes()}
        for function, body in functions((KERNEL / name).read_text()).items()
    }
    assert len(quotes()) > 60
    ends: dict[tuple[str, str], int] = {}
    for name, function, code in quotes():
        at = bodies[name, function].find(squeezed(code), ends.get((name, function), 0))
        assert at >= 0, (name, function, code)
        ends[name, function] = at + len(squeezed(code))


def test_the_model_has_each_shared_step() -> None:
    """core.pml quotes each shared step as often as the code has it, except those in OUTSIDE."""
    steps: Counter[tuple[str, str, str]] = Counter()
    for file in sorted(KERNEL.glob("*.[ch]")):
        source = file.read_text()
        found = [
            (file.name, function, squeezed(line))
            for function, body in functions(source).items()
            for line in body.splitlines()
            if CODE.match(line) and SHARED.search(line)
        ]
        # Each shared step must be inside a function that functions() has found.
        lines = [line for line in source.splitlines() if CODE.match(line) and SHARED.search(line)]
        assert len(found) == len(lines), file
        steps.update(found)
    outside = Counter((name, function, squeezed(code)) for name, function, code in OUTSIDE)
    assert outside - steps == Counter()
    quoted = Counter(
        (name, function, squeezed(code)) for name, function, code in quotes() if SHARED.search(code)
    )
    assert steps - outside == quoted
