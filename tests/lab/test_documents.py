# SPDX-License-Identifier: GPL-2.0-only
"""Tests that documents show the figures of their result files, and that commands and links work."""

import hashlib
import json
import re
import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, cast

import figures
import jinja2
import pytest
from triagelab import cli
from triagelab.ask import devices, drives, experiments, fiofile
from triagelab.base import metrics, sources
from triagelab.base.errors import LabError
from triagelab.check import verify
from triagelab.commands import request
from triagelab.provision import guest, kernels
from triagelab.run import machines

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
    """Make a repository whose README shows a measured and a transcribed result; return Figures."""
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
    """Replace a text in a file of the repository; return the problems found then."""
    path = there.folder.parents[1] / name
    assert was in path.read_text()
    path.write_text(path.read_text().replace(was, becomes))
    return list(there.problems())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["triage-knee-frontier", "triage-knee-controller"])
def test_the_figures_of_the_knee_are_those_of_todays_code(name: str) -> None:
    """Each result file has the rows that its command, `make -C kernel knee …`, prints today.

    The test takes seconds. After a change of the controller, run `lab/figures.py measure NAME`.
    """
    result = figures.Figures().result(name)
    (command,) = result.commands
    assert figures.printed(command.split(), sources.ROOT) == result.table[1:]


def test_every_figure_of_the_documents_is_the_one_of_its_result_file() -> None:
    assert list(figures.Figures().problems()) == []


def commits(text: str) -> set[str]:
    """Return the commits that a result file names as those that were measured."""
    measured = json.loads(text).get("measured", {})
    return set(re.findall(r"\b[0-9a-f]{7,40}\b", str(measured.get("commit", ""))))


def test_a_figure_was_measured_at_a_commit_of_this_repository() -> None:
    """A commit that only a discarded branch had tells a reader nothing."""
    git = ["git", "-C", str(sources.ROOT)]
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True)
    if shallow.stdout != b"false\n":
        pytest.skip("this is no repository with all commits")
    folder = sources.ROOT / "docs/figures"
    named = set().union(*(commits(path.read_text()) for path in folder.glob("*.json")))
    ours = subprocess.run([*git, "log", "--format=%H"], capture_output=True, text=True, check=True)
    assert named
    assert [one for one in named if not re.search(rf"^{one}", ours.stdout, re.M)] == []


def test_a_block_has_the_figures_and_names_the_command_and_when_it_ran(
    made: figures.Figures,
) -> None:
    assert list(made.problems()) == []
    text = (made.folder.parents[1] / "README.md").read_text().replace("\u00a0", " ")
    assert "It is 300 µs [299, 301], 3.00 ×.\n" in text
    assert "`./triage run demo` (2026-11-25, commit abc, kernel 6.12)" in text
    assert "| | P99 |\n|---|---|\n| none | 3 ms [2, 4] |\n" in text
    assert "`make a`, `make b` (transcribed from old.md of commit abc; not measured again)" in text


def result(*rows: tuple[str, dict[str, Any], str, float]) -> figures.Result:
    """Return a result with rows of (scheduler, point, metric, mean), all of the job db."""
    return figures.Result(
        ["./triage run demo"],
        "today",
        [
            {"scheduler": scheduler, "point": point, "job": "db", "metric": metric, "unit": "ms",
             "mean": mean, "ci95": None}
            for scheduler, point, metric, mean in rows
        ],
    )  # fmt: skip


def test_a_percentile_that_too_few_requests_support_is_the_maximum_and_says_so() -> None:
    made = result(("none", {}, "max_ms", 9), ("bfq", {}, "p99_ms", 5), ("bfq", {}, "max_ms", 7))
    assert made.tail("bfq", "db", "p99_ms", "max_ms").replace("\u00a0", " ") == "5.00 ms"
    assert made.tail("none", "db", "p99_ms", "max_ms").replace("\u00a0", " ") == "9.00 ms at most"
    with pytest.raises(figures.FigureError, match="0 rows"):
        made.tail("kyber", "db", "p99_ms", "max_ms")


def test_a_job_alone_has_no_setting_of_a_scheduler() -> None:
    made = result(
        ("none", {"alone": True, "depth": 1}, "p99_ms", 2),
        ("triage", {"depth": 1, "triage.exchange": 8}, "p99_ms", 5),
    )
    at: dict[str, Any] = {"depth": 1, "triage.exchange": 8}
    assert made.ratio("triage", "alone", "db", "p99_ms", **at) == 2.5
    with pytest.raises(figures.FigureError, match="0 rows"):
        made.ratio("triage", "alone", "db", "p99_ms", **(at | {"depth": 2}))


def test_more_is_a_difference() -> None:
    made = result(("none", {}, "p99_ms", 2), ("bfq", {}, "p99_ms", 5))
    assert made.more("bfq", "none", "db", "p99_ms").replace("\u00a0", " ") == "3.00 ms"


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


def test_a_table_of_several_commands_is_not_measured_by_one(made: figures.Figures) -> None:
    with pytest.raises(figures.FigureError, match="copied joins the tables of 2 commands"):
        made.measure("copied", [])


