# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the lab's C programs: the lab compiles each program once.

The lab refuses a cache folder whose path has a space or a colon. The loader splits LD_PRELOAD at
both characters, so it would not find a library in such a folder, and would only warn.
"""

from pathlib import Path

import pytest
from triagelab.base.errors import LabError
from triagelab.provision import programs
from triagelab.run import machines

LOCKSTEP = Path(machines.__file__).parent / "lockstep.c"


@pytest.mark.parametrize("name", ["my cache", "my:cache"])
def test_a_cache_that_nothing_can_be_preloaded_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / name))
    with pytest.raises(LabError, match="set TRIAGE_CACHE"):
        programs.shared(LOCKSTEP)


def test_lockstep_compiles_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path))
    library = programs.shared(LOCKSTEP)
    made = library.stat().st_mtime_ns
    assert library.read_bytes().startswith(b"\x7fELF")
    assert programs.shared(LOCKSTEP).stat().st_mtime_ns == made
