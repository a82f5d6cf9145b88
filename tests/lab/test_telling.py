# SPDX-License-Identifier: GPL-2.0-only
"""Tests of printed output: paths and commands stay whole, and tables keep to the width."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.table import Table
from rich.text import Text
from triagelab.base import sources
from triagelab.commands import listing, telling
from triagelab.plan import plan
from triagelab.run import execute

#: A path longer than a terminal's line. By default, rich would wrap it at the space, and take
#: [bold] and :x: for markup.
LONG = f"/tmp/{'a-long-folder-/' * 20}with a space/[bold]/:x:/report.html"


@pytest.mark.parametrize("stream", ["output", "error"])
@pytest.mark.parametrize("width", ["40", "80"])
def test_a_message_is_printed_as_it_is(
    stream: str, width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    getattr(telling, stream).print(f"report: {LONG}", style="red")
    assert "".join(capsys.readouterr()) == f"report: {LONG}\n"


def test_progress_names_each_item_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with telling.progress(2, 0, quiet=False) as step:
        step(LONG, "done")
    assert capsys.readouterr().out == f"[1/2] {LONG} done\n"


def test_the_first_failure_is_told_at_once_with_its_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The progress has a line for each run. All reasons come in full at the end."""

    def ended(name: str, reason: str | None) -> execute.Result:
        return execute.Result(cast(plan.Run, SimpleNamespace(id=name)), reason, None)

    with telling.progress(3, 0, quiet=False) as step:
        tell = telling.tells(step)
        tell(ended("a", None))
        assert capsys.readouterr().err == ""
        tell(ended("b", "no such tunable\nIts last lines were:"))
        assert capsys.readouterr().err == "b failed: no such tunable\n"
        tell(ended("c", "no such tunable"))
        assert capsys.readouterr() == ("[3/3] c failed\n", "")


def test_prose_beside_tables_is_whole_where_no_terminal_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    telling.show(Text(LONG))
    assert capsys.readouterr().out == f"{LONG}\n"


def test_a_table_keeps_to_the_width(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("words", box=None)
    table.add_row("word " * 50)
    telling.show(table)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 80


def test_a_list_cuts_nothing_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    listing._list_drives()
    assert "…" not in capsys.readouterr().out


def test_only_one_module_makes_consoles() -> None:
    """Each message goes through telling.py, which the tests above cover."""
    lab = sources.ROOT / "lab/triagelab"
    found = [
        path.relative_to(lab)
        for path in lab.rglob("*.py")
        if re.search(r"\bConsole\(|\brich\.print|soft_wrap=|markup=", path.read_text())
    ]
    assert found == [Path("commands/telling.py")]