@pytest.mark.parametrize(
    ("mean", "ci95", "told"),
    [
        (300.0, [299.0, 301.0], []),
        (325.0, [324.0, 326.0], []),
        (340.0, [300.5, 380.0], []),
        (340.0, [339.0, 341.0], ["db's p99_us under none is 340 µs [339, 341], not 300 µs"]),
        (200.0, None, ["db's p99_us under none is 200 µs, not 300 µs"]),
    ],
)
def test_a_later_run_that_contradicts_a_figure_is_told(
    made: figures.Figures, mean: float, ci95: object, told: list[str]
) -> None:
    beside, alone = DEMO["rows"]
    again = [{**beside, "job": "other"}, alone, {**beside, "mean": mean, "ci95": ci95}]
    found = list(made.result("demo").out_of_date("none", again))
    assert [line.replace("\u00a0", " ").split(" [299, 301]")[0] for line in found] == told


def test_a_figure_that_a_later_run_lacks_is_told(made: figures.Figures) -> None:
    demo = made.result("demo")
    beside, _ = DEMO["rows"]
    assert list(demo.out_of_date("none", [beside])) == ["db's p99_us under none was not measured"]
    assert list(demo.out_of_date("bfq", DEMO["rows"])) == ["there is no figure of bfq"]


def test_a_run_becomes_a_result_file(made: figures.Figures, tmp_path: Path) -> None:
    """The result file has only those metrics of summary.json that a template names."""
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


def example(kind: str, of: str) -> str:
    """Return the code block of a section of docs/extend.md; assert that the block is short."""
    text = (sources.ROOT / "docs/extend.md").read_text()
    section = text.split(f"\n## {of}\n")[1]
    found = re.search(rf"^```{kind}\n(.*?)^```", section, re.M | re.S)
    assert found is not None
    assert len(found[1].splitlines()) <= 13
    return found[1]


def test_the_metric_of_the_example_is_computed() -> None:
    (made,) = eval(example("python", "A metric"), vars(metrics).copy())
    bins = Counter({1000: 89, 2000: 2, 3000: 9})
    assert made.measure(metrics.Done(requests=100, seconds=1, bins=bins)) == pytest.approx(2, 0.02)


def test_the_drive_of_the_example_is_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text(example("toml", "A device"))
    monkeypatch.setattr(drives, "FOLDER", tmp_path)
    assert devices.find("mine", {}).settings["read_ns"] == "68000"


def test_the_machine_of_the_example_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "KINDS", machines.KINDS.copy())
    exec(example("python", "A machine"), vars(machines).copy())
    monkeypatch.setattr(guest, "base", lambda kernel: None)
    made = machines.make("slow", cast(kernels.Kernel, None), 3)
    assert (made.name, made.cpus, made.in_real_time) == ("slow", 3, True)


# ---- commands ---------------------------------------------------------------------

#: Placeholders in the documents' commands, which a reader replaces.
PLACEHOLDERS = {"NAME", "MY.fio", "none,prio-basic,mine"}
#: The name in the documents for a drive that their reader makes with ./triage fit.
OWN_DRIVE = "mine"


def commands(text: str) -> set[str]:
    """Return the ./triage commands in a document's sentences and code blocks."""
    blocks = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S))
    return {
        *re.findall(r"`(\./triage [^`\n]+)`", text),
        *re.findall(r"^(?:sudo )?(\./triage .*)$", blocks, re.M),
    }


def refused(command: str) -> str:
    """Return why the lab would refuse a command; empty if it would not."""
    words = shlex.split(command, comments=True)[1:]
    if len(words) == 1 or words[-1] == "--help":
        return ""  # the document only mentions the command
    try:
        given = cli.parsed(words)
        if words[0] == "run" and not PLACEHOLDERS & set(words):
            vary = request.values_to_vary(given.vary)
            chosen = experiments.find(given.experiment, vary, quick=given.quick)
            extra = {path.name.removesuffix("-iosched.ko"): path for path in given.module or []}
            request.schedulers_of(given.schedulers, (), extra)
            for device in filter(None, [given.device, chosen.device]):
                assert "/" in device or device == OWN_DRIVE or devices.describe(device)
    except (SystemExit, LabError) as error:
        return f"{command}: {error}"
    return ""


