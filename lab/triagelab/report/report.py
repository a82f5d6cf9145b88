# SPDX-License-Identifier: GPL-2.0-only
"""Build the output for people: the report, one self-contained HTML page, and terminal tables."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import plotly.offline
import polars as pl
import rich.box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from triagelab.base import files, metrics
from triagelab.base.metrics import Of
from triagelab.judge import bottleneck, figures, findings, lookup
from triagelab.judge.answers import Answer
from triagelab.judge.lookup import BASELINE, View
from triagelab.judge.measured import Measured
from triagelab.measure.statistics import (
    HIGHER,
    LOWER,
    NO_DIFFERENCE,
    NOT_CERTAIN,
    NOT_ENOUGH,
    REPEATS_FOR_VERDICT,
    Comparison,
)
from triagelab.measure.summary import Values
from triagelab.report import charts, drawing, drivemap, sweeps, timelines
from triagelab.report.drawing import Chart, Style
from triagelab.run import records

Record = dict[str, Any]

POINTS_SHOWN = 3  # with more, the page folds each point, and the terminal prints one answer for all
LEGEND = (
    "[ ] 95 % interval of each figure by itself. ↓ lower, ↑ higher, = no difference seen, "
    "~ difference not certain, ? too few repeats to tell, ∅ nothing completed in some: verdicts "
    "on all comparisons together, at most about 5 % of reports have a false one where nothing "
    "differs."
)
SIGNS = {LOWER: "↓", HIGHER: "↑", NO_DIFFERENCE: "=", NOT_CERTAIN: "~", NOT_ENOUGH: "?"}
STARVED = "∅"


def write(there: Measured) -> Path:
    """Write samples.parquet, summary.json and report.html from the measurements.

    Return the report's path.
    """
    table = io.BytesIO()  # if polars wrote to a full disk, it would raise its own error
    there.samples.write_parquet(table)
    with files.whole(there.out / "samples.parquet") as scratch:
        scratch.write_bytes(table.getvalue())
    text = json.dumps(there.summary, indent=1, ensure_ascii=False)
    files.write_text(there.out / "summary.json", text + "\n")
    report = there.out / "report.html"
    files.write_text(report, _page(there))
    return report


# ---- the page -------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """The report's content about one point of the matrix."""

    point: str  # for display; empty if the experiment varies nothing
    answer: Answer
    protection: Chart | None
    no_protection: str  # reason why the protection chart is missing
    jobs: list[tuple[str, list[Chart]]]
    cpu: list[Chart]
    time: list[Chart]
    bottlenecks: list[str]
    device: Chart | None  # utilisation over time
    utilisation: list[list[str]]  # the first row is the heading
    tables: list["JobTable"]


@dataclass(frozen=True)
class JobTable:
    """Every metric of one job under every scheduler, with verdicts.

    best  the scheduler with the lowest `tail`, if possible one under which the job never starved;
          None if fewer than two schedulers have `tail`
    """

    job: str
    best: str | None
    tail: str  # the label of the job's tail metric: P99 or maximum latency
    blocks: list[tuple[str, list["Line"]]]  # a metric's name and its lines


@dataclass(frozen=True)
class Line:
    """One line of a job's table, formatted."""

    scheduler: str
    mean: str
    interval: str
    n: int
    requests: int | None
    against_baseline: str
    against_best: str


def _page(there: Measured) -> str:
    environment, values, views = there.environment, there.values, there.views
    looks = drawing.styles(environment["schedulers"])
    parts = [
        _part(f"p{index}", view, values, there.samples, environment, looks)
        for index, view in enumerate(views)
    ]
    runs = [run for _, run in records.runs(there.out)]
    drives = drivemap.made(views)
    template = templates().get_template("report.html.j2")
    return template.render(
        environment=environment,
        overall=findings.overall(views),
        drives=drivemap.chart("drives", drives) if drives else None,
        sweeps=sweeps.charts("sweep", lookup.sweeps(views), values, looks),
        parts=parts,
        collapsed=len(parts) > POINTS_SHOWN,
        failed=[run for run in runs if run["status"] != "done"],
        finished=sum(run["status"] == "done" for run in runs),
        settings=_settings(environment, runs),
        device_settings=environment["device"]["settings"],
        baseline=BASELINE,
        least_repeats=REPEATS_FOR_VERDICT,
        plotly=plotly.offline.get_plotlyjs(),
    )


