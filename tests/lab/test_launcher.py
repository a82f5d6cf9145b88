# SPDX-License-Identifier: GPL-2.0-only
"""Tests that ./triage starts Python in UTF-8 mode, and that Ctrl-C gives no traceback."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: The code in place of cli.py. Its main() sends SIGINT to the process. With the argument `early`,
#: the process gets SIGINT already while it imports this code.
CLI = """\
import os, signal, sys
if "early" in sys.argv:
    os.kill(os.getpid(), signal.SIGINT)
def main():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        return 130
    return 0
"""


def test_python_is_in_utf_8_mode(tmp_path: Path) -> None:
    shutil.copy(ROOT / "triage", tmp_path)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$PYTHONUTF8 $*"\n')
    environment = tmp_path / "lab/environment"
    environment.parent.mkdir()
    environment.write_text(f"#!/bin/sh\necho {python}\n")
    for program in (python, environment):
        program.chmod(0o755)
    done = subprocess.run([tmp_path / "triage", "list"], capture_output=True, text=True)
    assert done.stdout == "1 -m triagelab list\n"


@pytest.mark.parametrize(
    ("words", "option", "status"),
    [
        (["early"], "--default-signal=INT", -signal.SIGINT),
        ([], "--default-signal=INT", 130),
        (["early"], "--ignore-signal=INT", 0),  # like a shell script's background processes
    ],
)
def test_ctrl_c_ends_it_without_a_traceback(
    tmp_path: Path, words: list[str], option: str, status: int
) -> None:
    package = tmp_path / "triagelab"
    package.mkdir()
    shutil.copy(ROOT / "lab/triagelab/__main__.py", package)
    (package / "cli.py").write_text(CLI)
    done = subprocess.run(
        ["env", option, sys.executable, "-m", "triagelab", *words],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (status, "")