def test_the_lab_takes_every_command_of_the_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands under figures are checked too: users need them to measure a figure again."""
    monkeypatch.setattr(fiofile, "check", lambda files: None)  # test_experiments.py runs this check
    told = [
        f"{document.name}: {why}"
        for document in figures.Figures().documents()
        for command in sorted(commands(document.read_text()))
        if (why := refused(command))
    ]
    assert told == []


@pytest.mark.parametrize(
    "text",
    [
        "`./triage run none-such`",
        "`./triage run bursts --vary pause=1`",
        "`./triage run bursts --schedulers cfq`",
        "```\n./triage run bursts --device none-such\n```\n",
        "```\nsudo ./triage run bursts --repeat-often\n```\n",
        "```sh\n./triage verify\n./triage verify triage --checks 01 # a sentence\n```\n",
    ],
)
def test_a_command_that_the_lab_refuses_is_found(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fiofile, "check", lambda files: None)
    assert any(map(refused, commands(text)))


# ---- the site ---------------------------------------------------------------------


def built(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the documentation site of a folder, like `make docs`."""
    words = ["make", "-s", "-f", f"{sources.ROOT}/Makefile", "docs", f"CURDIR={sources.ROOT}"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_the_site_is_built_and_every_link_leads_somewhere() -> None:
    done = built(sources.ROOT)
    assert done.returncode == 0, done.stderr
    page = (sources.ROOT / "build/site/docs/index.html").read_text()
    for kind in ("Tutorial", "How-to", "Reference", "Explanation"):
        assert f">{kind}<" in page


@pytest.mark.slow
def test_what_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    shutil.copytree(sources.ROOT / "docs/site", tmp_path / "docs/site")
    shutil.copytree(sources.ROOT / "lab", tmp_path / "lab", ignore=lambda *_: ["triagelab"])
    (tmp_path / "docs/index.md").write_text(
        "# A\n[page](none-such.md) [file](../none.py) [other](b.md#c)\n```{toctree}\nb\n```\n"
    )
    (tmp_path / "docs/b.md").write_text("# B\n[here](#none) [there](index.md#a)\n")
    (tmp_path / "docs/lost.md").write_text("# Lost\n")
    done = built(tmp_path)
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if "WARNING" in line]
    for wrong in ("none-such.md", "none.py", "'c'", "'none'", "lost.md"):
        assert [line for line in told if wrong in line], done.stderr
    assert len(told) == 5


def test_a_picture_that_was_not_taken_with_the_figures_is_told(made: figures.Figures) -> None:
    root = made.folder.parents[1]
    (root / "a.png").write_bytes(b"a picture")
    taken = hashlib.sha256(b"a picture").hexdigest()
    pictures = {"pictures": {"a.png": taken}}
    (made.folder / "demo.json").write_text(json.dumps(DEMO | pictures))
    assert list(made.problems()) == []
    (root / "a.png").write_bytes(b"another")
    assert list(made.problems()) == ["a.png is not the one that was taken with demo.json"]


def test_rows_that_a_command_prints_become_a_result_file(made: figures.Figures) -> None:
    root = made.folder.parents[1]
    (root / "Makefile").write_text("a:\n\t@echo 'a | b'\n\t@echo '| bfq | 1 ms [1, 2] |'\n")
    made.keep_rows("copied", figures.printed(["make", "a"], root), "abc1")
    made.write()
    text = (root / "README.md").read_text()
    assert "| | P99 |\n|---|---|\n| bfq | 1 ms [1, 2] |\n" in text
    assert "commit abc1)" in text and "not measured again" not in text


def test_a_matrix_becomes_rows_a_kernel_each(tmp_path: Path) -> None:
    def build(result: str) -> dict[str, Any]:
        return {"result": result, "said": "", "processor_s": 20.4}

    names = (("01", "pass"), ("02", "pass"), ("03", "skip"), ("04", "fail"), ("04", "fail"))
    checks = [{"check": name, "result": result} for name, result in names]
    passed = {"gcc": build("pass"), "clang": build("pass")}
    failed = {"gcc": build("fail"), "clang": build("pass")}
    verified = {"checks": checks, "processor_s": 300.0}
    record = [
        {"kernel": "6.1", "builds": passed, "checks": verified},
        {"kernel": "7.3", "builds": passed, "checks": {**verified, "checks": checks[:3]}},
        {"kernel": "9.0", "builds": failed, "checks": None},
    ]
    (tmp_path / "matrix.json").write_text(json.dumps({"kernels": record}))
    rows = figures.kernels(tmp_path / "matrix.json")
    good = "no warning, 20 s"
    assert [[cell.replace("\u00a0", " ") for cell in row] for row in rows] == [
        ["6.1", good, good, "2", "1", "2: `04`", "300 s"],
        ["7.3", good, good, "2", "1", "0", "300 s"],
        ["9.0", "failed, 20 s", good, "0", "0", "0", "not run"],
    ]


def test_a_command_that_prints_no_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("a:\n\t@echo 'a | b'\n")
    with pytest.raises(figures.FigureError):
        figures.printed(["make", "a"], tmp_path)


def test_the_readme_is_short_and_has_one_picture() -> None:
    text = (sources.ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 100
    assert len(re.findall(r"!\[", text)) == 1


def test_verify_md_says_what_each_check_is_for() -> None:
    text = (sources.ROOT / "docs/verify.md").read_text()
    table = text.partition("## What is checked")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\d\d)`", table))
    for first, last in re.findall(r"`(\d\d)` to `(\d\d)`", table):
        named |= {f"{number:02}" for number in range(int(first), int(last) + 1)}
    assert named == {check.name[:2] for check in verify.checks()}
