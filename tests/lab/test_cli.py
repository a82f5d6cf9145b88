# SPDX-License-Identifier: GPL-2.0-only
"""Tests that the command line has each command, and imports only what the command needs."""

import subprocess
import sys

import pytest
from triagelab import cli

#: The libraries that only fits, statistics and reports need, and that take long to import.
SLOW = {"plotly", "polars", "scipy"}


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_each_command_has_a_module(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.parsed([name, "--help"])
    assert f"usage: triage {name} " in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["list"], ["run", "no-such"], ["study", "--schedulers", "no-such"]]
)
def test_a_command_that_makes_no_report_imports_no_slow_library(words: list[str]) -> None:
    code = f"import sys\nfrom triagelab import cli\ncli.main({words})\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not SLOW & set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "call"), [("run", "_measure(*[None] * 4)"), ("study", "_measure_study(*[None] * 5)")]
)
def test_the_reports_modules_are_loaded_before_the_first_run(module: str, call: str) -> None:
    code = (
        "import sys\n"
        f"from triagelab.commands import {module}\n"
        "from triagelab.run import rundir\n"
        "def first_step(out):\n"
        "    sys.exit(0 if 'triagelab.report.studyreport' in sys.modules else 1)\n"
        "rundir.require_space = first_step\n"
        f"{module}.{call}\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
