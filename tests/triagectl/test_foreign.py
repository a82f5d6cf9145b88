# SPDX-License-Identifier: GPL-2.0-only
"""Test that names which any user may choose do not control root's terminal or end the command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.triagectl.machine import Machine
from tests.triagectl.test_status import PID, process
from triagectl import command, doctor, explain, processview, screen, top
from triagectl.counters import Counts
from triagectl.processes import Process, Table
from triagectl.requests import Request
from triagectl.sysfs import Devices
from triagectl.usage import Usage

#: A name that would clear the screen, begin a line, and turn the text around.
BAD = "a\x1b[2J\nroot \u202e\x9b"


def safe(text: str) -> bool:
    return not set("\x1b\u202e\x9b") & set(text) and not any(
        line.startswith("root") for line in text.splitlines()
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [("café 猫", "café 猫"), ("a\x1bb\n", r"a\x1bb\n"), ("\u202e\udc80", r"\u202e\udc80")],
)
def test_only_printable_characters(text: str, shown: str) -> None:
    assert screen.plain(text) == shown
    assert screen.wrapped(text, 2) == shown
    assert screen.table(["x"], [[text]]).split("\n", 1)[1] == shown


def test_status_of_a_process(machine: Machine) -> None:
    machine.disk()
    process(machine, ("21", os.O_RDONLY))
    machine.file(f"proc/{PID}/comm", BAD)
    machine.file(f"proc/{PID}/cgroup", "0::/a\x1b[2J/b\n")
    machine.file("sys/fs/cgroup/a\x1b[2J/io.max", "8:0 rbps=1")
    text = processview.text(processview.about(machine.system, PID, Devices(machine.system)))
    assert "has a limit" in text
    assert safe(text)


def test_top(machine: Machine) -> None:
    class Named(Table):
        def of(self, tid: int, comm: bytes) -> Process:
            return Process(tid, BAD, None)

    disk = machine.disk()
    dev = disk.dev
    usage = Usage(Named(machine.system), {dev: ("none", {})}, {dev: {1: 1, 2: 1}}, 5)  # type: ignore[dict-item]
    for number in range(20):
        one = Request(dev, number, 8, False, True, number % 2 + 1, b"x", 1)
        one.issued, one.completed = number + 1, number + 2
        usage.issued(one)
        usage.finished(one)
    view = top.view(machine.system, disk, Counts(9, 9, 0, 0, 0, 0, 0, 9), 1.0, usage)
    assert view["processes"][0]["behind"]
    assert safe(top.rendered([view], {"sampled": 1.0}, 2.0))


def test_explain() -> None:
    one = {
        "total_ns": 1, "done": True, "write": False, "bytes": 1, "pid": 1, "name": BAD,
        "class": "be", "reason": "", "tag_ns": 0, "queue_ns": 0, "device_ns": 1,
        "cause": "order", "text": "x", "do": "y",
        "others": [{"pid": 2, "name": BAD, "requests": 3}],
    }  # fmt: skip
    view = {"disk": "sda", "scheduler": "none", "seen": 1, "slowest": [one]}
    assert safe(explain._text(view, {"recorded": 1.0, "seconds": 1.0}))


def test_doctor(machine: Machine) -> None:
    machine.disk()
    machine.file("sys/block/sda/device/model", "MODEL\x1b[2J")
    text = doctor.rendered(doctor.collected(machine.system))
    assert r"model: MODEL\x1b[2J" in text
    assert "\x1b" not in text


def test_errors(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.disk()
    assert command.main(["status", BAD], machine.system) == 2
    assert safe(capsys.readouterr().err)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_locale_without_the_names_characters(encoding: str, machine: Machine) -> None:
    machine.disk()
    process(machine, ("21", os.O_RDONLY))
    machine.file(f"proc/{PID}/comm", "猫")
    program = (
        "import sys; from pathlib import Path; from triagectl import command, system; "
        f"sys.exit(command.main(['status', '--pid', '{PID}'], system.System(Path(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(machine.root)],
        env=os.environ | {"PYTHONIOENCODING": encoding},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert r"\u732b" in done.stdout
