# SPDX-License-Identifier: GPL-2.0-only
"""Tests that the documents' commands work.

The README's commands run in a fresh copy of the repository. The commands for a real machine, of
README and operate.md, run in a guest.
"""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import figures
import pytest
from triagelab.base import sources
from triagelab.provision import kernels, modules

from tests import due
from tests.product.product import OPERATE, README, ROOT, blocks, in_guest

#: The demo's schedulers that always run here, and the others, of which tests/due.py selects some.
ALWAYS = ("none", "triage")
OTHERS = [name for name in (*sources.KERNELS_OWN, *sources.own_schedulers()) if name not in ALWAYS]
#: Parametrizes a test over all these schedulers. pytest skips those that are not selected.
for_each_scheduler = pytest.mark.parametrize("scheduler", [*ALWAYS, *due.selected(OTHERS)])


def commands(kind: str) -> list[str]:
    """Return the lines of all code blocks of one kind in the README."""
    return [line for block in blocks(kind, README) for line in block.splitlines()]


def table(document: str, heading: str) -> list[str]:
    """Return the names in the first column of the first table after a text."""
    rows = re.search(r"^\|.*?(?=\n[^|])", document.split(heading, 1)[1], re.M | re.S)
    assert rows is not None, heading
    first = [row.split("|")[1] for row in rows[0].splitlines()]
    return [name for cell in first for name in re.findall("`(.+?)`", cell)]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new-user") / "triage"
    leftovers = shutil.ignore_patterns(".git", "build", "results", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, folder, ignore=leftovers, symlinks=True)
    return folder


def run_here(command: str) -> str:
    """Return the command; limit the demo to ALWAYS and the schedulers that tests/due.py selects.

    A demo of all schedulers would take a tenth of the time that all tests take.
    """
    chosen = due.chosen_of(OTHERS)
    if command != "make demo" or len(chosen) == len(OTHERS):
        return command
    return f"$(make -sn demo) --schedulers {','.join((*ALWAYS, *chosen))}"


@pytest.mark.parametrize("command", [run_here(command) for command in commands("sh")])
def test_command(command: str, copy: Path) -> None:
    if command == "make test":
        pytest.skip("'make test' is what runs this")
    begin = time.monotonic()
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=copy,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(f"{command}: {time.monotonic() - begin:.0f} s")


@for_each_scheduler
def test_the_demo_has_answered_for_each_of_its_schedulers(scheduler: str, copy: Path) -> None:
    (report,) = (copy / "results").glob("mixed-priority-*/report.html")
    assert f"<td>{scheduler}</td>" in report.read_text()


@for_each_scheduler
def test_the_documents_figures_of_the_demo_are_what_it_measures(scheduler: str, copy: Path) -> None:
    """The demo measures the figures that the documents show.

    If it measures others, `lab/figures.py measure demo` updates the documents.
    """
    (path,) = (copy / "results").glob("mixed-priority-*/summary.json")
    rows = json.loads(path.read_text())["rows"]
    assert list(figures.Figures().result("demo").out_of_date(scheduler, rows)) == []


def built() -> tuple[kernels.Kernel, Path]:
    """Return the lab's kernel, and the module of triage that is built for it."""
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    return kernel, modules.build(kernel) / "triage-iosched.ko"


