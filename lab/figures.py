# SPDX-License-Identifier: GPL-2.0-only
"""Write the figures of the documents from the result files in docs/figures.

    figures.py check            fail if a document differs from its result files, or if
                                Figures.problems() finds another fault
    figures.py write            put the result files' figures into the documents, then check
    figures.py measure NAME [COMMAND]
                                run COMMAND (default: the command in NAME.json), keep its figures in
                                NAME.json, then write and check. COMMAND is `./triage run …`,
                                `./triage matrix …`, or a `make …` that prints rows of a table

A block of a document begins with a line `<!-- figures: NAME -->` and ends with
`<!-- end of figures -->`. Its text comes from the template docs/figures/NAME.jinja or, if there is
none, from the table in NAME.json. A last line names the commands that measured the figures, each
with its date. A result file may name `pictures`, which show the top of the command's report.
`measure` takes the pictures again if COMMAND is `./triage run`.
"""

import argparse
import datetime
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

sys.path.insert(0, str(Path(__file__).resolve().parent))

from triagelab.judge import figures

ROOT = Path(__file__).resolve().parents[1]

_BLOCK = re.compile(
    r"^<!-- figures: (?P<name>\S+) -->\n(?P<text>.*?)^<!-- end of figures -->$", re.M | re.S
)
_MARK = re.compile(r"^<!-- (?:figures: .*|end of figures) -->$", re.M)
#: A figure with its interval, such as `234 µs [229, 239]`.
_INTERVAL = re.compile(r"\d[^|\[\]]*\[\d[^|\[\]]*, [^|\[\]]*\d\]")

Row = dict[str, Any]
#: The keys that together identify a row of a run: two rows differ in at least one of them.
_IDENTITY = ("scheduler", "point", "job", "metric")
_A_TENTH = 0.1


class FigureError(Exception):
    """A fault for the user to mend, such as a broken result file or a command that failed."""