def templates() -> jinja2.Environment:
    """Return the Jinja environment that loads the templates of the pages."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _part(
    identity: str,
    view: View,
    values: Values,
    measured: pl.DataFrame,
    environment: Record,
    looks: dict[str, Style],
) -> Part:
    found = charts.places(view, values)
    jobs = []
    for index, job in enumerate(view.jobs):
        drawn = [
            charts.bars(f"{identity}-{metric}-{index}", view, job, metric, looks)
            for metric in (view.tail(job), "iops")
            if view.ranked(job, metric)
        ]
        jobs.append((job, drawn))
    cpu = [
        charts.bars(f"{identity}-cpu-{index}", view, job, "cpu_s", looks)
        for index, job in enumerate(view.jobs)
        if view.ranked(job, "cpu_s")  # an application has no such metric
    ]
    drawn_always = [metric.name for metric in metrics.METRICS if metric.drawn]
    for metric in dict.fromkeys((*view.judged_by, *drawn_always)):
        if view.ranked(None, metric):
            cpu.append(charts.bars(f"{identity}-{metric}", view, None, metric, looks))
    time = [
        timelines.latency(f"{identity}-time-{index}", view, job, measured, looks)
        for index, job in enumerate(view.jobs)
    ]
    return Part(
        point=lookup.describe(view.point),
        answer=findings.answer(view),
        protection=charts.protection(f"{identity}-place", found, view, looks) if found else None,
        no_protection="" if found else _no_protection(view),
        jobs=jobs,
        cpu=cpu,
        time=[chart for chart in time if chart],
        bottlenecks=bottleneck.sentences(view, environment["machine"]),
        device=timelines.utilisation(f"{identity}-device", view, measured, looks),
        utilisation=_utilisation(view),
        tables=[_job_table(view, job) for job in view.jobs],
    )


def _no_protection(view: View) -> str:
    if view.protected is None:
        return "no job is named as the one to protect"
    if not view.background:
        return "no job runs in the background"
    if BASELINE not in view.schedulers:
        return f"{BASELINE} was not measured, and what the background keeps is a ratio to it"
    if view.alone(metrics.MAXIMUM) is None:
        return f"no run of {view.protected} alone finished, and protection is a ratio to it"
    return "no scheduler let both sides make progress in a repeat that can be paired"


def _utilisation(view: View) -> list[list[str]]:
    wanted = [*map(metrics.part, view.parts), *(of for of in metrics.METRICS if of.used)]
    if len(view.parts) == 1:
        wanted.remove(metrics.find("device_utilisation"))  # the same as the only part's
    shown = [metric.name for metric in wanted if metric.name in view.metrics]
    if not shown:
        return []
    table = [["scheduler", *map(figures.name_of, shown), "bottleneck"]]
    for scheduler in view.schedulers:
        cells = [_cell(view.row(scheduler, None, metric)) for metric in shown]
        table.append([scheduler, *cells, bottleneck.named(view, scheduler)])
    if view.protected and view.alone_run(shown[0]):
        cells = [_cell(view.alone_run(metric)) for metric in shown]
        table.append([f"{view.protected} alone", *cells, ""])
    return table


def _cell(row: Record | None) -> str:
    return lookup.shown(row) if row else "–"


def _job_table(view: View, job: str) -> JobTable:
    """Build a job's table of all metrics under all schedulers."""
    tail = view.tail(job)
    ranked = view.ranked(job, tail)
    best = ranked[0] if len(ranked) > 1 else None
    blocks = []
    for metric in metrics.of(Of.JOB):
        lines = [
            _line(view, job, metric.name, scheduler, row, best)
            for scheduler in view.schedulers
            if (row := view.row(scheduler, job, metric.name))
        ]
        if lines:
            blocks.append((metric.label, lines))
    return JobTable(job, best, figures.name_of(tail), blocks)