@pytest.fixture(scope="module")
def real_machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the commands for a real machine in a guest: the README's, then operate.md's.

    Return the folder with their output.
    """
    *use, undo = blocks("sh real-machine", OPERATE)
    chosen = "cat /sys/block/sdX/queue/scheduler"
    debugfs = "/sys/kernel/debug/block/sdX/sched"
    script = [
        # Begin with mq-deadline, as on a real disk: a null_blk may begin with none.
        "echo mq-deadline > /sys/block/sdX/queue/scheduler",
        "mkdir /backup /data && echo precious > /data/file",
        *(f"{block}{chosen} >> out/chosen" for block in blocks("sh real-machine", README)),
        "tar -tf /backup/all.tar > out/archived",
        "(",
        *use,
        ") > out/operate",
        f"ls {debugfs} > out/files",
        f"cut -d ' ' -f 1 {debugfs}/reasons > out/reasons",
        f"cut -d ' ' -f 1 {debugfs}/depth > out/depth",
        undo,
        f"{chosen} > out/undone",
        "find /lib/modules -name 'triage*' >> out/undone",
    ]
    return in_guest(script, *built(), tmp_path_factory.mktemp("real-machine"))


def test_the_readmes_scheduler_on_a_real_machine(real_machine: Path) -> None:
    chosen, after = (real_machine / "chosen").read_text().splitlines()
    assert "[triage]" in chosen
    assert "[mq-deadline]" in after
    assert "data/file" in (real_machine / "archived").read_text().splitlines()


def test_the_operators_scheduler_on_a_real_machine(real_machine: Path) -> None:
    said = (real_machine / "operate").read_text()
    before, chosen = re.findall(r"^none .*\[(.+)\]", said, re.M)
    assert (before, chosen) == ("mq-deadline", "triage")
    counts = re.search(r"^(\d+) (\d+) (\d+)$", said, re.M)
    assert counts is not None
    high, normal, low = map(int, counts.groups())
    assert (high > 0, normal, low > 0) == (True, 0, True)
    trace = re.findall(r"triage_dispatch: .* class (\S+) cost \d+ reason (\S+)", said)
    assert trace
    assert {name for name, _ in trace} == {"NORMAL"}
    assert {reason for _, reason in trace} <= set(table(OPERATE, "### Reasons"))

    undone = (real_machine / "undone").read_text().splitlines()
    assert [line for line in undone if "[mq-deadline]" in line and "triage" not in line] == undone


@pytest.mark.parametrize(
    ("heading", "file"),
    [("## See what it does", "files"), ("In `depth`:", "depth"), ("### Reasons", "reasons")],
)
def test_the_operators_tables_on_a_real_machine(
    heading: str, file: str, real_machine: Path
) -> None:
    """The document explains exactly the files in debugfs, the rows of `depth`, and the reasons."""
    assert sorted(table(OPERATE, heading)) == sorted((real_machine / file).read_text().split())


def test_in_lockdown_it_is_seen_and_removed_but_not_loaded(tmp_path: Path) -> None:
    install, *_ = blocks("sh real-machine", OPERATE)
    debugfs = "/sys/kernel/debug/block/sdX/sched"
    events = "/sys/kernel/tracing/events/triage"
    scheduler = "/sys/block/sdX/queue/scheduler"
    left = in_guest(
        [
            install,
            f"echo triage > {scheduler}",
            "mount -t tracefs trace /sys/kernel/tracing",
            "mount -t securityfs security /sys/kernel/security",
            "echo integrity > /sys/kernel/security/lockdown",
            f"for file in {debugfs}/*; do cat $file > /dev/null && basename $file; done > out/read",
            f"echo 1 > {events}/enable",
            "dd if=/dev/sdX of=/dev/null bs=4k count=1",
            "grep -c triage_dispatch: /sys/kernel/tracing/trace > out/traced",
            f"echo mq-deadline > {scheduler}",
            "rmmod triage-iosched",
            f"if echo triage > {scheduler}; then exit 1; fi 2> out/refused",
            f"cat {scheduler} > out/kept",
            "dmesg > out/log",
        ],
        *built(),
        tmp_path,
    )
    assert (left / "read").read_text().split() == sorted(table(OPERATE, "## See what it does"))
    assert int((left / "traced").read_text()) > 0
    assert "Invalid argument" in (left / "refused").read_text()
    assert "[mq-deadline]" in (left / "kept").read_text()
    assert "unsigned module loading is restricted" in (left / "log").read_text()