@dataclass
class Result:
    """The content of one result file.

    commands  the commands that measured the figures, as a reader types them
    when      text for readers: date, commit and kernel of the measurement, or the document from
              which the figures were copied
    rows      rows of summary.json: each has a metric's mean under one scheduler, at one point of
              the experiment (a value for each name that it varies)
    table     rows of cells, the headings first, if the command prints a table
    pictures  picture's file -> hash of the picture that was taken with the figures
    """

    commands: list[str]
    when: str
    rows: list[Row] = field(default_factory=list)
    table: list[list[str]] = field(default_factory=list)
    pictures: dict[str, str] = field(default_factory=dict)

    def _row(self, scheduler: str, job: str | None, metric: str, at: dict[str, Any]) -> Row:
        wanted = {"scheduler": scheduler, "job": job, "metric": metric}
        found = [
            row
            for row in self.rows
            if wanted.items() <= row.items()
            and at.items() <= row["point"].items()
            and bool(row["point"].get("alone")) == bool(at.get("alone"))
        ]
        if len(found) != 1:
            raise FigureError(f"{self.commands[0]}: {len(found)} rows for {wanted | at}, not one")
        return found[0]

    def mean(self, scheduler: str, job: str | None, metric: str, **at: Any) -> str:
        """Return a metric's mean with its unit; `at` selects the row by values of its point."""
        row = self._row(scheduler, job, metric, at)
        return figures.quantity(row["mean"], row["unit"])

    def show(self, scheduler: str, job: str | None, metric: str, **at: Any) -> str:
        """Return a metric's mean with its unit and its 95 % interval."""
        row = self._row(scheduler, job, metric, at)
        return figures.quantity(row["mean"], row["unit"], row["ci95"])

    def tail(
        self, scheduler: str, job: str | None, percentile: str, maximum: str, **at: Any
    ) -> str:
        """Return show() of the metric `percentile`, or of `maximum` with the words "at most".

        Results lack a percentile if the job completed too few requests for it.
        """
        try:
            return self.show(scheduler, job, percentile, **at)
        except FigureError:
            return f"{self.show(scheduler, job, maximum, **at)} at most"

    def ratio(self, scheduler: str, to: str, job: str | None, metric: str, **at: Any) -> float:
        """Return the mean under `scheduler`, divided by the mean under the scheduler `to`.

        If `to` is "alone", divide by the mean of the job when it runs alone, under `none`. The
        point of that row has no tunables of `scheduler` (SCHEDULER.TUNABLE), so ignore those in
        `at` when looking for the row.
        """
        of = at
        if to == "alone":
            own = f"{scheduler}."
            of = {key: value for key, value in at.items() if not key.startswith(own)}
            of["alone"] = True
        by = "none" if to == "alone" else to
        below = self._row(by, job, metric, of)["mean"]
        mean = self._row(scheduler, job, metric, at)["mean"]
        return float(mean / below)

    def more(self, scheduler: str, to: str, job: str | None, metric: str, **at: Any) -> str:
        """Return how much more the mean is under `scheduler` than under `to`, with its unit."""
        row = self._row(scheduler, job, metric, at)
        below = self._row(to, job, metric, at)
        return figures.quantity(row["mean"] - below["mean"], row["unit"])

    def out_of_date(self, scheduler: str, rows: Sequence[Row]) -> Iterator[str]:
        """Yield a message for each of a scheduler's figures that a later run contradicts or lacks.

        `rows` are the later run's rows. A row contradicts a figure if the two intervals do not
        overlap and the two means differ by more than a tenth. Also yield a message if this result
        has no figure of the scheduler.
        """
        of_scheduler = [own for own in self.rows if own["scheduler"] == scheduler]
        if not of_scheduler:
            yield f"there is no figure of {scheduler}"
        for own in of_scheduler:
            figure = f"{own['job']}'s {own['metric']} under {scheduler}"
            row = next((row for row in rows if all(row[k] == own[k] for k in _IDENTITY)), None)
            if row is None:
                yield f"{figure} was not measured"
                continue
            low, high = own["ci95"] or [own["mean"]] * 2
            least, most = row["ci95"] or [row["mean"]] * 2
            apart = high < least or most < low
            if apart and abs(own["mean"] / row["mean"] - 1) > _A_TENTH:
                yield (
                    f"{figure} is {figures.quantity(row['mean'], row['unit'], row['ci95'])}, not "
                    f"{figures.quantity(own['mean'], own['unit'], own['ci95'])}"
                )

    def times(self, *arguments: Any, **at: Any) -> str:
        """Call ratio() with the same arguments; return its result as text, such as `3.16 ×`."""
        return f"{figures.digits(self.ratio(*arguments, **at))}{figures.SPACE}×"

    def tail_times(
        self, scheduler: str, job: str | None, percentile: str, maximum: str, **at: Any
    ) -> str:
        """Return tail() as a multiple of its value when the job runs alone, such as `3.16 ×`.

        With the metric `maximum`, the words "at most" follow.
        """
        try:
            return self.times(scheduler, "alone", job, percentile, **at)
        except FigureError:
            return f"{self.times(scheduler, 'alone', job, maximum, **at)} at most"

    def share(self, *arguments: Any, **at: Any) -> str:
        """Call ratio() with the same arguments; return its result in percent, such as `97.5 %`."""
        return f"{figures.digits(100 * self.ratio(*arguments, **at))}{figures.SPACE}%"


