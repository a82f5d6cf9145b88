# SPDX-License-Identifier: GPL-2.0-only
"""Test the oldest Python that triagectl supports: documents name it, and the code needs none newer.

Python's own parser checks the grammar; mypy's tables of the standard library check names,
arguments and types. Neither notices a module that behaves differently in an older Python. The last
test notices this in the code that it runs, if the oldest Python is installed.
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from triagectl import PYTHON

ROOT = Path(__file__).resolve().parents[2]
#: All Python code for an operator's machine: triagectl, and scripts that build the module.
FOLDERS = ("triagectl", "packaging", "kernel")
NAME = ".".join(map(str, PYTHON))


def files() -> list[Path]:
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [*found, ROOT / "triagectl/triagectl"]


def grammar_is_old(text: str) -> bool:
    try:
        ast.parse(text, feature_version=PYTHON)
    except SyntaxError:
        return False
    return True


def library_says(*paths: Path, cache: Path) -> str:
    options = ["--python-version", NAME, "--cache-dir", str(cache), *map(str, paths)]
    command = [sys.executable, "-m", "mypy", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def test_no_grammar_is_newer() -> None:
    assert len(files()) > 30
    assert [str(path) for path in files() if not grammar_is_old(path.read_text())] == []


def test_nothing_of_the_library_is_newer(tmp_path: Path) -> None:
    seeds = {
        "import tomllib": "tomllib",
        "import datetime; datetime.UTC": "UTC",
        "import enum; enum.StrEnum": "StrEnum",
        "import itertools; itertools.batched": "batched",
        "from typing import Self": "Self",
        "import os; os.process_cpu_count()": "process_cpu_count",
    }
    seeded = tmp_path / "seeded.py"
    seeded.write_text("\n".join(seeds))
    code = [path for path in files() if path.suffix]
    said = library_says(seeded, *code, cache=tmp_path / "cache").splitlines()
    for line, word in enumerate(seeds.values(), 1):
        assert any(one.startswith(f"{seeded}:{line}:") and word in one for one in said), word
    assert [one for one in said if "error:" in one and not one.startswith(str(seeded))] == []


@pytest.mark.parametrize(
    "text", ["try:\n    x\nexcept* OSError:\n    pass\n", "type A = int\n", "def f[T](x: T): ...\n"]
)
def test_newer_grammar_is_found(text: str) -> None:
    assert not grammar_is_old(text)


def test_documents_and_tools_name_it() -> None:
    assert f"needs Python {NAME} or newer" in (ROOT / "docs/triagectl.md").read_text()
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    expected = {f"{folder}/*": f"py{NAME.replace('.', '')}" for folder in FOLDERS}
    assert ruff["per-file-target-version"] == expected


def python(*versions: str) -> Path:
    for version in versions:
        # A python in PATH may be a script of pyenv's (a shim), which may refuse to run.
        installed = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
        found = shutil.which(f"python{version}")
        if installed or (found and "/shims/" not in found):
            return installed[-1] if installed else Path(str(found))
    pytest.skip(f"no Python {' or '.join(versions)} here")


def test_an_older_python_is_told() -> None:
    old = python("3.9", "3.8", "3.7", "3.6")
    launcher = ROOT / "triagectl/triagectl"
    done = subprocess.run([old, "-B", "-I", launcher, "--help"], capture_output=True, text=True)
    assert done.returncode == 1
    assert re.fullmatch(rf"triagectl: Python {NAME} or newer is needed, .*3\.\d\n", done.stderr)


_ALL = """
import importlib, pkgutil, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import triagectl
for module in pkgutil.iter_modules(triagectl.__path__):
    importlib.import_module("triagectl." + module.name)
from tests.triagectl import pages
from tests.triagectl.machine import Machine
from triagectl import command, ringbuffer, wayback
machine = Machine(Path(tempfile.mkdtemp(dir=sys.argv[2])) / "root")
disk = machine.disk(fifo_batch=16)
machine.file("etc/udev/rules.d/60-x.rules", 'KERNEL=="sd*", ATTR{queue/scheduler}="mq-deadline"')
report = str(machine.root / "report")
for words in (["status"], ["status", "--json"], ["status", "--record"], ["doctor", "-o", report]):
    assert command.main(words, machine.system) == 0, words
wayback.start_keeper = lambda *_: None
with wayback.kept(machine.system, disk, "mq-deadline", 60):
    machine.file("sys/block/sda/queue/iosched/fifo_batch", "99")
assert disk.tunables == {"fifo_batch": "16"}
layout = ringbuffer.layout("issue", pages.FORMAT.format(id=7), ("common_pid", "sector"))
into = []
page = pages.page(1000, [pages.event(7, 3, 1, 2, b"fio", delta=5)])
ringbuffer.decode(page, ringbuffer.header(pages.HEADER), {7: layout}, into)
assert into == [(1005, "issue", 3, 2)]
print(triagectl.PYTHON)
"""


def test_the_oldest_python_runs_it(tmp_path: Path) -> None:
    oldest = python(NAME)
    done = subprocess.run(
        [oldest, "-B", "-I", "-W", "error", "-c", _ALL, ROOT, tmp_path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"{PYTHON}\n")