def _line(view: View, job: str, metric: str, scheduler: str, row: Record, best: str | None) -> Line:
    mean, _, interval = lookup.shown(row).partition(" [")
    if starved := view.starved(scheduler, job):
        mean += f" ({starved})"
    return Line(
        scheduler,
        mean,
        f"[{interval}" if interval else "the same in each" if row["n"] > 1 else "–",
        row["n"],
        row["requests"],
        _verdict(view.compare(scheduler, BASELINE, job, metric)),
        _verdict(view.compare(scheduler, best, job, metric) if best else None),
    )


def _verdict(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    ratio = "" if comparison.ratio is None else f"{figures.times(comparison)} "
    return f"{ratio}{comparison.words}"


def _settings(environment: Record, runs: list[Record]) -> list[tuple[str, str]]:
    """Describe the setup for people: experiment, kernel, machine and device."""
    device = environment["device"]
    described = f": {device['description']}" if device.get("description") else ""
    tunables = [
        f"{scheduler}: {name} = {value}"
        for scheduler, chosen in environment.get("tunables", {}).items()
        for name, value in chosen.items()
    ]
    machine = ", ".join(filter(None, map(environment.get, ("machine", "machine_description"))))
    boots = [run["boot_s"] for run in runs if run.get("boot_s") is not None]
    settings = [
        ("experiment", environment["experiment"]),
        ("machine", f"{machine}, {_cpus(environment)} CPU(s)"),
        ("device", device["name"] + described),
        ("device can do", _can_do(environment)),
        ("Triage", environment.get("version") or "–"),
        ("kernel", environment["kernel"]),
        ("QEMU", environment.get("qemu") or "–"),
        ("fio", environment["fio"]),
        ("schedulers", ", ".join(environment["schedulers"])),
        ("their tunables", ", ".join(tunables) or "as the kernel sets them"),
        ("protected job", environment.get("protected") or "none named"),
        ("background jobs", ", ".join(environment.get("background", [])) or "none named"),
        *_varied(environment),
        ("repeats", str(environment["repeats"])),
        ("seed", str(environment["seed"])),
    ]
    settings += [
        (f"module {name}", f"SHA-256 {module['sha256']}")
        for name, module in environment.get("modules", {}).items()
    ]
    if boots:
        settings.append(("start to fio's start", f"{max(boots):.1f} s at most"))
    return settings


def _varied(environment: Record) -> list[tuple[str, str]]:
    """Describe the matrix: each varied name, its values, and the settings that a value sets."""
    lines = []
    for name, cases in environment.get("vary", {}).items():
        values = []
        for value, case in cases.items():
            given = {key: text for key, text in case.items() if key != name and text != ""}
            means = ", ".join(f"{key} = {text}" for key, text in given.items())
            values.append(f"{value} ({means})" if means else value)
        lines.append((f"varied: {name}", ", ".join(values)))
    return lines


def _cpus(environment: Record) -> str:
    varied = [
        str(case["cpus"])
        for cases in environment.get("vary", {}).values()
        for case in cases.values()
        if "cpus" in case
    ]
    return ", ".join(varied) or str(environment["cpus"])


def _can_do(environment: Record) -> str:
    capacity = environment["device"].get("capacity_iops")
    if capacity:
        return figures.quantity(capacity, "IOPS")
    if parts := records.parts(environment):
        return f"depends on the requests; measured is how busy it is, by part: {', '.join(parts)}"
    return "not known"


# ---- the terminal ---------------------------------------------------------------


def table(result: Record, environment: Record) -> RenderableType:
    """Build the terminal's output for 80 columns: the tables and the answer at each point.

    The map of several drives comes next, and the answer over all points last, if they exist.
    With more than POINTS_SHOWN points, the answer over all points replaces each point's tables
    and answer.
    """
    views = lookup.views(result, environment)
    overall = findings.overall(views)
    shown: list[RenderableType] = []
    if not overall or len(views) <= POINTS_SHOWN:
        for view in views:
            shown += _terminal_view(view)
        if any(_has_verdicts(view) for view in views):
            shown.append(Text(LEGEND, style="dim"))
    if drives := drivemap.made(views):
        shown += _terminal_drives(drives)
    if overall:
        shown += _terminal_answer(overall)
    return Group(*shown) if shown else Text("No run finished, so there is nothing to compare.")


def _terminal_drives(drives: drivemap.Map) -> list[RenderableType]:
    """Return the map of drives as a table, and the sentences about it."""
    grid = Table("drive", *drives.schedulers, box=rich.box.SIMPLE_HEAD)
    for drive in drives.drives:
        grid.add_row(drive, *(drives.text(drive, name) for name in drives.schedulers))
    return [Text(drives.sentence), grid, Text(drives.losses)]


def _terminal_view(view: View) -> list[RenderableType]:
    point = [Text(lookup.describe(view.point), style="bold")] if view.point != "{}" else []
    if view.judged_by:
        tables = [_terminal_judged(view, metric) for metric in view.judged_by]
    else:
        tables = [_terminal_table(view, job) for job in view.jobs]
    return [*point, *tables, *_terminal_answer(findings.answer(view))]


def _terminal_answer(answer: Answer) -> list[RenderableType]:
    details = [Text(f"• {detail}") for detail in answer.details]
    return [Text(answer.headline, style="bold"), *details]


def _has_verdicts(view: View) -> bool:
    return BASELINE in view.schedulers and len(view.schedulers) > 1


def _terminal_table(view: View, job: str) -> Table:
    """Build a job's table: each scheduler's IOPS and tail latency, with ratios to the baseline."""
    title = f"{job} (protected)" if job == view.protected else job
    grid = Table(title=title, title_justify="left", title_style="bold", box=rich.box.SIMPLE_HEAD)
    grid.add_column("scheduler", max_width=18, overflow="fold")
    compared = _has_verdicts(view)
    tail = view.tail(job)
    for heading in ("IOPS", f"{figures.name_of(tail)} [95 %]"):
        grid.add_column(heading, justify="right")
        if compared:
            grid.add_column(f"/ {BASELINE}", justify="right")
    for scheduler in view.schedulers:
        cells = []
        for metric in ("iops", tail):
            cells.append(_short(view, scheduler, job, metric))
            if compared:
                cells.append(_sign(view.compare(scheduler, BASELINE, job, metric)))
        grid.add_row(scheduler, *cells)
    if job == view.protected and view.alone("iops"):
        gap = [""] if compared else []
        iops, longest = (_figure(view.alone(metric)) for metric in ("iops", tail))
        grid.add_row("(alone)", iops, *gap, longest, *gap, style="dim")
    if starved := [
        f"{said} under {name}" for name in view.schedulers if (said := view.starved(name, job))
    ]:
        grid.caption, grid.caption_justify = "; ".join(starved), "left"
    return grid


def _terminal_judged(view: View, metric: str) -> Table:
    """Build the table of one metric in `judged_by`, with a line for each scheduler."""
    grid = Table(box=rich.box.SIMPLE_HEAD)
    grid.add_column("scheduler", max_width=18, overflow="fold")
    grid.add_column(f"{figures.name_of(metric)} [95 %]", justify="right")
    compared = _has_verdicts(view)
    if compared:
        grid.add_column(f"/ {BASELINE}", justify="right")
    for scheduler in view.schedulers:
        row = view.row(scheduler, None, metric)
        cells = [lookup.shown(row) if row else "–"]
        if compared:
            cells.append(_sign(view.compare(scheduler, BASELINE, None, metric)))
        grid.add_row(scheduler, *cells)
    return grid


def _short(view: View, scheduler: str, job: str, metric: str) -> str:
    """Format a figure: the mean of the repeats that have a value."""
    row = view.row(scheduler, job, metric)
    if row is None:
        return "nothing done" if view.starved(scheduler, job) else "–"
    return _figure(row)


def _figure(row: Record | None) -> str:
    if row is None:
        return "–"
    return figures.digits(row["mean"]) if row["metric"] == "iops" else lookup.shown(row)


def _sign(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    sign = SIGNS.get(comparison.words, STARVED)
    if comparison.ratio is None:
        return sign
    return f"{figures.digits(comparison.ratio)}{figures.SPACE}× {sign}"
