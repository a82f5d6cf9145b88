# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the report: it is complete, loads no other file, and its table fits a terminal."""

import dataclasses
import html
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console
from triagelab.base import metrics
from triagelab.base.errors import LabError
from triagelab.base.metrics import Of
from triagelab.commands import report as command
from triagelab.judge import measured
from triagelab.measure import samples, summary
from triagelab.report import report
from triagelab.run import records

from tests.lab import browser, rundirs
from tests.lab.browser import Seen
from tests.lab.rundirs import Bench, Load

STUDY = dataclasses.replace(rundirs.STUDY, seconds=1.0)
USERS = Bench(
    loads={"none": {"my job": Load(900, 300)}},
    repeats=1,
    seconds=0.5,
    alone=None,
    protected=None,
    background=(),
    capacity_iops=None,
)
CASES = {
    "study": STUDY,
    "user's job, one scheduler, one repeat": USERS,
    "one repeat": dataclasses.replace(STUDY, repeats=1),
    "two points": dataclasses.replace(
        STUDY, seconds=0.2, repeats=3, points=({"bs": "4k"}, {"bs": "64k"})
    ),
    "flash": dataclasses.replace(STUDY, device="flash", seconds=1.0),
    "sweep": dataclasses.replace(
        STUDY,
        loads={name: STUDY.loads[name] for name in ("none", "bfq")},
        points=tuple({"t_apps": n, "cell": cell} for n in (1, 4) for cell in ("reads", "writes")),
        at=rundirs.beside,
        device="flash",
        seconds=1.0,
    ),
    "no baseline": dataclasses.replace(
        STUDY, alone=None, loads={name: STUDY.loads[name] for name in ("bfq", "kyber")}
    ),
    "some failed": dataclasses.replace(STUDY, failed=(("bfq", 0), ("none", 3))),
    "all failed": dataclasses.replace(
        STUDY,
        alone=None,
        repeats=1,
        failed=tuple((name, 0) for name in STUDY.loads),
    ),
}

