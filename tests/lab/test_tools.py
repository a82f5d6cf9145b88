# SPDX-License-Identifier: GPL-2.0-only
"""Tests of triagelab.base.tools: missing programs, and programs that end with the lab."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from triagelab.base import tools
from triagelab.base.errors import LabError

MISSING = tools.Tool("no-such-program", "no-such-package")


def test_all_that_is_missing_is_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_NO_INSTALL", "1")
    with pytest.raises(
        LabError, match=r"no-such-program, other.*apt-get install no-such-package x"
    ):
        tools.require([MISSING, tools.Tool("other", "x"), tools.Tool("sh", "dash")])


def test_a_user_is_not_made_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LabError, match="sudo apt-get install no-such-package"):
        tools.require([MISSING])


def test_two_at_once_install_it_once(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    log = tmp_path / "log"
    apt = programs / "apt-get"
    apt.write_text(
        f"""#!/bin/sh
        mkdir {tmp_path}/at-work || exit 100
        echo "$1" >> {log}
        sleep 0.5
        [ "$1" = update ] || ln -s /bin/true {programs}/no-such-program
        rmdir {tmp_path}/at-work
        """
    )
    apt.chmod(0o755)
    code = """import os
from triagelab.base import tools
os.geteuid = lambda: 0
tools.require([tools.Tool("no-such-program", "no-such-package")])"""
    environment = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TRIAGE_CACHE": str(tmp_path / "cache"),
    }
    both = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [each.communicate(timeout=300)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0]
    assert said == [b"", b""]  # standard output is for results
    assert log.read_text().split() == ["update", "install"]


def test_a_program_runs_with_the_lab_alone(tmp_path: Path) -> None:
    """A program of with_us() does not run if its parent is not the lab: the lab may have ended."""
    ran = tmp_path / "ran"
    command = tools.with_us("KILL", ["touch", str(ran)])
    subprocess.run(["sh", "-c", '"$@"; :', "sh", *command])
    assert not ran.exists()
    assert subprocess.run(command).returncode == 0
    assert ran.exists()
