# SPDX-License-Identifier: GPL-2.0-only
"""Guards: the documents' figures are those of their result files; every link leads somewhere."""

import json
import re
from pathlib import Path
from typing import Any

import figures
import jinja2
import pytest
from triagelab.base import sources

DEMO: dict[str, Any] = {
    "command": "./triage run demo",
    "measured": {"date": "2026-11-25", "commit": "abc", "kernel": "6.12"},
    "rows": [
        {"scheduler": "none", "point": point, "job": "db", "metric": "p99_us", "unit": "µs",
         "mean": mean, "ci95": [mean - 1, mean + 1], "n": 5}
        for point, mean in (({}, 300.0), ({"alone": True}, 100.0))
    ],
}  # fmt: skip
COPIED = {
    "command": ["make a", "make b"],
    "transcribed": {"document": "old.md", "commit": "abc"},
    "table": [["", "P99"], ["none", "3 ms [2, 4]"]],
}
TEMPLATE = """\
{% set demo = result("demo") %}
It is {{ demo.show("none", "db", "p99_us") }}, {{ demo.times("none", "alone", "db", "p99_us") }}.
"""
README = """\
<!-- figures: headline -->
<!-- end of figures -->
<!-- figures: copied -->
<!-- end of figures -->
"""


@pytest.fixture
def made(tmp_path: Path) -> figures.Figures:
    """Return a repository with a template, a measured and a copied result file, all shown."""
    folder = tmp_path / "docs/figures"
    folder.mkdir(parents=True)
    (folder / "demo.json").write_text(json.dumps(DEMO))
    (folder / "copied.json").write_text(json.dumps(COPIED))
    (folder / "headline.jinja").write_text(TEMPLATE)
    (tmp_path / "README.md").write_text(README)
    there = figures.Figures(tmp_path)
    there.write()
    return there


def changed(there: figures.Figures, name: str, was: str, becomes: str) -> list[str]:
    """Change a file of the repository and return the problems."""
    path = there.folder.parents[1] / name
    assert was in path.read_text()
    path.write_text(path.read_text().replace(was, becomes))
    return list(there.problems())


def test_every_figure_of_the_documents_is_the_one_of_its_result_file() -> None:
    assert list(figures.Figures().problems()) == []


def test_a_block_has_the_figures_and_names_the_command_and_when_it_ran(
    made: figures.Figures,
) -> None:
    assert list(made.problems()) == []
    text = (made.folder.parents[1] / "README.md").read_text().replace("\u00a0", " ")
    assert "It is 300 µs [299, 301], 3.00 ×.\n" in text
    assert "`./triage run demo` (2026-11-25, commit abc, kernel 6.12)" in text
    assert "| | P99 |\n|---|---|\n| none | 3 ms [2, 4] |\n" in text
    assert "`make a`, `make b` (transcribed from old.md of commit abc; not measured again)" in text


def test_writing_again_changes_nothing(made: figures.Figures) -> None:
    assert made.write() == []


@pytest.mark.parametrize(
    ("name", "was", "becomes", "problem"),
    [
        ("README.md", "300", "200", "README.md differs from docs/figures"),
        ("README.md", "3 ms", "2 ms", "README.md differs from docs/figures"),
        ("README.md", "make a", "make c", "README.md differs from docs/figures"),
        ("docs/figures/demo.json", "300.0", "299.0", "README.md differs from docs/figures"),
        ("docs/figures/copied.json", "3 ms", "4 ms", "README.md differs from docs/figures"),
        ("README.md", "<!-- figures: headline", "| a | 5 [4, 6] |\n<!-- figures: headline",
         "README.md: a table has intervals and no result file"),
    ],
)  # fmt: skip
def test_a_figure_that_went_stale_is_told(
    made: figures.Figures, name: str, was: str, becomes: str, problem: str
) -> None:
    assert any(problem in told for told in changed(made, name, was, becomes))


def test_a_result_file_that_no_document_shows_is_told(made: figures.Figures) -> None:
    (made.folder / "old.json").write_text(json.dumps(COPIED))
    assert list(made.problems()) == ["no document shows docs/figures/old.json"]


@pytest.mark.parametrize(
    ("name", "was", "becomes"),
    [
        ("README.md", "<!-- end of figures -->\n<!-- figures: copied", "<!-- figures: copied"),
        ("README.md", "figures: copied", "figures: none-such"),
        ("docs/figures/headline.jinja", '"none", "db"', '"bfq", "db"'),
        ("docs/figures/headline.jinja", '{% set demo = result("demo") %}', ""),
        ("docs/figures/copied.json", '"transcribed"', '"guessed"'),
        ("docs/figures/copied.json", '"command"', '"by"'),
    ],
)
def test_what_cannot_be_a_figure_is_an_error(
    made: figures.Figures, name: str, was: str, becomes: str
) -> None:
    with pytest.raises((figures.FigureError, jinja2.TemplateError)):
        changed(made, name, was, becomes)


def test_a_run_becomes_a_result_file(made: figures.Figures, tmp_path: Path) -> None:
    """Keep the metrics that a template names; the rest of summary.json is left out."""
    root = made.folder.parents[1]
    rows = [{**row, "requests": 5, "starved": 0} for row in DEMO["rows"]]
    rows.append({**rows[0], "metric": "iops"})
    rows[0]["mean"] = 250.0
    (tmp_path / "summary.json").write_text(json.dumps({"kernel": "6.12.9", "rows": rows}))
    made.keep("demo", tmp_path, ["./triage", "run", "demo", "--vary", "a b=1"], "abc1")
    kept = json.loads((made.folder / "demo.json").read_text())
    assert kept["command"] == "./triage run demo --vary 'a b=1'"
    assert kept["measured"].items() >= {"kernel": "6.12.9", "commit": "abc1"}.items()
    assert [row["metric"] for row in kept["rows"]] == ["p99_us", "p99_us"]
    made.write()
    assert "It is 250" in (root / "README.md").read_text()


def test_the_readme_is_short_and_has_one_picture() -> None:
    text = (sources.ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 100
    assert len(re.findall(r"!\[", text)) == 1
