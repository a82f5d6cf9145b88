# SPDX-License-Identifier: GPL-2.0-only
"""Save the state of a machine that has booted, so that every job can go on from it.

QEMU writes the state as in a live migration. The guest chooses the moment: it writes to QEMU's
panic device (`hold` in provision/guest/init), and QEMU stops the machine in the middle of that
instruction. So the state depends only on the instructions executed until then, not on the computer.
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

#: With these options, QEMU stops the machine when the guest writes to the panic device.
OPTIONS = ("-device", "pvpanic", "-action", "panic=pause")
#: QEMU's monitor on standard input and output. Without `mux`, QEMU gives the monitor a thread of
#: its own, and every timer of the machine wakes that thread.
_MONITORED = ("-chardev", "stdio,id=monitor,mux=on", "-mon", "chardev=monitor,mode=control")
#: With these options QEMU waits for commands from the monitor: with _WAITING before the first
#: instruction, with INCOMING before it loads a saved state.
_WAITING = ("-S", *_MONITORED)
INCOMING = ("-incoming", "defer", *_MONITORED)

_PARAMETERS = {
    "max-bandwidth": 1 << 36,  # bytes a second: more than any disk can write
    # With more rounds, QEMU sets a timer in real time to announce the machine on the network. When
    # this timer is due, the virtual CPU stands still as long as lockstep.c holds up the main loop.
    "announce-rounds": 0,
}


#: All that determines a saved state besides the machine's own command.
DETERMINES = [*_WAITING, *INCOMING, _PARAMETERS]


async def save(command: Sequence[str], state: Path, limit_s: float) -> str | None:
    """Run QEMU's `command` until the guest stops the machine; save the machine in `state`.

    Return None on success. If QEMU ended too early, return its error messages. Raise TimeoutError
    after `limit_s`, LabError if the state cannot be written. QEMU has ended when this call returns
    or raises.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        *_WAITING,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C must reach the lab, but not QEMU
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
    """Make QEMU go on from `state`; QEMU must have been started with `INCOMING`.

    Raise EOFError if QEMU ends, LabError if QEMU cannot load the state.
    """
    monitor = await _monitor(process)
    await monitor.execute("migrate-incoming", uri=f"exec:cat {shlex.quote(str(state))}")
    if not await _migrated(monitor):
        # Ask the user to remove the whole folder: if only the file were gone, the cache would still
        # take the folder for a complete entry.
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
    """Wait until the state is written or loaded; return whether this succeeded."""
    while (status := (await monitor.event("MIGRATION"))["status"]) not in ("completed", "failed"):
        pass
    return bool(status == "completed")


class _Monitor:
    """A client of QEMU's machine protocol (QMP): each command, answer and event is a line of JSON.

    The methods raise EOFError if QEMU has ended.
    """

    def __init__(self, to: asyncio.StreamWriter, back: asyncio.StreamReader) -> None:
        self._to, self._back = to, back
        self._events: list[dict[str, Any]] = []

    async def execute(self, command: str, **arguments: Any) -> None:
        """Send a command and wait for the answer. Raise LabError if QEMU answers with an error."""
        message = {"execute": command, "arguments": arguments}
        with contextlib.suppress(ConnectionError):
            self._to.write(json.dumps(message).encode() + b"\n")
            await self._to.drain()
        while not {"return", "error"} & (answer := await self._next()).keys():
            self._events.append(answer)
        if "error" in answer:
            raise LabError(f"QEMU refuses {command}: {answer['error']['desc']}")

    async def event(self, name: str) -> dict[str, Any]:
        """Wait for the next event of this name and return its data; drop other events."""
        while True:
            message = self._events.pop(0) if self._events else await self._next()
            if message.get("event") == name:
                return dict(message.get("data", {}))

    async def _next(self) -> dict[str, Any]:
        line = await self._back.readline()
        if not line:
            raise EOFError
        return dict(json.loads(line))
