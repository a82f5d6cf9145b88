# SPDX-License-Identifier: GPL-2.0-only
"""Tests of run records that are damaged, and of errors after a request to stop."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from triagelab.base import files
from triagelab.base.errors import LabError
from triagelab.run import execute, records


def folder(at: Path, record: str) -> Path:
    """Write a run's record into its folder; return the folder."""
    (at / "run.json").write_text(record)
    return at


@pytest.mark.parametrize(
    ("record", "done"),
    [('{"status": "done"}', True), ('{"status": "failed"}', False), ("{}", False)],
)
def test_a_run_is_done_that_says_so(tmp_path: Path, record: str, done: bool) -> None:
    assert records.is_done(folder(tmp_path, record)) == done


@pytest.mark.parametrize("record", ["", '{"status": "do', "[]", '{"status": ' + "9" * 5000 + "}"])
def test_a_damaged_record_is_named_with_what_to_do(tmp_path: Path, record: str) -> None:
    with pytest.raises(LabError, match=r"run\.json: .* Delete the run's folder and use --resume"):
        records.is_done(folder(tmp_path, record))


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text("before")
    told = pytest.raises(LabError, match=r"cannot write .*summary\.json: No space left on device")
    with told, files.whole(path) as scratch:
        scratch.write_text("hal")
        Path("/dev/full").write_text("f")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path], "a file was left beside it"


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("asked", [False, True])
def test_an_error_after_a_request_to_stop_follows_from_it(grouped: bool, asked: bool) -> None:
    async def compile_it() -> None:
        if asked:
            os.kill(os.getpid(), signal.SIGINT)
        raise LabError("compiling failed")

    async def everything() -> None:
        if not grouped:
            await compile_it()
        async with asyncio.TaskGroup() as group:
            group.create_task(compile_it())
            group.create_task(asyncio.sleep(60))

    with pytest.raises(execute.StoppedError if asked else LabError):
        execute.interruptible(everything)
