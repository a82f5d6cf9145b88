# SPDX-License-Identifier: GPL-2.0-only
"""Tests of a cluster: workers get the runs' files, and an error names libraries that differ.

test_study_runs.py runs whole studies on a cluster.
"""

import asyncio
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from triagelab.plan.plan import Run
from triagelab.run import cluster


def test_each_of_two_has_its_files_on_workers_that_join_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that joins later gets the files of both runs.

    When both runs are over, Dask has none of the lab's plugins left.
    """
    from distributed import LocalCluster, Worker

    def order(run: Any, parcels: dict[str, bytes]) -> None:
        (tmp_path / run.id).write_text(run.id)
        parcels.update([cluster._packed(tmp_path / run.id)])

    def shipped() -> set[str]:
        return {path.name for path in (tmp_path / "cache/shipped").glob("*/*")}

    async def both() -> None:
        async with (
            LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=0, processes=False, dashboard_address=None, asynchronous=True
            ) as there,
            contextlib.AsyncExitStack() as joined,
        ):
            ship = cluster.executor(there.scheduler_address)
            one, other = (cast(Run, SimpleNamespace(id=name)) for name in ("one", "other"))
            async with ship([one]), ship([other]):
                assert not shipped()
                worker = await joined.enter_async_context(Worker(there.scheduler_address))
                assert shipped() == {"one", "other"}
            kept = [*there.scheduler.worker_plugins, *worker.plugins]
            assert not [name for name in kept if "triage" in name]

    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cluster, "_order", order)
    asyncio.run(both())


def test_a_worker_with_another_library_is_told_which() -> None:
    here = {"qemu": "QEMU 7", "files": ["libglib.so 1", "libc.so 2"], "command": ["env", "qemu"]}
    there = here | {"files": ["libglib.so 9", "libc.so 2"]}
    assert cluster._differences(here, there) == "libglib.so"
    assert cluster._differences(here, here | {"qemu": "QEMU 8"}) == "QEMU 7 and QEMU 8"
