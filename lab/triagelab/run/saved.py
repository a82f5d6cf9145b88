# SPDX-License-Identifier: GPL-2.0-only
"""The state of a machine that has booted, to go on from: a boot is the same for every job.

QEMU writes such a state as it would for a machine that moves to another computer. The
guest says when, by a write to the panic device, at which QEMU stops its machine in the
middle of that very instruction (`hold` in provision/guest/init); so the state depends on the
instructions executed until then, and on nothing of the computer.
"""

import asyncio
import contextlib
import json
import shlex
from asyncio.subprocess import Process
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from triagelab.base.errors import LabError

#: QEMU's options for a machine that can be held.
OPTIONS = ("-device", "pvpanic", "-action", "panic=pause")
#: A monitor on standard input and output; as one of many (mux), or it gets a thread of its own,
#: which every timer of the machine wakes.
_MONITORED = ("-chardev", "stdio,id=monitor,mux=on", "-mon", "chardev=monitor,mode=control")
#: QEMU starts stopped, and continues on a command, from the saved state or its first instruction.
_WAITING = ("-S", *_MONITORED)
INCOMING = ("-incoming", "defer", *_MONITORED)

_PARAMETERS = {
    "max-bandwidth": 1 << 36,  # bytes a second: as fast as it can
    # Else a timer in real time is to tell a network where the machine is now: while it is due
    # and QEMU's main loop is kept out (lockstep.c), the virtual CPU stands still.
    "announce-rounds": 0,
}


#: Everything that a state depends on, beside the machine's own command.
DETERMINES = [*_WAITING, *INCOMING, _PARAMETERS]


async def save(command: Sequence[str], state: Path, limit_s: float) -> str | None:
    """Boot QEMU's `command` until the guest holds, and write its state to `state`.

    Returns None, or what QEMU complained of if it ended before. Raises TimeoutError after
    `limit_s`, LabError if the state cannot be written. QEMU has ended, whatever ends this.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        *_WAITING,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is ours to handle
    )
    assert process.stderr
    complaint = asyncio.ensure_future(process.stderr.read())
    try:
        async with asyncio.timeout(limit_s):
            monitor = await _monitor(process)
            await monitor.execute("cont")
            await monitor.event("STOP")
            await monitor.execute("migrate", uri=f"exec:cat > {shlex.quote(str(state))}")
            if not await _migrated(monitor):
                raise LabError(f"the machine's state cannot be written to {state}; is there room?")
    except EOFError:
        return (await complaint).decode(errors="replace").strip()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(asyncio.gather(process.wait(), complaint))
    return None


async def go_on(process: Process, state: Path) -> None:
    """Have QEMU, started with `INCOMING`, go on from `state`.

    Raises EOFError if it ends, LabError if that is no state of this machine.
    """
    monitor = await _monitor(process)
    await monitor.execute("migrate-incoming", uri=f"exec:cat {shlex.quote(str(state))}")
    if not await _migrated(monitor):
        # Remove the whole folder: the cache would take one without the file for complete.
        raise LabError(f"no machine goes on from {state}; remove {state.parent}, it is made again")
    await monitor.execute("cont")


async def _monitor(process: Process) -> "_Monitor":
    assert process.stdin and process.stdout
    monitor = _Monitor(process.stdin, process.stdout)
    await monitor.execute("qmp_capabilities")
    await monitor.execute(
        "migrate-set-capabilities", capabilities=[{"capability": "events", "state": True}]
    )
    await monitor.execute("migrate-set-parameters", **_PARAMETERS)
    return monitor


async def _migrated(monitor: "_Monitor") -> bool:
    """Await the state's end: whether it has been written, or read, whole."""
    while (status := (await monitor.event("MIGRATION"))["status"]) not in ("completed", "failed"):
        pass
    return bool(status == "completed")


class _Monitor:
    """QEMU's machine protocol: a line of JSON for each command, answer and event.

    Raises EOFError when QEMU has ended.
    """

    def __init__(self, to: asyncio.StreamWriter, back: asyncio.StreamReader) -> None:
        self._to, self._back = to, back
        self._events: list[dict[str, Any]] = []

    async def execute(self, command: str, **arguments: Any) -> None:
        """Send a command and await its answer."""
        message = {"execute": command, "arguments": arguments}
        with contextlib.suppress(ConnectionError):
            self._to.write(json.dumps(message).encode() + b"\n")
            await self._to.drain()
        while not {"return", "error"} & (answer := await self._next()).keys():
            self._events.append(answer)
        if "error" in answer:
            raise LabError(f"QEMU refuses {command}: {answer['error']['desc']}")

    async def event(self, name: str) -> dict[str, Any]:
        """Wait for an event and return its data; drop the events before it."""
        while True:
            message = self._events.pop(0) if self._events else await self._next()
            if message.get("event") == name:
                return dict(message.get("data", {}))

    async def _next(self) -> dict[str, Any]:
        line = await self._back.readline()
        if not line:
            raise EOFError
        return dict(json.loads(line))
