# SPDX-License-Identifier: GPL-2.0-only
"""Carry out runs on the workers of a Dask cluster, which may be other computers.

The lab sends all inputs of the runs to every worker, each file once: the kernel, the guest's
archive, the jobs' files and modules. A worker keeps these files in its cache folder, by their
hashes. A worker needs cpio, and the same versions of this package and of QEMU as this computer. It
returns a run's results as an archive. If a worker dies, another worker gets its run. The lab writes
run.json only when a result is complete.
"""

import asyncio
import contextlib
import functools
import hashlib
import io
import shutil
import socket
import tarfile
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from distributed import Client, KilledWorker, WorkerPlugin
from distributed.client import FutureCancelledError

from triagelab.base import cache, tools
from triagelab.base.errors import LabError, RequestError
from triagelab.plan.machine import BootError
from triagelab.plan.plan import Run
from triagelab.provision.guest import Base
from triagelab.run import execute
from triagelab.run.machines import Qemu

_CONNECT_S = 10
_GO_ON = "finished runs are kept, --resume goes on"


@dataclass(frozen=True)
class _File:
    """A file or folder that the lab sends to the workers. They cache it by its hash, `digest`."""

    digest: str
    name: str

    @property
    def path(self) -> Path:
        """Return the file's path on a worker."""
        return cache.root() / _entry(self.digest) / self.name


@dataclass(frozen=True)
class _Order:
    """A run for a worker. Files are named by hashes: the worker cannot open this computer's paths.

    determines   the machine's `determines` on this computer; on the worker, it must be the same
    base         the folder with the guest's initramfs
    environment  an environment variable of QEMU -> its value, or the file that was sent for it
    files        path under /job -> the text, or the file that was sent for it
    """

    run: Run
    determines: Mapping[str, Any]
    kernel: _File
    base: _File
    environment: Mapping[str, str | _File]
    files: Mapping[str, str | _File]
    modules: tuple[_File, ...]


@dataclass(frozen=True)
class _Back:
    """A run's result from a worker.

    reason   why the run failed, or why the guest did not boot; None if the run succeeded
    boot_s   seconds until fio started; None if it did not
    unable   the class of the error if the guest did not boot; else None
    folder   the path of the run's folder on the worker
    content  an archive of that folder
    """

    reason: str | None
    boot_s: float | None
    unable: type[BootError] | None
    folder: str
    content: bytes


class _Shipment(WorkerPlugin):
    """Files for all workers, including workers that join later or reconnect."""

    def __init__(self, parcels: Mapping[str, bytes]) -> None:
        self.parcels = parcels

    def setup(self, worker: object) -> None:
        """Unpack the files that the worker's cache folder lacks."""
        for digest, content in self.parcels.items():
            cache.made(_entry(digest), functools.partial(_unpack, content))


def executor(address: str) -> execute.Executor:
    """Return the executor for the cluster whose Dask scheduler is at `address`."""

    @contextlib.asynccontextmanager
    async def there(runs: Sequence[Run]) -> AsyncIterator[execute.CarryOut]:
        parcels: dict[str, bytes] = {}
        orders = {run.id: _order(run, parcels) for run in runs}
        async with _client(address) as client, _shipped(client, parcels):

            async def one(run: Run, folder: Path) -> execute.Result:
                try:
                    back = await client.submit(_attempt, orders[run.id], key=f"triage-{run.id}")
                except KilledWorker as error:
                    return execute.write_down(run, folder, f"its workers died: {error}", None)
                except FutureCancelledError as error:
                    raise LabError(f"the Dask scheduler at {address} is gone; {_GO_ON}") from error
                return _receive(run, back, folder)

            yield one

    return there


@contextlib.asynccontextmanager
async def _client(address: str) -> AsyncIterator[Client]:
    try:
        client = await Client(  # type: ignore[no-untyped-call]
            address, asynchronous=True, timeout=_CONNECT_S, set_as_default=False
        )
    except ValueError as error:
        raise RequestError(f"--dask {address}: {error}; expected tcp://HOST:PORT") from error
    except OSError as error:
        raise LabError(
            f"no Dask scheduler answers at {address}; docs/measure.md says how to start one"
        ) from error
    async with client:
        yield client