# Pages for the browser: name -> a case, the frame's width in pixels, and HTML to insert.
LOOKS = {
    **{name: (name, 1280, "") for name in CASES},
    "study on a telephone": ("study", 390, ""),
    "sweep on a telephone": ("sweep", 390, ""),
    "broken": (
        "study",
        1280,
        "<img src='https://example.invalid/x.png'><script>console.error('told')</script>",
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the run directory of each case, with its report."""
    folder = tmp_path_factory.mktemp("made")
    outs = {name: folder / str(index) for index, name in enumerate(CASES)}
    for name, out in outs.items():
        report.write(measured.read(rundirs.make(out, CASES[name])))
    return outs


@pytest.fixture(scope="module")
def study(made: dict[str, Path]) -> Path:
    return made["study"]


def words(page: str) -> str:
    """Return the text that a reader sees, without the markup."""
    body = page[page.index("<body>") :]
    text = re.sub(r"<script.*?</script>|<[^>]*>", " ", body, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(text))


def terminal(out: Path) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    result = json.loads((out / "summary.json").read_text())
    console.print(report.table(result, records.read_environment(out)))
    return console.export_text()


# ---- files ----------------------------------------------------------------------


def test_writes_what_the_run_directory_promises(study: Path) -> None:
    table = pl.read_parquet(study / "samples.parquet")
    assert table.equals(samples.collect(study))
    assert json.loads((study / "summary.json").read_text())["schema"] == 1
    assert (study / "report.html").stat().st_size > 4_000_000  # plotly.js is in it


def test_writing_again_changes_nothing(study: Path) -> None:
    before = [(study / name).read_bytes() for name in ("summary.json", "report.html")]
    report.write(measured.read(study))
    assert [(study / name).read_bytes() for name in ("summary.json", "report.html")] == before


def test_the_reports_path_is_told_as_the_user_gave_the_folder(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.tell(study)
    assert capsys.readouterr().out.splitlines()[-1] == f"report: {study / 'report.html'}"


def test_what_is_written_again_is_there_whole_until_the_new_is(tmp_path: Path) -> None:
    out = rundirs.make(tmp_path / "out", USERS)

    def written() -> dict[str, int]:
        report.write(measured.read(out))
        return {path.name: path.stat().st_ino for path in out.iterdir() if path.is_file()}

    before, after = written(), written()
    assert before.keys() == after.keys()
    assert {name for name in after if after[name] == before[name]} == {"environment.json"}


@pytest.mark.parametrize("name", ["samples.parquet", "summary.json", "report.html"])
def test_a_full_disk_is_told_with_what_could_not_be_written(tmp_path: Path, name: str) -> None:
    out = rundirs.make(tmp_path / "out", USERS)
    (out / f"{name}.part").symlink_to("/dev/full")
    with pytest.raises(LabError, match=rf"cannot write .*{name}.*: No space left on device"):
        report.write(measured.read(out))


def test_what_is_written_is_in_utf_8_whatever_the_locale_and_a_files_name(tmp_path: Path) -> None:
    out = rundirs.make(tmp_path / "out", USERS)
    name = "mine\udcff"  # a file name that is not UTF-8, as Python represents it
    environment = records.read_environment(out) | {"experiment": name}
    (out / "environment.json").write_text(json.dumps(environment))
    code = (
        "from triagelab.judge import measured; from triagelab.report import report; "
        "report.write(measured.read(Path(sys.argv[1])))"
    )
    subprocess.run(
        [sys.executable, "-c", f"import sys; from pathlib import Path; {code}", out],
        env=os.environ
        | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    text = (out / "summary.json").read_text(encoding="utf-8")
    assert "µs" in text
    assert json.loads(text)["experiment"] == name
    assert "µs" in (out / "report.html").read_text(encoding="utf-8")


# ---- the page -------------------------------------------------------------------


def test_opens_with_the_answer(study: Path) -> None:
    text = words((study / "report.html").read_text())
    title = records.read_environment(study)["title"]
    question = records.read_environment(study)["question"]
    assert text.strip().startswith(f"{title} {question}")
    answer = text.index("Choose prio-basic: database_sim's P99 latency is ")
    title = text.index("Worth choosing: prio-basic (")
    assert answer < title < text.index("Latency and throughput")


def test_says_what_the_bottleneck_was(study: Path) -> None:
    text = words((study / "report.html").read_text())
    assert "the device was the bottleneck: it ran at " in text
    assert "Under bfq neither was saturated" in text


def test_shows_settings_and_failures(made: dict[str, Path]) -> None:
    text = words((made["some failed"] / "report.html").read_text())
    assert "3 of 30 runs failed" in text
    assert "the guest panicked: <NULL> pointer dereference" in text
    for said in (
        "completion_nsec 400000",
        "device can do 10 000 IOPS",
        "6.12.117+deb12-amd64",
        "SHA-256 5a5a",
        "7.2.22",
        "aging_expire = 100",
    ):
        assert said in text


def test_shows_how_a_modelled_device_was_used(made: dict[str, Path]) -> None:
    text = words((made["flash"] / "report.html").read_text())
    for name, value in rundirs.FLASH["settings"].items():
        assert f" {name} {value} " in text
    assert "the device (its dies) was the bottleneck: it ran at " in text
    assert "The device (its dies) was saturated under none, " in text
    assert "dies utilisation bus utilisation controller utilisation device utilisation" in text
    assert "measured is how busy it is, by part: dies, bus, controller" in text


def test_sweep_comes_first(made: dict[str, Path]) -> None:
    page = (made["sweep"] / "report.html").read_text()
    text = words(page)
    order = [
        "Choose bfq: at the worst of 4 points database_sim's P99 latency under bfq is ",
        "cell = reads At t_apps = 4 database_sim's P99 latency is lowest under bfq",
        "cell = writes At t_apps = 4 ",
        "Each point",
        "cell = reads, t_apps = 1 Choose bfq: database_sim",
        "cell = writes, t_apps = 4 Choose bfq: database_sim",
        "How to read this",
    ]
    places = [text.find(said) for said in order]
    assert -1 not in places
    assert places == sorted(places)
    assert page.count("<details>") == page.count("</details>") == 4
    assert "<details" not in (made["two points"] / "report.html").read_text()


def test_missing_protection_chart_is_explained(made: dict[str, Path]) -> None:
    out = made["user's job, one scheduler, one repeat"]
    text = words((out / "report.html").read_text())
    assert "no chart of protection against what the background keeps: no job is named" in text
    assert "capacity is unknown, and so is whether it was saturated" in text


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_experiment_has_a_report(made: dict[str, Path], name: str) -> None:
    text = words((made[name] / "report.html").read_text())
    assert ("No run finished" in text) == (name == "all failed")
    assert not re.search(r"\bnan\b|\binf\b|\bNone\b|undefined", text)


# ---- the terminal ---------------------------------------------------------------


def test_table_has_a_line_for_each_scheduler(study: Path) -> None:
    text = terminal(study)
    for scheduler in STUDY.loads:
        assert len(re.findall(rf"^ +{scheduler} ", text, re.MULTILINE)) == 2, scheduler
    assert "database_sim (protected)" in text
    assert re.search(r"^ +\(alone\) ", text, re.MULTILINE)
    assert re.search(r"bfq .*× ↑ .*µs \[.*\] .*× ↓", text)
    assert "Choose prio-basic: database_sim's P99" in text
    said = " ".join(text.split())
    assert "95 % interval of each figure by itself" in said
    assert (
        "verdicts on all comparisons together, at most about 5 % of reports have a false one"
        in said
    )


def test_table_compares_only_with_a_baseline(made: dict[str, Path]) -> None:
    text = terminal(made["no baseline"])
    assert "/ none" not in text
    assert "no difference seen" not in text  # no legend explains verdicts


def test_who_starved_says_so_in_the_table_and_the_page_and_has_no_verdict(tmp_path: Path) -> None:
    bench = dataclasses.replace(STUDY, starved=(("bfq", 0), ("bfq", 3)))
    out = rundirs.make(tmp_path / "out", bench)
    report.write(measured.read(out))
    protected, _, background = terminal(out).partition("backup_sim")
    assert re.findall(r"^ +(\S+) .*∅ .*∅", protected, re.MULTILINE) == ["bfq"]
    assert "nothing completed in 2 of 5 repeats under bfq" in protected
    assert "∅" not in background.partition("[ ]")[0]
    text = words((out / "report.html").read_text())
    table = text[text.index("All figures") :]
    assert table.count("nothing completed in 2 of 5 repeats under bfq") >= len(
        [metric for metric in metrics.of(Of.JOB) if metric.compared]
    )


def test_a_percentile_of_too_few_requests_is_the_maximum_everywhere(tmp_path: Path) -> None:
    """Terminal and page show the maximum instead of P99 if a repeat has fewer than 100 requests."""
    out = rundirs.make(tmp_path / "out", dataclasses.replace(STUDY, seconds=0.5))
    report.write(measured.read(out))
    protected, _, background = terminal(out).partition("backup_sim")
    assert "maximum latency [95 %]" in protected
    assert "P99" not in protected
    assert "P99 latency [95 %]" in background
    text = words((out / "report.html").read_text())
    shown, _, table = text.partition("All figures")
    assert "database_sim: maximum latency is lowest under bfq" in shown
    assert "database_sim: P99" not in shown
    assert "database_sim's P99" not in shown
    mine = table[table.index("P99 latency") : table.index("P99.9 latency")]
    assert [name for name in STUDY.loads if f" {name} " in mine.partition("maximum")[0]] == [
        name for name, jobs in STUDY.loads.items() if jobs["database_sim"].iops > 200
    ]


def test_every_row_of_the_page_says_how_many_requests_it_rests_on(study: Path) -> None:
    rows = json.loads((study / "summary.json").read_text())["rows"]
    page = (study / "report.html").read_text()
    for row in rows:
        if row["job"] and not row["point"]:
            assert f"<td>{row['n']}</td><td>{row['requests']}</td>" in page


def test_of_many_points_the_answer_is_enough(made: dict[str, Path]) -> None:
    text = terminal(made["sweep"])
    assert text.startswith("Choose bfq: at the worst of 4 points ")
    assert "(alone)" not in text
    assert terminal(made["two points"]).count("(alone)") == 2


@pytest.mark.parametrize("name", CASES)
def test_table_fits_a_terminal(tmp_path: Path, name: str) -> None:
    long = "a-scheduler-with-quite-a-long-name"
    bench = CASES[name]
    bench = dataclasses.replace(
        bench, loads={**bench.loads, long: next(iter(bench.loads.values()))}, seconds=0.2
    )
    out = rundirs.make(tmp_path / "out", bench)
    result = summary.summarise(samples.collect(out), records.read_environment(out))
    (out / "summary.json").write_text(json.dumps(result))
    lines = terminal(out).splitlines()
    assert lines
    assert max(len(line) for line in lines) <= 80
    assert not any("…" in line for line in lines)  # no line is cut off


# ---- in a browser ---------------------------------------------------------------


@pytest.fixture(scope="module")
def seen(made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Return the records that browser.py makes of all pages in LOOKS."""
    pages = {}
    for look, (name, width, inserted) in LOOKS.items():
        page = (made[name] / "report.html").read_text()
        pages[look] = (page.replace("<main>", "<main>" + inserted, 1), width)
    return browser.look(pages, tmp_path_factory.mktemp("browser"))


@pytest.mark.slow
@pytest.mark.parametrize("look", [look for look in LOOKS if look != "broken"])
def test_browser_has_nothing_to_complain_of(seen: Seen, look: str) -> None:
    browser.assert_readable(seen[look])


@pytest.mark.slow
def test_probe_sees_what_goes_wrong(seen: Seen) -> None:
    """The browser's probe reports the error and the missing image that LOOKS puts into a page."""
    wrong = seen["broken"]["wrong"]
    assert "error: told" in wrong
    assert any("example.invalid" in said for said in wrong)


@pytest.mark.slow
def test_every_chart_shows_every_scheduler(seen: Seen) -> None:
    drawings = seen["study"]["drawings"]
    assert len(drawings) == 1 + 2 * 2 + 3 + 2 + 1
    for identity, traces in drawings.items():
        # For each of 5 schedulers, utilisation over time has 3 traces: two edges of a band, and a
        # mean. Latency over time has 4: such 3 of completion latency, and 1 of total latency. Any
        # other chart has at least 1.
        over_time = {"time": 20, "device": 15}.get(identity.split("-")[1], 5)
        assert traces >= over_time, identity


@pytest.mark.slow
def test_charts_of_closed_points_are_drawn_when_they_are_opened(seen: Seen) -> None:
    looked = seen["sweep"]
    sweeps = {f"sweep-{panel}-{side}" for panel in (0, 1) for side in ("p99", "moved")}
    assert set(looked["atFirst"]) == sweeps
    assert len(looked["closed"]) == 4 * (1 + 2 * 2 + 3 + 2 + 1)
    assert set(looked["drawings"]) == sweeps | set(looked["closed"])
