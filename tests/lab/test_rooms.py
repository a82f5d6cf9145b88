# SPDX-License-Identifier: GPL-2.0-only
"""Tests that no module of the lab imports from a later folder, and that no imports form a circle.

The table in docs/lab.md has the folders in their order. Other tests check the imports of code in
strings, and look for comparisons with a machine's name.
"""

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from triagelab.base import sources
from triagelab.run import machines

LAB = sources.ROOT / "lab/triagelab"
#: The folders in the order of the table in docs/lab.md.
ORDER = re.findall(r"^\| `(\w+)/` \|", (sources.ROOT / "docs/lab.md").read_text(), re.M)


def imported(path: Path, lab: Path) -> Iterator[Path]:
    """Yield the files of the lab's modules and packages that a module imports, in functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: write the whole name of what is imported"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for package, *words in (name.split(".") for name in names):
            if package == lab.name:
                yield found(lab.joinpath(*words), lab)


def found(wanted: Path, lab: Path) -> Path:
    """Return the file of a module or package. The path may end with a name defined in that file."""
    for place in (wanted, *wanted.parents):
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.is_file() and place != lab:
                return path
        if place == lab:
            break
    raise AssertionError(f"there is no {wanted}")


def pointing_back(lab: Path) -> list[str]:
    """Return the imports from a later folder, or from the modules at the top of the lab."""
    told = []
    for path in sorted(lab.glob("*/**/*.py")):
        own = ORDER.index(path.relative_to(lab).parts[0])
        for other in imported(path, lab):
            folder = other.relative_to(lab).parts[0]
            if folder not in ORDER[: own + 1]:
                told.append(f"{path.relative_to(lab)} imports {other.relative_to(lab)}")
    return told


def test_the_table_has_every_folder() -> None:
    folders = {path.parent.name for path in LAB.glob("*/__init__.py")}
    assert len(ORDER) == len(set(ORDER)) and set(ORDER) == folders
    assert {path.name for path in LAB.glob("*.py")} == {"__init__.py", "__main__.py", "cli.py"}


def test_no_import_points_back() -> None:
    assert pointing_back(LAB) == []


def test_no_modules_import_each_other() -> None:
    graph = {path: set(imported(path, LAB)) - {path} for path in LAB.rglob("*.py")}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"in a circle: {' <- '.join(str(path) for path in error.args[1])}")


def test_a_program_in_a_text_imports_what_is_there() -> None:
    """Code in strings of tests and in the Makefile imports only names that triagelab has.

    No type checker reads this code.
    """
    imports = re.compile(r"from (triagelab[\w.]*) import ([\w, ]+)")
    for path in (sources.ROOT / "Makefile", *(sources.ROOT / "tests").rglob("*.py")):
        for module, names in imports.findall(path.read_text()):
            for name in names.split(","):
                assert has(module, name.split()[0]), f"{path}: {module} has no {name}"


def has(module: str, name: str) -> bool:
    """Return whether `name` can be imported from a module or a package."""
    folder = LAB.joinpath(*module.split(".")[1:])
    if (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file():
        return True
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return file.is_file() and name in top_level(ast.parse(file.read_text()))


def top_level(tree: ast.Module) -> Iterator[str]:
    """Yield the names that the top-level statements of a module define or use."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        else:
            yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


@pytest.mark.parametrize(
    ("module", "name", "there"),
    [
        ("triagelab.provision", "kernels", True),
        ("triagelab.provision.kernels", "DEFAULT_SERIES", True),
        ("triagelab.run", "kernels", False),
        ("triagelab.provision.kernels", "NoSuchName", False),
        ("triagelab.provisions", "kernels", False),
    ],
)
def test_a_wrong_import_in_a_text_is_found(module: str, name: str, there: bool) -> None:
    assert has(module, name) == there


@pytest.mark.parametrize(
    "line",
    [
        "from triagelab.run import machines",
        "from triagelab.run.machines import Qemu",
        "import triagelab.run.machines",
        "def late() -> None:\n    from triagelab.run import machines",
        "from triagelab import cli",
    ],
)
def test_an_import_that_points_back_is_found(tmp_path: Path, line: str) -> None:
    lab = tmp_path / "triagelab"
    for name in ("cli.py", "ask/__init__.py", "run/__init__.py", "run/machines.py"):
        (lab / name).parent.mkdir(parents=True, exist_ok=True)
        (lab / name).write_text("Qemu = 1\n")
    (lab / "ask/fiofile.py").write_text(f"import re\n{line}\n")
    (told,) = pointing_back(lab)
    assert told.startswith("ask/fiofile.py imports ")
    (lab / "ask/fiofile.py").rename(lab / "run/fiofile.py")
    assert len(pointing_back(lab)) == line.count("cli")


def names_compared(path: Path) -> list[str]:
    """Return the lines of a module that compare a value with a machine's name."""
    told = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            texts = {of.value for of in ast.walk(node) if isinstance(of, ast.Constant)}
            if texts & machines.KINDS.keys():
                told.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    return told


def test_a_machine_is_known_by_its_properties() -> None:
    """No module compares a value with a machine's name: a new machine needs only a KINDS entry."""
    assert [told for path in LAB.rglob("*.py") for told in names_compared(path)] == []


@pytest.mark.parametrize("line", ['a != "sim"', 'a in ("host", "vm")', 'b if a == "vm" else c'])
def test_a_comparison_with_a_machines_name_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.py").write_text(line)
    assert names_compared(tmp_path / "a.py")