@contextlib.asynccontextmanager
async def _shipped(client: Client, parcels: Mapping[str, bytes]) -> AsyncIterator[None]:
    """Send the files to all workers, and to each worker that joins while the block runs."""
    # Use a unique name: of two shipments with the same name, the cluster keeps only the later one.
    name = f"triage-shipment-{client.id}"
    await client.register_plugin(_Shipment(parcels), name=name)
    try:
        yield
    finally:
        # Without this, Dask's scheduler and all workers would keep the files in memory for good.
        with contextlib.suppress(OSError):
            if client.status == "running":
                await client.unregister_worker_plugin(name)  # type: ignore[no-untyped-call]


def _receive(run: Run, back: _Back, folder: Path) -> execute.Result:
    """Unpack a worker's result into `folder`, write run.json, and return the result.

    If the guest did not boot, raise the worker's BootError and write no run.json.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _unpack(back.content, folder)
    reason = back.reason and back.reason.replace(back.folder, str(folder))
    if back.unable:
        raise back.unable(reason)
    return execute.write_down(run, folder, reason, back.boot_s)


# ---- to a worker ------------------------------------------------------------------


def _order(run: Run, parcels: dict[str, bytes]) -> _Order:
    """Return the order for a run; add an archive of each of its files to `parcels`, by hash."""

    def ship(path: Path) -> _File:
        digest, content = _packed(path)
        parcels[digest] = content
        return _File(digest, path.name)

    def shipped(contents: Mapping[str, str | Path]) -> dict[str, str | _File]:
        return {
            name: ship(content) if isinstance(content, Path) else content
            for name, content in contents.items()
        }

    assert isinstance(run.machine, Qemu)
    base = run.machine.base
    return _Order(
        replace(run, machine=replace(run.machine), job=replace(run.job, files={}, modules=())),
        run.machine.determines,
        ship(base.kernel.image),
        ship(base.folder),
        shipped(run.machine.environment),
        shipped(run.job.files),
        tuple(map(ship, run.job.modules)),
    )


@functools.cache
def _packed(path: Path) -> tuple[str, bytes]:
    """Return a hash and an archive of a file or folder.

    Both depend only on names, contents and modes.
    """

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        return member.replace(mtime=0, uid=0, gid=0, uname="", gname="")

    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(path, path.name, filter=plain)
    return hashlib.sha256(content.getvalue()).hexdigest()[:32], content.getvalue()


def _unpack(content: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")


def _entry(digest: str) -> str:
    return f"shipped/{digest}"


# ---- on a worker ------------------------------------------------------------------


def _unshipped(contents: Mapping[str, str | _File]) -> dict[str, str | Path]:
    return {
        name: content.path if isinstance(content, _File) else content
        for name, content in contents.items()
    }


def _differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """Return how two machines' `determines` differ: QEMU's versions, or else files and options."""
    if here["qemu"] != there["qemu"]:
        return f"{here['qemu']} and {there['qemu']}"
    words = set[str]().union(*({*here[part]} ^ {*there[part]} for part in ("files", "command")))
    return ", ".join(sorted({word.split()[0] for word in words if word}))


def _attempt(order: _Order) -> _Back:
    """Carry out a run; this function runs on the worker."""
    tools.require([tools.QEMU, tools.CPIO])
    machine = order.run.machine
    assert isinstance(machine, Qemu)
    kernel = replace(machine.base.kernel, image=order.kernel.path)
    machine = replace(
        machine,
        base=Base(kernel, order.base.path),
        environment=_unshipped(order.environment),
    )
    if machine.determines != order.determines:
        raise LabError(
            f"the worker on {socket.gethostname()} has another QEMU than this computer, with "
            f"which figures may differ: {_differences(machine.determines, order.determines)}; "
            "install the same packages on both"
        )
    job = replace(
        order.run.job,
        files=_unshipped(order.files),
        modules=tuple(file.path for file in order.modules),
    )
    run = replace(order.run, machine=machine, job=job)
    with tempfile.TemporaryDirectory(prefix="triage-run-") as scratch:
        folder = Path(scratch) / run.id
        reason, boot_s, unable = None, None, None
        try:
            reason, boot_s = asyncio.run(execute.attempt(run, folder))
        except BootError as error:
            reason, unable = str(error), type(error)
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            archive.add(folder, ".")
        return _Back(reason, boot_s, unable, str(folder), content.getvalue())
