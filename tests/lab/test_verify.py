# SPDX-License-Identifier: GPL-2.0-only
"""Tests of checks: the head of a check's script, the guests that run it, and their results."""

import asyncio
import contextlib
import subprocess
from pathlib import Path

import pytest
from triagelab.base.errors import LabError, RequestError
from triagelab.check import verify
from triagelab.plan.machine import BootError, GuestError, Job, Outcome
from triagelab.provision import kernels, modules, programs
from triagelab.run import machines

SCRIPT = """#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Guards: nothing is lost: not on the way in,
#         not on the way out.
# Needs: gatedisk
# Machine: sim
# Machine: vm 4
. "${0%/*}/lib.sh"
# Guards: this is no longer the header
"""
KERNEL = kernels.Kernel("6.12.1-test", Path("/none"), Path("/none"), None)
SIM, VM = verify.Place("sim", 1), verify.Place("vm", 4)


def check(folder: Path, name: str) -> verify.Check:
    path = folder / f"{name}.sh"
    path.write_text(SCRIPT)
    return verify.read(path)


def result(status: int | None, log: str) -> verify.Result:
    return verify.Result(verify.Check(Path("01-one.sh"), "one", (SIM,)), SIM, status, log)


def test_a_script_says_what_it_guards_and_where_it_runs(tmp_path: Path) -> None:
    found = check(tmp_path, "01-one")
    assert found.name == "01-one"
    assert found.guards == "nothing is lost: not on the way in, not on the way out."
    assert found.places == (SIM, VM)


def test_each_check_there_is_says_both() -> None:
    every = verify.checks()
    assert len(every) > 20
    assert all(check.guards and check.places for check in every)
    numbers = [check.name[:2] for check in every]
    assert len(set(numbers)) == len(numbers)


def test_each_check_is_in_the_table_of_the_readme() -> None:
    table = (verify.CHECKS / "README.md").read_text()
    assert [check.name for check in verify.checks() if f"`{check.name}`" not in table] == []


@pytest.mark.parametrize(
    ("library", "name", "status"),
    [("kernel", "fail", 1), ("kernel", "skip", 77), ("modeldisk", "fail", 1)],
)
def test_a_check_that_ends_in_a_substitution_says_why(library: str, name: str, status: int) -> None:
    text = (verify.CHECKS.parent / library / "lib.sh").read_text()
    function = text.partition(f"\n{name}() {{")[2].partition("\n}\n")[0]
    script = f"{name}() {{{function}\n}}\nx=$({name} why)\necho $x"
    done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True)
    said = f"{name.upper()}: why\n"
    assert (done.returncode, done.stdout, done.stderr) == (status, "", said)


def test_guests_have_every_check_once_in_each_of_its_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "cores", lambda: 2)
    wanted = [check(tmp_path, name) for name in ("01-a", "02-b", "03-c")]
    guests = verify.guests(KERNEL, "kyber", (), wanted, tmp_path)
    assert [(guest.place, len(guest.checks)) for guest in guests] == [(SIM, 2), (SIM, 1), (VM, 3)]
    for place in (SIM, VM):
        names = [check.name for guest in guests if guest.place == place for check in guest.checks]
        assert sorted(names) == ["01-a", "02-b", "03-c"]
    assert len({guest.folder for guest in guests}) == 3


def test_no_guest_is_for_a_place_where_the_kernel_does_not_boot(tmp_path: Path) -> None:
    path = tmp_path / "01-a.sh"
    for since, places in (("6.12", ["sim4"]), ("6.13", [])):
        path.write_text(f"# Guards: it\n# Machine: sim 4, since {since}\n")
        guests = verify.guests(KERNEL, "kyber", (), [verify.read(path)], tmp_path)
        assert [str(guest.place) for guest in guests] == places


def test_a_result_is_told_by_its_exit_status_and_its_lines() -> None:
    passed = result(0, "measured: 3 ms\nPASS\n")
    assert (passed.state, passed.reason, passed.measured) == ("pass", "", ["3 ms"])
    skipped = result(77, "SKIP: no such thing\n")
    assert (skipped.state, skipped.reason) == ("skip", "no such thing")
    failed = result(1, "\n".join(map(str, range(20))))
    assert (failed.state, failed.reason.splitlines()[0]) == ("fail", "12")
    assert result(None, "panicked").state == "fail"


def test_what_a_guest_sent_back_is_read_to_the_check_it_did_not_get_to(tmp_path: Path) -> None:
    wanted = [check(tmp_path, name) for name in ("01-a", "02-b", "03-c")]
    out = tmp_path / "out"
    out.mkdir()
    for name, status in (("01-a", "0 1.5 2.75"), ("02-b", "137 2.75 300")):
        (out / f"{name}.sh.status").write_text(status + "\n")
        (out / f"{name}.sh.log").write_text("said\n")
    first, second = verify.results_of(SIM, wanted, out)
    assert (first.state, first.seconds, first.log) == ("pass", 1.25, "said\n")
    assert second.state == "fail"
    assert "not over after" in second.log


