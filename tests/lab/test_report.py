# SPDX-License-Identifier: GPL-2.0-only
"""Guards: the report is complete, self-contained and drawn; the table fits a terminal."""

import dataclasses
import html
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console
from triagelab import report, samples

from tests.lab import rundirs
from tests.lab.rundirs import Bench, Load

STUDY = dataclasses.replace(rundirs.STUDY, seconds=0.5)
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
    "two points": dataclasses.replace(STUDY, points=({"bs": "4k"}, {"bs": "64k"})),
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

# Put at the head of the page: writes down what goes wrong, and what was drawn.
PROBE = """<script>
const wrong = [];
window.addEventListener("error", event => wrong.push("error: " + event.message), true);
window.addEventListener("unhandledrejection", event => wrong.push("rejected: " + event.reason));
document.addEventListener("securitypolicyviolation", event => wrong.push(event.blockedURI));
for (const kind of ["error", "warn"])
  console[kind] = (...said) => wrong.push(kind + ": " + said.join(" "));
window.addEventListener("load", () => setTimeout(() => {
  const shown = element => [...element.querySelectorAll("path")].some(path =>
    path.getAttribute("d") && path.getBoundingClientRect().width > 0);
  window.parent.postMessage(JSON.stringify({
    wrong,
    fetched: performance.getEntriesByType("resource").map(entry => entry.name),
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    drawings: Object.fromEntries([...document.querySelectorAll(".drawing")].map(drawing => [
      drawing.id, [...drawing.querySelectorAll(".trace")].filter(shown).length])),
  }), "*");
}, 500));
</script>"""
# Around the page, for a window of Chromium cannot be as narrow as a telephone.
FRAME = """<pre id="probe"></pre>
<script>window.addEventListener("message", event => { probe.textContent = event.data; });</script>
<iframe src="probed.html" style="width: {width}px; height: 900px; border: 0"></iframe>"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = rundirs.make(tmp_path_factory.mktemp("study") / "out", STUDY)
    report.write(out)
    return out


def words(page: str) -> str:
    """What a reader reads, without the markup."""
    body = page[page.index("<body>") :]
    text = re.sub(r"<script.*?</script>|<[^>]*>", " ", body, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(text))


def terminal(out: Path) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    result = json.loads((out / "summary.json").read_text())
    console.print(report.table(result, samples.read_environment(out)))
    return console.export_text()


# ---- files ----------------------------------------------------------------------


def test_writes_what_the_run_directory_promises(study: Path) -> None:
    table = pl.read_parquet(study / "samples.parquet")
    assert table.equals(samples.collect(study))
    assert json.loads((study / "summary.json").read_text())["schema"] == 1
    assert (study / "report.html").stat().st_size > 4_000_000  # plotly.js is in it


def test_writing_again_changes_nothing(study: Path) -> None:
    before = [(study / name).read_bytes() for name in ("summary.json", "report.html")]
    report.write(study)
    assert [(study / name).read_bytes() for name in ("summary.json", "report.html")] == before


# ---- the page -------------------------------------------------------------------


def test_opens_with_the_answer(study: Path) -> None:
    text = words((study / "report.html").read_text())
    title = samples.read_environment(study)["title"]
    question = samples.read_environment(study)["question"]
    assert text.strip().startswith(f"{title} {question}")
    answer = text.index("bfq protects database_sim best")
    assert answer < text.index("bfq protects most") < text.index("Latency and throughput")


def test_says_what_the_bottleneck_was(study: Path) -> None:
    text = words((study / "report.html").read_text())
    assert "the device was the bottleneck: it ran at " in text
    assert "Under bfq neither was saturated" in text


def test_shows_settings_and_failures(tmp_path: Path) -> None:
    out = rundirs.make(tmp_path / "out", CASES["some failed"])
    text = words(report.write(out).read_text())
    assert "3 of 30 runs failed" in text
    assert "the guest panicked: <NULL> pointer dereference" in text
    for said in (
        "completion_nsec = 400000",
        "6.12.117+deb12-amd64",
        "SHA-256 5a5a",
        "7.2.22",
        "aging_expire = 100",
    ):
        assert said in text


def test_missing_protection_chart_is_explained(tmp_path: Path) -> None:
    out = rundirs.make(tmp_path / "out", CASES["user's job, one scheduler, one repeat"])
    text = words(report.write(out).read_text())
    assert "no chart of protection against cost: no job is named" in text
    assert "so it cannot be said whether it was saturated" in text


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_experiment_has_a_report(tmp_path: Path, name: str) -> None:
    out = rundirs.make(tmp_path / "out", CASES[name])
    text = words(report.write(out).read_text())
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
    assert "bfq protects database_sim best" in text


def test_table_compares_only_with_a_baseline(tmp_path: Path) -> None:
    out = rundirs.make(tmp_path / "out", CASES["no baseline"])
    report.write(out)
    text = terminal(out)
    assert "/ none" not in text
    assert "no difference seen, ?" not in text  # the legend


@pytest.mark.parametrize("name", CASES)
def test_table_fits_a_terminal(tmp_path: Path, name: str) -> None:
    long = "a-scheduler-with-quite-a-long-name"
    bench = CASES[name]
    bench = dataclasses.replace(
        bench, loads={**bench.loads, long: next(iter(bench.loads.values()))}
    )
    out = rundirs.make(tmp_path / "out", bench)
    report.write(out)
    lines = terminal(out).splitlines()
    assert lines
    assert max(len(line) for line in lines) <= 80
    assert not any("…" in line for line in lines)  # nothing is cut off


# ---- in a browser ---------------------------------------------------------------


def browse(page: Path, folder: Path, width: int) -> dict[str, Any]:
    """Opens a report in headless Chromium and returns what the probe saw."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium: apt install chromium")
    (folder / "probed.html").write_text(page.read_text().replace("<head>", "<head>" + PROBE, 1))
    frame = folder / "frame.html"
    frame.write_text(FRAME.replace("{width}", str(width)))
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000",
        "--virtual-time-budget=20000", "--dump-dom", frame.as_uri(),
    ]  # fmt: skip
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'<pre id="probe">(.+?)</pre>', dom, re.DOTALL)
    assert found, f"the page did not finish loading:\n{dom[-2000:]}"
    loaded: dict[str, Any] = json.loads(html.unescape(found[1]))
    return loaded