class Figures:
    """The result files and the documents of one repository."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self.folder = root / "docs/figures"

    def documents(self) -> list[Path]:
        """Return the documents that may have figures."""
        folders = ("", "docs", "drives", "kernel", "packaging", "tests")
        found = {path for name in folders for path in (self._root / name).glob("*.md")}
        return sorted(found | set((self._root / "kernel").glob("*/*.md")))

    def result(self, name: str) -> Result:
        """Read a result file."""
        path = self.folder / f"{name}.json"
        try:
            given = json.loads(path.read_text())
            if "measured" in given:
                when = given["measured"]
                text = f"{when['date']}, commit {when['commit']}"
                if "kernel" in when:  # only if the command boots a kernel
                    text += f", kernel {when['kernel']}"
            else:
                when = given["transcribed"]
                text = (
                    f"transcribed from {when['document']} of commit {when['commit']}; "
                    "not measured again"
                )
            commands = given["command"]
            return Result(
                [commands] if isinstance(commands, str) else commands,
                text,
                given.get("rows", []),
                given.get("table", []),
                given.get("pictures", {}),
            )
        except (OSError, ValueError, KeyError) as error:
            raise FigureError(f"{path}: {error!r}") from error

    def text(self, name: str) -> tuple[str, list[str]]:
        """Return a block's text, and the names of the result files whose figures it shows."""
        template = self.folder / f"{name}.jinja"
        used: dict[str, Result] = {}

        def result(of: str) -> Result:
            return used.setdefault(of, self.result(of))

        if template.exists():
            made = jinja2.Environment(
                undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True
            ).from_string(template.read_text())
            text = made.render(result=result).strip("\n")
        else:
            text = "\n".join(_table(result(name).table))
        if not text or not used:
            raise FigureError(f"{name}: a block without a table or a result file")
        by = "; ".join(
            f"{', '.join(f'`{command}`' for command in of.commands)} ({of.when})"
            for of in used.values()
        )
        return f"{text}\n\n<small>Measured by {by}.</small>\n", list(used)

    def written(self, document: Path) -> tuple[str, set[str]]:
        """Return a document's text with its blocks filled in, and the names of their result files.

        The document itself stays as it is.
        """
        used: set[str] = set()

        def block(found: re.Match[str]) -> str:
            text, names = self.text(found["name"])
            used.update(names)
            return f"<!-- figures: {found['name']} -->\n{text}<!-- end of figures -->"

        given = document.read_text()
        text, count = _BLOCK.subn(block, given)
        if len(_MARK.findall(given)) != 2 * count:
            raise FigureError(f"{document.name}: a block of figures without its begin or its end")
        return text, used

    def write(self) -> list[Path]:
        """Write each document whose figures changed; return these documents."""
        changed = []
        for document in self.documents():
            text, _ = self.written(document)
            if text != document.read_text():
                document.write_text(text)
                changed.append(document)
        return changed

    def problems(self) -> Iterator[str]:
        """Yield a message for each document, table, result file or picture with a fault.

        Each block must have the text that text() returns. A table with intervals must be in a
        block. Each result file must be in some document. Each picture must be the one that was
        taken with the figures of its result file.
        """
        shown: set[str] = set()
        for document in self.documents():
            name = document.relative_to(self._root)
            text, used = self.written(document)
            shown |= used
            if text != document.read_text():
                yield f"{name} differs from docs/figures: run `make figures`"
            for line in _BLOCK.sub("", document.read_text()).splitlines():
                if line.startswith("|") and _INTERVAL.search(line):
                    yield f"{name}: a table has intervals and no result file: {line[:60]} …"
        for path in sorted(self.folder.glob("*.json")):
            if path.stem not in shown:
                yield f"no document shows {path.relative_to(self._root)}"
            for picture, taken in self.result(path.stem).pictures.items():
                if _sha256(self._root / picture) != taken:
                    yield f"{picture} is not the one that was taken with {path.name}"

    def keep(self, name: str, out: Path, command: Sequence[str], commit: str) -> None:
        """Write the result file `name` from `command`'s results in `out`; renew its pictures."""
        summary = json.loads((out / "summary.json").read_text())
        wanted = self._metrics(name)
        rows = [
            {key: row[key] for key in ("scheduler", "point", "job", "metric", "unit", "mean")}
            | {key: row[key] for key in ("ci95", "n")}
            for row in summary["rows"]
            if row["metric"] in wanted
        ]
        when = {
            "date": _today(),
            "commit": commit,
            "kernel": summary["kernel"],
        }
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        path = self.folder / f"{name}.json"
        pictures = self.result(name).pictures if path.exists() else {}
        for picture in pictures:
            _photograph(out / "report.html", self._root / picture)
            pictures[picture] = _sha256(self._root / picture)
        given = {"command": shlex.join(command), "measured": when, "pictures": pictures}
        head = json.dumps({"SPDX-License-Identifier": "GPL-2.0-only"} | given, indent=1)
        path.write_text(f'{head.removesuffix("}").rstrip()},\n "rows": [\n{lines}\n]}}\n')

    def keep_rows(self, name: str, rows: list[list[str]], commit: str) -> None:
        """Replace the table of the result file `name` by its headings and the new `rows`."""
        path = self.folder / f"{name}.json"
        given = json.loads(path.read_text())
        given.pop("transcribed", None)
        given["measured"] = {"date": _today(), "commit": commit}
        table = ",\n".join(
            json.dumps(row, ensure_ascii=False) for row in [given.pop("table")[0], *rows]
        )
        head = json.dumps(given, indent=1, ensure_ascii=False).removesuffix("}").rstrip()
        path.write_text(f'{head},\n "table": [\n{table}\n]}}\n')

    def _metrics(self, name: str) -> set[str]:
        """Return all quoted words in the templates that use the result file `name`.

        The metrics that the templates show are among these words.
        """
        texts = [path.read_text() for path in self.folder.glob("*.jinja")]
        return {
            word
            for text in texts
            if f'result("{name}")' in text
            for word in re.findall(r'"(\w+)"', text)
        }

    def _git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self._root, check=True, capture_output=True, text=True
        )
        return done.stdout

    def measure(self, name: str, command: Sequence[str]) -> None:
        """Run `command` and write its figures to the result file `name`.

        If `command` is empty, run the command that the result file names.
        """
        commands = [shlex.join(command)] if command else self.result(name).commands
        if len(commands) > 1:
            raise FigureError(
                f"{name} joins the tables of {len(commands)} commands: give measure one command,"
                " and join what it prints by hand"
            )
        words = shlex.split(commands[0])
        matrix = words[:2] == ["./triage", "matrix"]
        if words[0] != "make" and words[:2] != ["./triage", "run"] and not matrix:
            raise FigureError(
                f"{shlex.join(words)}: only ./triage run, ./triage matrix and make can be measured"
            )
        if changed := self._git("status", "--porcelain", "kernel", "lab", "experiments", "drives"):
            raise FigureError(f"commit first, as a result file names its commit:\n{changed}")
        commit = self._git("rev-parse", "--short", "HEAD").strip()
        if words[0] == "make":
            self.keep_rows(name, printed(words, self._root), commit)
            return
        out = self._root / "build/figures" / name
        done = subprocess.run([*words, "--out", str(out)], cwd=self._root)
        # ./triage matrix exits with 1 if a check failed. Its table shows the failure, so keep it.
        if done.returncode not in ((0, 1) if matrix else (0,)):
            raise FigureError(f"{shlex.join(words)} ended with {done.returncode}")
        if matrix:
            self.keep_rows(name, kernels(out / "matrix.json"), commit)
        else:
            self.keep(name, out, words, commit)


