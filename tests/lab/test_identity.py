# SPDX-License-Identifier: GPL-2.0-only
"""Tests of run names: a name changes with all that determines a run, and with nothing else.

A small program replaces QEMU. It has a library, an accelerator and firmware of its own, and the
tests alter each of them.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from triagelab.ask import applications, devices, experiments
from triagelab.base import cache, tools
from triagelab.base.errors import RequestError
from triagelab.plan import plan
from triagelab.plan.machine import BootError, Job
from triagelab.provision import guest, kernels, packages, programs, toolchain
from triagelab.run import image, machines, saved

ROOT = Path(__file__).parents[2]
RELEASE = "6.12.1-test"
QEMU = """\
#include <stdio.h>
#include <string.h>
int device(void);
int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--version"))
		return printf("QEMU emulator version 0\\n") < 0;
	return printf("%s/../share/qemu\\n", FOLDER) < device();
}
"""
#: Files of QEMU and of the kernel in the fixture `world`. make() compiles or copies the others.
LISTED = {
    "lib/qemu/accel-tcg.so": "an accelerator",
    "share/qemu/bios.bin": "firmware",
    "vmlinuz": "a kernel",
    f"lib/modules/{RELEASE}/modules.dep": "bfq.ko:\n",
    f"lib/modules/{RELEASE}/modules.order": "bfq.ko\n",
    f"lib/modules/{RELEASE}/bfq.ko": "a module",
}


def make(folder: Path) -> None:
    """Make all files that a test may alter."""
    for name, text in LISTED.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    programs = folder / "bin"
    programs.mkdir()
    (folder / "device.c").write_text("int device(void) { return 0; }\n")
    (folder / "qemu.c").write_text(QEMU)
    gcc = [tools.path(tools.GCC), "-o"]
    library = folder / "lib/libdevice.so"
    subprocess.run([*gcc, library, "-shared", folder / "device.c"], check=True)
    found = f"-Wl,-rpath,{library.parent}"
    where = f'-DFOLDER="{programs}"'
    program = programs / tools.QEMU.program
    subprocess.run([*gcc, program, where, folder / "qemu.c", library, found], check=True)
    for tool in (tools.BUSYBOX, tools.FIO):
        shutil.copy(Path(tools.path(tool)).resolve(), programs / tool.program)
    shutil.copytree(guest.FILES, folder / "guest")
    shutil.copy(machines._LOCKSTEP, folder / "lockstep.c")


def names(folder: Path, change: Callable[[machines.Qemu], machines.Qemu] | None = None) -> set[str]:
    """Return the names of a small experiment's runs, on a machine made of the files in `folder`."""
    tools.qemu_version.cache_clear()
    tools.qemu_files.cache_clear()
    kernel = kernels.Kernel(RELEASE, folder / "vmlinuz", folder, None)
    machine = machines.make("sim", kernel)
    machine = change(machine) if change else machine
    setup = plan.Setup(
        experiments.find("mixed-priority"),
        ("none", "kyber"),
        1,
        [plan.Point({}, machine, devices.find("null", {}), {})],
        {},
        1,
    )
    return {run.id for run in plan.runs(setup)}