@pytest.mark.parametrize("name", CASES)
def test_browser_has_nothing_to_complain_of(tmp_path: Path, name: str) -> None:
    out = rundirs.make(tmp_path / "out", CASES[name])
    seen = browse(report.write(out), tmp_path, 1280)
    assert seen["wrong"] == []
    assert seen["fetched"] == []
    assert seen["overflow"] <= 0
    assert all(seen["drawings"].values())


def test_fits_a_telephone(study: Path, tmp_path: Path) -> None:
    seen = browse(study / "report.html", tmp_path, 390)
    assert seen["overflow"] <= 0
    assert seen["wrong"] == []


def test_probe_sees_what_goes_wrong(study: Path, tmp_path: Path) -> None:
    """The tests above cannot pass because the probe is blind."""
    page = tmp_path / "broken.html"
    broken = "<img src='https://example.invalid/x.png'><script>console.error('told')</script>"
    page.write_text((study / "report.html").read_text().replace("<main>", broken + "<main>", 1))
    wrong = browse(page, tmp_path, 1280)["wrong"]
    assert "error: told" in wrong
    assert any("example.invalid" in said for said in wrong)


def test_every_chart_shows_every_scheduler(study: Path, tmp_path: Path) -> None:
    drawings = browse(study / "report.html", tmp_path, 1280)["drawings"]
    assert len(drawings) == 1 + 2 * 2 + 3 + 2
    for identity, traces in drawings.items():
        # Over time: the edges of a band, its middle, and total latency.
        assert traces >= (20 if "time" in identity else 5), identity
