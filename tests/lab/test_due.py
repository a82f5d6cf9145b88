# SPDX-License-Identifier: GPL-2.0-only
"""Tests of tests/due.py, which selects a quarter of each kind of test that has many cases."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from triagelab.base import sources

from tests import due

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

CASES = list("abcdefghij")


def git(folder: Path, *words: str) -> None:
    settings = ("user.name=somebody", "user.email=somebody@example.org", "commit.gpgsign=false")
    given = [word for setting in settings for word in ("-c", setting)]
    subprocess.run(["git", *given, *words], cwd=folder, check=True, capture_output=True)


def commit(root: Path, name: str, text: str) -> None:
    (root / name).write_text(text)
    git(root, "add", name)
    git(root, "commit", "-m", name)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a repository of two commits in place of the project's own; set TESTS=due."""
    root = tmp_path / "root"
    (root / "drives").mkdir(parents=True)
    git(root, "init")
    for name in "ab":
        commit(root, f"drives/{name}.toml", "first")
    monkeypatch.setenv("TESTS", "due")
    stand_for_ours(root, monkeypatch)
    yield root
    forget()


def stand_for_ours(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ROOT", root)
    forget()


def forget() -> None:
    due.decider.cache_clear()
    due.changed.cache_clear()


def selected() -> list[str]:
    forget()
    return [str(param.values[0]) for param in due.selected(CASES) if not param.marks]


def test_four_commits_have_every_case_and_the_fifth_has_what_the_first_had(root: Path) -> None:
    parts = [selected()]
    for number in range(due.PARTS):
        commit(root, "drives/a.toml", str(number))
        parts.append(selected())
    assert sorted(case for part in parts[:-1] for case in part) == CASES
    assert parts[-1] == parts[0]


def test_a_change_without_a_commit_selects_the_same(root: Path) -> None:
    before = selected()
    (root / "drives/a.toml").write_text("changed")
    assert selected() == before


@pytest.mark.parametrize("place", ["shallow", "copied", "copied into another repository"])
def test_where_commits_cannot_be_counted_each_source_counts(
    place: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    if place == "shallow":
        git(tmp_path, "clone", "--depth=1", f"file://{root}", str(other))
    else:
        shutil.copytree(root / "drives", other / "drives")
    if place == "copied into another repository":
        git(tmp_path, "init")
        git(tmp_path, "commit", "--allow-empty", "-m", "none of ours")
    stand_for_ours(other, monkeypatch)
    assert due.described().endswith("for these sources (TESTS=all has all)")
    before = due.decider()
    for name in ("drives/a.toml", "drives/new.toml"):
        (other / name).write_text("changed")
        forget()
        assert due.decider() != before
        before = due.decider()


def test_a_case_whose_own_file_changes_is_selected(root: Path) -> None:
    """The last commit adds b's file. The work tree then changes a's file and adds one for j."""

    def always() -> list[str]:
        forget()
        number, _ = due.decider()
        chosen = due.chosen_of(CASES, lambda case: [root / f"drives/{case}.toml"])
        return [case for case in chosen if case not in due.due(CASES, number)]

    # The third quarter is due after two commits. It has c and g.
    assert due.due(CASES, 2) == ["c", "g"]
    assert always() == ["b"]
    (root / "drives/a.toml").write_text("changed")
    (root / "drives/j.toml").write_text("new")
    assert always() == ["a", "b", "j"]
    git(root, "checkout", "--", "drives/a.toml")
    git(root, "commit", "--allow-empty", "-m", "none of these")
    assert always() == ["j"]


def test_the_reason_of_a_skip_names_the_part(root: Path) -> None:
    assert due.left_out().kwargs["reason"] == (
        "left out; due: part 3 of 4 after 2 commits (TESTS=all has all)"
    )


def test_a_kind_too_small_for_four_parts_is_refused() -> None:
    with pytest.raises(AssertionError, match="3 cases are too few for 4 parts"):
        due.due("abc", 0)


def test_all_are_selected_unless_due_is_asked_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TESTS")
    assert selected() == CASES
    monkeypatch.setenv("TESTS", "quarter")
    with pytest.raises(pytest.UsageError, match="TESTS is quarter, not all or due"):
        selected()
