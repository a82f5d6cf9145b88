# SPDX-License-Identifier: GPL-2.0-only
"""Build the report of a study: study.html, and the answers for the terminal."""

from collections import Counter
from pathlib import Path
from typing import Any

import plotly.offline
from rich.console import Group, RenderableType
from rich.text import Text

from triagelab.ask import study
from triagelab.base import files
from triagelab.judge import figures, measured, published
from triagelab.judge.lookup import BASELINE
from triagelab.judge.measured import Measured
from triagelab.judge.published import Verdict
from triagelab.measure.statistics import REPEATS_FOR_VERDICT
from triagelab.report import drawing, pages, report
from triagelab.report.drawing import Style
from triagelab.report.pages import Page
from triagelab.run import records

Record = dict[str, Any]


def write(out: Path, found: dict[str, Measured]) -> Path:
    """Write study.html and each measure's own report from the measurements.

    Return the path of study.html.
    """
    for there in found.values():
        report.write(there)
    page = out / "study.html"
    files.write_text(page, _html(out, found))
    return page


def read(out: Path) -> dict[str, Measured]:
    """Return measure -> its measurements, in the study's order.

    Leave out a measure that has no finished run.
    """
    folders = {measure.name: out / measure.name for measure in study.load().measures}
    return {
        name: measured.read(folder)
        for name, folder in folders.items()
        if any(records.is_done(path.parent) for path in folder.glob("runs/*/run.json"))
    }


def _pages(out: Path, found: dict[str, Measured]) -> list[Page]:
    there = records.read_json(out / records.STUDY)
    looks = _looks(found)
    return [
        pages.page(wanted, found, there["left_out"], looks, quick=there["quick"])
        for wanted in study.load().pages
    ]


def _looks(found: dict[str, Measured]) -> dict[str, Style]:
    """Return the styles of all schedulers, so that a scheduler looks the same on all pages."""
    names = dict.fromkeys(
        name for there in found.values() for name in there.environment["schedulers"]
    )
    return drawing.styles(list(names))


def _verdicts(found: dict[str, Measured]) -> list[Verdict]:
    verdicts = []
    for finding in published.load().finding:
        there = found.get(finding.measure) if finding.measure else None
        views = pages.at(there.views, finding.at) if there else []
        verdicts.append(published.judge(finding, views[0] if views else None))
    return verdicts


def _html(out: Path, found: dict[str, Measured]) -> str:
    environments = [there.environment for there in found.values()]
    verdicts = _verdicts(found)
    return (
        report.templates()
        .get_template("study.html.j2")
        .render(
            pages=_pages(out, found),
            verdicts=verdicts,
            outcome=_outcome(verdicts),
            sources=published.load().source,
            quick=records.read_json(out / records.STUDY)["quick"],
            kernels=_all(environments, "kernel"),
            qemus=_all(environments, "qemu"),
            fios=_all(environments, "fio"),
            baseline=BASELINE,
            least_repeats=REPEATS_FOR_VERDICT,
            plotly=plotly.offline.get_plotlyjs(),
        )
    )


def _outcome(verdicts: list[Verdict]) -> str:
    """Return a sentence that counts the published findings by verdict."""
    count = Counter(verdict.verdict for verdict in verdicts)
    said = [f"{number} {verdict}" for verdict, number in count.most_common()]
    return f"Of {figures.counted(len(verdicts), 'finding')} {', '.join(said)}."


def _all(environments: list[Record], key: str) -> list[str]:
    return list(dict.fromkeys(of[key] for of in environments if of.get(key)))


def table(out: Path, found: dict[str, Measured]) -> RenderableType:
    """Build the terminal's output: each question with its answer, and a count of verdicts."""
    shown: list[RenderableType] = []
    for page in _pages(out, found):
        shown += [Text(page.page.question, style="bold"), Text(f"  {page.answer}")]
    shown.append(Text("Published findings, and our measurements", style="bold"))
    shown.append(Text(f"  {_outcome(_verdicts(found))}"))
    return Group(*shown)