def choose(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Make the lab use the files in `folder` in place of its own."""
    patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    patch.setenv("TRIAGE_CACHE", str(folder / "cache"))
    patch.setattr(guest, "FILES", folder / "guest")
    patch.setattr(plan, "FILES", folder / "guest")
    patch.setattr(machines, "_LOCKSTEP", folder / "lockstep.c")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("world")
    make(folder)
    with pytest.MonkeyPatch.context() as patch:
        choose(folder, patch)
        yield folder
    tools.qemu_version.cache_clear()
    tools.qemu_files.cache_clear()


@pytest.fixture(scope="module")
def before(world: Path) -> set[str]:
    return names(world)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        *((name, b"\n") for name in LISTED),
        *((f"bin/{tool.program}", b"\n") for tool in (tools.QEMU, tools.BUSYBOX, tools.FIO)),
        ("lib/libdevice.so", b"\n"),
        ("lockstep.c", b"\nint more;\n"),
        ("guest/init", b"\n"),
        ("guest/measure", b"\n"),
        ("guest/sampler.c", b"\nint more;\n"),
        ("guest/from-host.c", b"\nint more;\n"),
    ],
)
def test_a_file_that_is_used_is_in_every_name(
    world: Path, before: set[str], name: str, more: bytes
) -> None:
    path = world / name
    content = path.read_bytes()
    if name.endswith("modules.dep"):
        more = b"kyber-iosched.ko:\n"
        (path.parent / "kyber-iosched.ko").write_text("another module")
    path.write_bytes(content + more)
    try:
        assert not before & names(world)
    finally:
        path.write_bytes(content)


def test_each_word_of_the_command_and_what_qemu_is_told_after_it_is_in_every_name(
    world: Path, before: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(word: str) -> set[str]:
        command = machines._command

        def shorter(*words: Any) -> list[str]:
            found = command(*words)
            assert word in found
            return [each for each in found if each != word]

        with monkeypatch.context() as patch:
            patch.setattr(machines, "_command", shorter)
            return names(world)

    for word in ("virtio-serial-pci,ioeventfd=off", "-no-reboot", "shift=0,align=off,sleep=off"):
        assert not before & without(word)
    with monkeypatch.context() as patch:
        patch.setitem(saved._PARAMETERS, "announce-rounds", 5)
        assert not before & names(world)
    assert not before & names(world, lambda of: replace(of, environment={"QEMU_AUDIO_DRV": "none"}))
    assert not before & names(world, lambda of: replace(of, arguments=("nokaslr",)))
    assert names(world) == before


def test_the_command_in_the_name_is_the_one_that_is_run(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`determines`, on which a run's name depends, has the command with which the lab starts QEMU.

    In this command, a file's hash replaces its path, and RUN replaces the path of the run's folder.
    """
    started: list[list[str]] = []

    async def run(command: list[str], *_: object) -> tuple[None, str]:
        started.append(command)
        return None, ""

    async def state(*_: object) -> Path:
        return tmp_path

    kernel = kernels.Kernel(RELEASE, world / "vmlinuz", world, None)
    machine = machines.make("sim", kernel)
    monkeypatch.setattr(machines, "_run", run)
    monkeypatch.setattr(machines.Qemu, "_saved", state)
    with pytest.raises(BootError):
        asyncio.run(machine.run(Job({"run": ""}), tmp_path / "out"))
    (command,) = started
    said = machine.determines["command"]
    lacking = command[: -len(said)]
    assert lacking == tools.with_us("KILL", []), "the name lacks words of QEMU's command"
    pairs = zip(command[-len(said) :], said, strict=True)
    other = [(run, name) for run, name in pairs if run != name]
    by_content = {
        kernel.image: f"kernel {kernel.sha256}",
        machine.base.archive: f"archive {tools.sha256(machine.base.archive)}",
        world / "bin" / tools.QEMU.program: tools.sha256(world / "bin" / tools.QEMU.program),
    }
    library = machine.environment["LD_PRELOAD"]
    assert isinstance(library, Path)
    for run_, name in other:
        if str(tmp_path) in run_:
            assert run_.replace(str(tmp_path / "out"), "RUN") == name
        elif run_.startswith("LD_PRELOAD"):
            assert (run_, name) == (f"LD_PRELOAD={library}", f"LD_PRELOAD={tools.sha256(library)}")
        else:
            assert by_content.pop(Path(run_)) == name
    assert not by_content
    assert command[command.index("env") + 1] == "-i", "nothing of our environment gets in"


def test_what_is_no_input_changes_no_name(world: Path, before: set[str], tmp_path: Path) -> None:
    """Umask, environment (locale, time zone, user, home) and cache folder change no name."""
    program = (
        "import json, sys, pytest; from pathlib import Path;"
        "from tests.lab import test_identity as t;"
        "patch = pytest.MonkeyPatch(); folder = Path(sys.argv[1]); t.choose(folder, patch);"
        "patch.setenv('TRIAGE_CACHE', sys.argv[2]);"
        "print(json.dumps(sorted(t.names(folder))))"
    )
    elsewhere = {
        "LC_ALL": "POSIX", "PYTHONUTF8": "1", "TZ": "Asia/Tokyo", "LANGUAGE": "tr",
        "USER": "somebody", "LOGNAME": "somebody", "HOME": str(tmp_path), "MALLOC_PERTURB_": "7",
        "LD_LIBRARY_PATH": str(tmp_path), "QEMU_AUDIO_DRV": "none", "PYTHONHASHSEED": "9",
        "PYTHONPATH": f"{ROOT / 'lab'}:{ROOT}",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program, str(world), str(tmp_path / "cache")],
        env=os.environ | elsewhere,
        umask=0o077,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == before


# ---- cached files -----------------------------------------------------------------


def test_a_state_is_made_again_when_the_machine_is_another(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A saved state is made again if the memory's size or lockstep.c changes."""
    saves = []

    async def save(machine: machines.Qemu, job: Job, folder: Path, state: Path) -> None:
        saves.append(job.memory_mb)
        state.touch()

    monkeypatch.setattr(machines.Qemu, "save", save)
    kernel = kernels.Kernel(RELEASE, world / "vmlinuz", world, None)

    def state(memory_mb: int = 512) -> Path:
        job = Job({}, memory_mb=memory_mb)
        return asyncio.run(machines.make("sim", kernel)._saved(job, world))

    first = state()
    assert state() == first and len(saves) == 1
    assert state(1024) != first and saves == [512, 1024]
    text = machines._LOCKSTEP.read_text()
    try:
        machines._LOCKSTEP.write_text(text + "int more;\n")
        assert state() != first and len(saves) == 3
    finally:
        machines._LOCKSTEP.write_text(text)


def test_a_program_is_compiled_again_when_a_header_of_its_is_another(
    world: Path, tmp_path: Path
) -> None:
    (tmp_path / "more.h").write_text("enum { STATUS = 1 };\n")
    source = tmp_path / "it.c"
    source.write_text('#include "more.h"\nint main(void) { return STATUS; }\n')
    assert subprocess.run([programs.static(source)]).returncode == 1
    (tmp_path / "more.h").write_text("enum { STATUS = 2 };\n")
    assert subprocess.run([programs.static(source)]).returncode == 2


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> applications.Application:
    """Return an application with a script, and with two files from its packages."""
    monkeypatch.setattr(applications, "FOLDER", tmp_path)
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "make").write_text("#!/bin/sh\n")
    for name in ("usr/bin/it", "etc/it.conf"):
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True)
        path.write_text(name)
    monkeypatch.setattr(packages, "fetched", lambda name, wanted: tmp_path / "packages")
    monkeypatch.setattr(cache, "made", lambda name, make: tmp_path / name)
    return applications.Application("made", "x", ("it",), ("usr/bin/it", "etc"), 64, 512)