@pytest.mark.parametrize("died_in", [1, 2])
def test_a_dead_guest_names_the_check_it_died_in(tmp_path: Path, died_in: int) -> None:
    wanted = [check(tmp_path, name) for name in ("01-a", "02-b", "03-c")]
    console = "check 01-a.sh begins\r\ncheck 01-a.sh ended 77: SKIP: no disk\r\n"
    if died_in == 2:
        console += "check 02-b.sh begins\r\ncheck 02-b.sh ended 0: \r\ncheck 03-c.sh begins\r\n"
    (tmp_path / "console.log").write_text(console + "Kernel panic\r\n")
    found = verify.results_of_a_dead_guest(SIM, wanted, tmp_path, GuestError("panicked"), 9.0)
    assert len(found) == died_in + 1
    assert (found[0].state, found[0].reason) == ("skip", "no disk")
    assert (found[-1].status, found[-1].log) == (None, "panicked")


@pytest.mark.parametrize(("names", "status"), [(("01-a",), 0), (("01-a", "02-b"), 1)])
def test_a_guest_that_dies_after_its_last_check_has_failed_it(
    tmp_path: Path, names: tuple[str, ...], status: int
) -> None:
    (tmp_path / "console.log").write_text(f"check 01-a.sh ended {status}: \r\n")
    wanted = [check(tmp_path, name) for name in names]
    (found,) = verify.results_of_a_dead_guest(SIM, wanted, tmp_path, GuestError("panicked"), 9.0)
    assert found.state == "fail"


@pytest.mark.parametrize("left", [None, "", "0 1.5"])
def test_a_guest_that_leaves_no_status_has_failed_its_first_check(
    tmp_path: Path, left: str | None
) -> None:
    wanted = [check(tmp_path, name) for name in ("01-a", "02-b")]
    out = tmp_path / "out"
    out.mkdir()
    if left is not None:
        (out / "01-a.sh.status").write_text(left)
    # Without a result, the lab would boot guests for this check without end.
    (found,) = verify.results_of(SIM, wanted, out)
    assert (found.check.name, found.state) == ("01-a", "fail")
    assert "left no word" in found.reason


@pytest.mark.parametrize(
    ("error", "told"),
    [(GuestError("panicked"), False), (LabError("no room"), True), (BootError("no"), True)],
)
def test_only_what_befalls_a_guest_is_a_checks_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: LabError, told: bool
) -> None:
    class Machine:
        async def run(self, job: Job, folder: Path) -> Outcome:
            folder.mkdir(parents=True)
            (folder / "console.log").touch()
            raise error

    monkeypatch.setattr(machines, "make", lambda *_, boots_once: Machine())
    monkeypatch.setattr(programs, "static", lambda source: source)
    wanted = [check(tmp_path, name) for name in ("01-a", "02-b")]
    (guest,) = verify.guests(KERNEL, "kyber", (), wanted, tmp_path)[-1:]
    with pytest.raises(LabError, match=str(error)) if told else contextlib.nullcontext():
        verify.run([guest])
    assert [result.state for result in guest.results] == ([] if told else ["fail", "fail"])


@pytest.mark.parametrize(
    ("places", "most"),
    [
        # The virtual CPUs of a guest in `sim` take turns on one core.
        ([verify.Place("sim", 1), verify.Place("sim", 4)], 2),
        ([verify.Place("sim", 4), verify.Place("sim", 4), verify.Place("sim", 4)], 2),
        ([verify.Place("vm", 1), verify.Place("vm", 1), verify.Place("vm", 1)], 2),
        ([verify.Place("vm", 4), verify.Place("vm", 4)], 1),
        ([verify.Place("vm", 4), verify.Place("sim", 1)], 1),
    ],
)
def test_as_many_guests_at_once_as_have_cores(
    places: list[verify.Place], most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[Path] = []
    counts: list[int] = []

    class Machine:
        async def run(self, job: Job, folder: Path) -> Outcome:
            running.append(folder)
            for _ in range(5):
                counts.append(len(running))
                await asyncio.sleep(0)
            running.remove(folder)
            (folder / "out").mkdir(parents=True)
            (folder / "out/01-a.sh.status").write_text("0 1.0 2.0")
            (folder / "out/01-a.sh.log").touch()
            return Outcome(0, folder / "out", None)

    monkeypatch.setattr(machines, "cores", lambda: 2)
    monkeypatch.setattr(machines, "make", lambda *_, boots_once: Machine())
    monkeypatch.setattr(programs, "static", lambda source: source)
    wanted = [check(tmp_path, "01-a")]
    guests = [
        verify.Guest(KERNEL, "kyber", (), place, wanted, tmp_path / str(number))
        for number, place in enumerate(places)
    ]
    assert [result.state for result in verify.run(guests)] == ["pass"] * len(places)
    assert max(counts) == most


def test_a_module_for_another_kernel_is_refused(tmp_path: Path) -> None:
    module = tmp_path / "x-iosched.ko"
    module.write_bytes(b"\x7fELF\0license=GPL\0vermagic=6.1.0-9-amd64 SMP mod_unload \0")
    with pytest.raises(RequestError, match=r"built for kernel 6\.1\.0-9-amd64, not for 6\.12\.1"):
        modules.require_built_for(module, KERNEL)
    module.write_bytes(b"hello")
    with pytest.raises(RequestError, match="not a kernel module"):
        modules.require_built_for(module, KERNEL)
