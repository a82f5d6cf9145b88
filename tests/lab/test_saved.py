# SPDX-License-Identifier: GPL-2.0-only
"""Tests of saving and restoring a machine's state. A script replaces QEMU, and can fail."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest
from triagelab.base import cache
from triagelab.base.errors import LabError
from triagelab.run import saved

#: The script in place of QEMU. It answers every QMP command; environment variables make it fail.
QEMU = """\
import json, os, sys, time
print('{"QMP": {}}', flush=True)
for line in sys.stdin:
    command = json.loads(line)["execute"]
    refused = os.environ.get("REFUSES") == command
    print('{"error": {"desc": "not today"}}' if refused else '{"return": {}}', flush=True)
    if command == "cont":
        match os.environ.get("BOOT"):
            case "dies":
                sys.exit("no memory")
            case "hangs":
                time.sleep(1000)
        print('{"event": "RESUME"}\\n{"event": "STOP"}', flush=True)
    if command in ("migrate", "migrate-incoming"):
        print('{"event": "MIGRATION", "data": {"status": "active"}}')
        status = os.environ.get("MIGRATION", "completed")
        print(json.dumps({"event": "MIGRATION", "data": {"status": status}}), flush=True)
"""


def save(folder: Path, limit_s: float = 300.0, **befalls: str) -> str | None:
    (folder / "qemu.py").write_text(QEMU)
    settings = [f"{name}={value}" for name, value in befalls.items()]
    command = ["env", *settings, "python3", str(folder / "qemu.py")]
    return asyncio.run(saved.save(command, folder / "state", limit_s=limit_s))


def left(folder: Path) -> list[str]:
    """Return the ids of the processes that still run the script in place of QEMU."""
    marker = str(folder / "qemu.py").encode()
    return [p.parent.name for p in Path("/proc").glob("[0-9]*/cmdline") if marker in _bytes(p)]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_state_that_is_written_is_no_complaint(tmp_path: Path) -> None:
    assert save(tmp_path) is None
    assert not left(tmp_path)


def test_a_machine_that_ends_before_it_holds_has_said_why(tmp_path: Path) -> None:
    assert save(tmp_path, BOOT="dies") == "no memory"


def test_a_machine_that_never_holds_is_ended(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        save(tmp_path, limit_s=3.0, BOOT="hangs")
    assert not left(tmp_path)


def test_a_state_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"cannot be written to .*/state; is there room"):
        save(tmp_path, MIGRATION="failed")
    assert not left(tmp_path)


def test_what_qemu_refuses_is_told(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="QEMU refuses migrate: not today"):
        save(tmp_path, REFUSES="migrate")
    assert not left(tmp_path)


def test_a_state_that_cannot_be_read_is_made_again_by_who_does_as_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "qemu.py").write_text(QEMU)
    made = []

    def make(folder: Path) -> None:
        (folder / "state").touch()
        made.append(folder)

    async def go_on(state: Path) -> None:
        qemu = await asyncio.create_subprocess_exec(
            *("env", "MIGRATION=failed", "python3", str(tmp_path / "qemu.py")),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            await saved.go_on(qemu, state)
        finally:
            qemu.kill()
            await qemu.wait()

    state = cache.made("booted/key", make) / "state"
    with pytest.raises(LabError, match=f"no machine goes on from {state}") as error:
        asyncio.run(go_on(state))
    said = re.search(r"remove (\S+),", str(error.value))
    assert said
    shutil.rmtree(said[1])
    assert (cache.made("booted/key", make) / "state").exists()
    assert len(made) == 2