def printed(words: Sequence[str], folder: Path) -> list[list[str]]:
    """Run a command that prints rows of a Markdown table; return their cells."""
    done = subprocess.run(
        [words[0], "--no-print-directory", *words[1:]],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    if not lines:
        raise FigureError(f"{shlex.join(words)} printed no row of a table")
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


def kernels(matrix: Path) -> list[list[str]]:
    """Return the rows of a table, one for each kernel, from the matrix.json of ./triage matrix."""
    rows = []
    for kernel in json.loads(matrix.read_text())["kernels"]:
        builds = [
            f"{'no warning' if build['result'] == 'pass' else 'failed'}, "
            f"{build['processor_s']:.0f}{figures.SPACE}s"
            for build in (kernel["builds"]["gcc"], kernel["builds"]["clang"])
        ]
        verified = kernel["checks"]
        by = {
            result: [
                check["check"]
                for check in (verified["checks"] if verified else [])
                if check["result"] == result
            ]
            for result in ("pass", "skip", "fail")
        }
        failed = ", ".join(f"`{name}`" for name in dict.fromkeys(by["fail"]))
        rows.append(
            [
                kernel["kernel"],
                *builds,
                str(len(by["pass"])),
                str(len(by["skip"])),
                f"{len(by['fail'])}{failed and ': '}{failed}",
                f"{verified['processor_s']:.0f}{figures.SPACE}s" if verified else "not run",
            ]
        )
    return rows


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _photograph(page: Path, picture: Path) -> None:
    """Save a picture of the top of the page `page` to the file `picture`."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise FigureError(f"{picture.name} is taken by a browser: install chromium")
    # Scripts in the page draw the charts. The virtual time gives them 5 s before the picture.
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    words += ["--window-size=1000,990", "--virtual-time-budget=5000"]
    words += [f"--screenshot={picture.resolve()}", page.resolve().as_uri()]
    subprocess.run([browser, *words], check=True, capture_output=True)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _table(cells: list[list[str]]) -> Iterator[str]:
    for number, row in enumerate(cells):
        yield f"| {' | '.join(row)} |".replace("|  |", "| |")
        if number == 0:
            yield "|" + "---|" * len(row)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="the figures of the documents")
    parser.add_argument("action", choices=("check", "write", "measure"))
    parser.add_argument("name", nargs="?", help="of a result file, for measure")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="./triage run …")
    given = parser.parse_args(arguments)
    all_figures = Figures()
    try:
        if given.action == "measure":
            if not given.name:
                parser.error("measure needs the NAME of a result file")
            all_figures.measure(given.name, given.command)
        if given.action != "check":
            for path in all_figures.write():
                print(f"{path.relative_to(ROOT)} is written anew")
        if problems := list(all_figures.problems()):
            print("\n".join(problems), file=sys.stderr)
            return 1
    except (FigureError, jinja2.TemplateError) as error:
        print(f"figures: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