def test_an_image_is_made_again_when_what_it_is_made_of_is_another(
    world: Path,
    tmp_path: Path,
    application: applications.Application,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Sim:
        determines: ClassVar[dict[str, Any]] = {"command": ["qemu"]}

    monkeypatch.setattr(machines, "make", lambda name, kernel: Sim)
    kernel = kernels.Kernel(RELEASE, world / "vmlinuz", world, None)
    seen = {image.of(application, kernel)}
    assert image.of(application, kernel) in seen

    def another(of: applications.Application = application) -> None:
        found = image.of(of, kernel)
        assert found not in seen
        seen.add(found)

    (tmp_path / "packages/etc/it.conf").write_text("another")
    another()
    (tmp_path / "packages/usr/bin/it").chmod(0o755)
    another()
    (tmp_path / "made/make").write_text("#!/bin/sh\n:\n")
    another()
    another(replace(application, image_mb=128))
    Sim.determines = {"command": ["qemu", "-icount"]}
    another()


def test_a_file_that_no_package_has_is_told(
    tmp_path: Path, application: applications.Application
) -> None:
    lacking = replace(application, files=(*application.files, "usr/bin/other"))
    with pytest.raises(RequestError, match=r"made/application.toml: files: none .* usr/bin/other"):
        list(image._root(lacking, tmp_path / "packages"))


def test_packages_are_fetched_again_for_another_list_or_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []
    monkeypatch.setattr(cache, "fetched", lambda name, make: asked.append(name))
    monkeypatch.setattr(packages, "_codename", lambda: "bookworm")
    for wanted in (["ed"], ["ed"], ["ed", "vim"]):
        packages.fetched("editor", wanted)
    monkeypatch.setattr(packages, "_codename", lambda: "trixie")
    packages.fetched("editor", ["ed"])
    assert asked[0] == asked[1]
    assert len(set(asked)) == 3


def test_a_toolchain_is_fetched_again_for_another_kernels_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fetched(name: str, make: Callable[[Path], None]) -> Path:
        asked.append(name)
        return tmp_path

    class Apt:
        release = "trixie"

    monkeypatch.setattr(cache, "fetched", fetched)
    for number, kbuild in enumerate(("linux-kbuild-6.12.1", "linux-kbuild-6.12.9")):
        root = tmp_path / str(number)
        (root / "usr/lib").mkdir(parents=True)
        toolchain.provide(Apt(), "gcc-14", kbuild, root)  # type: ignore[arg-type]
    assert len(set(asked)) == 2
