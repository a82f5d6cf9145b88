# SPDX-License-Identifier: GPL-2.0-only
"""Test that, under systemd, each boot records the schedulers, and a try's keeper is a service."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.booted import Booted, booted, loop_disk, unified
from tests.packaging.system import make

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Booted, str]]:
    """Boot a system with triage installed; yield it and a loop device."""
    folder = tmp_path_factory.mktemp("systemd")
    make("install", folder / "made", f"DESTDIR={folder}/root")
    # The tests run quick_try.py as `quick`: a try that measures would take long.
    quick = (Path(__file__).parent / "quick_try.py").read_text()
    launcher = folder / "root/usr/lib/triagectl/quick"
    launcher.write_text(f"#!/usr/bin/python3\n{quick}".replace(".parents[2]", ".parents[1]"))
    launcher.chmod(0o755)
    with loop_disk(folder) as disk:
        subprocess.run(
            ["sh", "-c", f"echo mq-deadline > /sys/block/{disk}/queue/scheduler"], check=True
        )
        with booted(folder / "system", [folder / "root"]) as running:
            yield running, disk


def test_each_boot_is_recorded(system: tuple[Booted, str]) -> None:
    running, disk = system
    state = running.give("systemctl show -P Result -P ExecMainStatus triagectl-record")
    assert state.split()[-2:] == ["success", "0"]
    running.give(f"echo none > /sys/block/{disk}/queue/scheduler")
    try:
        said = " ".join(running.give(f"triagectl status {disk}").split())
    finally:
        running.give(f"echo mq-deadline > /sys/block/{disk}/queue/scheduler")
    assert "since the boot: yes: at " in said
    assert "it was mq-deadline" in said


def wait_for(running: Booted, what: str) -> None:
    latest = time.monotonic() + 60
    while running.tried(what).returncode:
        assert time.monotonic() < latest, what
        time.sleep(0.1)


@pytest.mark.parametrize("killed", ["the try", "the keeper, then the try", "both"])
def test_a_keeper_that_systemd_runs_puts_back(killed: str, system: tuple[Booted, str]) -> None:
    """systemd starts a killed keeper again, so the disk is restored even without `--undo`."""
    running, disk = system
    queue = f"/sys/block/{disk}/queue"
    unit = f"triagectl-try-{disk}-*"
    words = f"{disk} --scheduler none --set nr_requests=77 --for 5m"
    before = running.give(f"cat {queue}/scheduler {queue}/nr_requests").splitlines()[-2:]
    running.give(f"systemd-run -q --unit=user /usr/lib/triagectl/quick try {words}")
    wait_for(running, f"grep -x 77 {queue}/nr_requests")
    assert running.give(f"systemctl list-units -q --plain --no-legend '{unit}'").count(".service ")
    keeper = f"systemctl kill -s KILL '{unit}'"
    a_try = "systemctl kill -s KILL user"
    running.give(
        {
            "the try": a_try,
            "the keeper, then the try": f"{keeper}; sleep 0.5; {a_try}",
            "both": f"{keeper}; {a_try}",
        }[killed]
    )
    wait_for(running, f'test "$(cat {queue}/nr_requests)" = {before[1]}')
    wait_for(running, f"test ! -e /run/triagectl/try-{disk}.json")
    assert running.give(f"cat {queue}/scheduler {queue}/nr_requests").splitlines()[-2:] == before
    wait_for(running, f"! systemctl is-active -q '{unit}'")
    running.tried("systemctl reset-failed")


#: A process that makes a loop device, boots a system that mounts it, and waits.
_WAITS = """
import sys, time
from pathlib import Path
from tests.booted import booted, loop_disk
folder = Path(sys.argv[1])
with loop_disk(folder) as disk, booted(folder / "system", []) as system:
    system.give(f"mount /dev/{disk} /tmp")
    print(system.group, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def bootable(tmp_path: Path) -> None:
    """Skip the test if this computer lacks what booted() and loop_disk() need.

    In the process that the test starts, a skip would be an error.
    """
    unified()
    folder = tmp_path / "probe"
    folder.mkdir()
    with loop_disk(folder):
        pass


@pytest.mark.usefixtures("bootable")
def test_a_killed_test_leaves_no_system_and_no_loop_device(tmp_path: Path) -> None:
    """Look for the control group and the image file, because no other test has the same ones."""
    folder = tmp_path / "killed"
    folder.mkdir()
    waits = subprocess.Popen(
        [sys.executable, "-c", _WAITS, folder],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert waits.stdout
        said = waits.stdout.readline()
        assert said, "the process ended before its system ran"
        group = Path(said.strip())
        assert group.is_dir()
        assert loop_files(folder) == [folder / "image"]
    finally:
        waits.kill()
        waits.wait()
    latest = time.monotonic() + 60
    while group.exists() or loop_files(folder):
        assert time.monotonic() < latest, (group.exists(), loop_files(folder))
        time.sleep(0.1)


def loop_files(folder: Path) -> list[Path]:
    """Return the files in a folder that loop devices use."""
    said = subprocess.run(
        ["losetup", "-n", "-O", "BACK-FILE"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    files = [Path(line.strip().removesuffix(" (deleted)")) for line in said.splitlines()]
    return [file for file in files if folder in file.parents]
