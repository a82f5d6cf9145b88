# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the modules' source: unit tests, compiler warnings, seeded bugs, builds."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from triagelab.base import sources, tools
from triagelab.base.errors import LabError
from triagelab.provision import kernels, modules

from tests.kernel import bugs

MODEL = sources.MODULES.parent / "tests/proof/core.pml"


def test_what_is_free_of_kernel_calls(tmp_path: Path) -> None:
    tools.require([tools.GCC, tools.MAKE])
    command = ["make", "-C", str(sources.MODULES), "unit", f"O={tmp_path}", "CC=gcc-12"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_function_of_a_unit_test_runs_alone(tmp_path: Path) -> None:
    tools.require([tools.GCC, tools.MAKE])
    command = ["make", "-s", "-C", str(sources.MODULES), "unit", f"O={tmp_path}", "CC=gcc-12"]
    command.append("TEST=test_triage_limit")
    assert tools.call([*command, "ONLY=test_idle"]) == "test_idle\n"
    done = subprocess.run([*command, "ONLY=test_id"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "there is no test function test_id\n" in done.stderr


@pytest.mark.parametrize("series", kernels.SERIES)
def test_no_warning_from_compiler_sparse_or_checkpatch(series: str) -> None:
    said = modules.check(kernels.find(series), style=series == kernels.DEFAULT_SERIES)
    assert "skipped" not in said


def test_each_seeded_bug_applies(tmp_path: Path) -> None:
    tools.require([bugs.PATCH])
    shutil.copytree(sources.MODULES, tmp_path / "kernel")
    for bug in bugs.seeded():
        bugs.put(bug, tmp_path / "kernel")
        shutil.copyfile(sources.MODULES / bug.file, tmp_path / "kernel" / bug.file)


def test_no_seeded_bug_needs_no_build(tmp_path: Path) -> None:
    nothing: list[bugs.Bug] = []
    kernel = kernels.Kernel("6.12.1-none", tmp_path, tmp_path, None)
    assert bugs.build(kernel, nothing, tmp_path / "out") == {}
    assert not (tmp_path / "out").exists()


def test_the_table_of_seeded_bugs_is_that_of_their_patches() -> None:
    assert bugs.TABLE.read_text().endswith(f"\n\n{bugs.table()}"), "run -m tests.kernel.bugs"


def test_the_table_names_flaws_that_the_model_has() -> None:
    flaws = set(re.findall(r"FLAW_(\w+)", MODEL.read_text()))
    named = [also.removeprefix("model ") for also in bugs.said("Also").values() if also != "storm"]
    assert named
    assert set(named) <= flaws


def test_yield_points_leave_nothing_in_the_product(tmp_path: Path) -> None:
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    without = tmp_path / "kernel"
    for name in ("compat", "include", "triage"):
        shutil.copytree(sources.MODULES / name, without / name)
    for name in ("Kbuild", "Makefile"):
        shutil.copy(sources.MODULES / name, without / name)
    places = 0
    for path in (without / "triage").glob("*.[ch]"):
        # Keep the line numbers: the module contains those of its WARN_ON().
        text, count = re.subn(r"\byield_point\(\);", ";", path.read_text())
        path.write_text(text.replace('#include "yield.h"', ""))
        places += count
    assert places > 5
    module = "triage-iosched.ko"
    product = (modules.build(kernel) / module).read_bytes()
    stripped = (modules.build(kernel, without, tmp_path / "out") / module).read_bytes()
    # A module with a version also contains a hash of its sources, and the sources differ.
    of_sources = re.compile(rb"srcversion=[0-9A-F]+")
    assert of_sources.sub(b"", stripped) == of_sources.sub(b"", product)
    assert b"storm_yield" not in product
    assert b"storm_yield" in (modules.build(kernel, storm=True) / module).read_bytes()


def test_the_default_of_exchange_is_the_same_everywhere() -> None:
    """The default is in tunables.c; documents, simulations and unit tests have copies."""
    root = sources.MODULES.parent
    places = {
        "kernel/triage/tunables.c": r"\.exchange = (\d+),",
        "kernel/Makefile": r"\$\(or \$\(EXCHANGE\),(\d+)\)",
        "tests/kernel-unit/test_triage_drives.c": r"#define EXCHANGE (\d+)",
        "tests/kernel-unit/test_triage_knee.c": r"#define EXCHANGE (\d+)",
        "docs/triage.md": r"`exchange` (?:is the price, |\| % \| |\| )(\d+)",
    }
    found = {
        name: set(re.findall(pattern, (root / name).read_text()))
        for name, pattern in places.items()
    }
    (default,) = found["kernel/triage/tunables.c"]
    assert found == {name: {default} for name in places}


def test_a_kernel_without_headers_is_told_what_to_install(tmp_path: Path) -> None:
    kernel = kernels.Kernel("6.12.1-none", tmp_path, tmp_path, None)
    with pytest.raises(LabError, match=r"apt-get install linux-headers-6\.12\.1-none"):
        modules.build(kernel)


def test_a_kernel_without_btf_is_told_so(tmp_path: Path) -> None:
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    bare = tmp_path / "vmlinux"
    bare.write_bytes(b"\x7fELF" + bytes(4096))
    arguments = [f"KDIR={kernel.headers}", f"VMLINUX={bare}", f"O={tmp_path / 'out'}"]
    done = subprocess.run(
        ["make", "-C", str(sources.MODULES), *arguments], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "BTF" in done.stderr + done.stdout


@pytest.mark.parametrize("series", kernels.SERIES)
def test_what_is_built_goes_to_a_folder_called_as_uname_says(series: str) -> None:
    kernel = kernels.find(series)
    command = ["make", "-n", "-C", str(sources.MODULES), "headers", f"KDIR={kernel.headers}"]
    assert f"build/{kernel.release}/generated" in tools.call(command)


def test_a_boot_image_describes_the_same_kernel_as_what_it_holds(tmp_path: Path) -> None:
    kernel = kernels.find("6.1")
    generated = {}
    for vmlinux in (kernel.image, kernel.elf):
        folder = tmp_path / vmlinux.name
        arguments = [f"KDIR={kernel.headers}", f"VMLINUX={vmlinux}", f"O={folder}"]
        tools.call(["make", "-C", str(sources.MODULES), "headers", *arguments])
        generated[vmlinux] = {path.name: path.read_text() for path in folder.rglob("*.h")}
    assert sorted(generated[kernel.image]) == ["features.h", "private.h"]
    assert generated[kernel.image] == generated[kernel.elf]


def test_a_path_with_a_space_is_told_so(tmp_path: Path) -> None:
    headers = tmp_path / "my headers"
    headers.mkdir()
    with pytest.raises(LabError, match="path has a space"):
        modules.build(kernels.Kernel("6.12.1-none", tmp_path, tmp_path, headers))
