# SPDX-License-Identifier: GPL-2.0-only
"""Run `triagectl try` again and again on a disk; kill it, its keeper or `--undo` before each step.

    python -m tests.triagectl.killing DISK FOLDER CASE

The keeper is the process that restores the disk if the try dies. A step is an action that other
processes can see: to open one of triagectl's or the disk's files for writing; to make, link, rename
or remove such a file; to take a lock, start the keeper, measure or end. A process dies just before
the step that is given for it. Each run prints a line of JSON.
"""

import contextlib
import ctypes
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from triagectl import trial, wayback
from triagectl.errors import CtlError
from triagectl.sysfs import Disk
from triagectl.system import System

_PR_SET_CHILD_SUBREAPER = 36
_LOOK_AGAIN_S = 0.002
_EVENTS = ("open", "os.mkdir", "os.link", "os.remove", "os.rename")
_WRITES = os.O_WRONLY | os.O_RDWR
#: The name of a case -> the scheduler (None: keep the present one) and the settings to try.
CASES: dict[str, tuple[str | None, dict[str, str]]] = {
    "scheduler": ("none", {"nr_requests": "77"}),
    "tunables": (None, {"fifo_batch": "99", "nr_requests": "77"}),
}


class Steps:
    """Counts the steps of this process, and kills it before step `last`."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self.folders = folders
        self.last: int | None = None
        self.count = 0
        self.on = False

    def begin(self, last: int | None) -> None:
        self.last, self.count, self.on = last, 0, True

    def step(self) -> None:
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.on:
            return
        ours = event in _EVENTS and str(given[0]).startswith(self.folders)
        if event == "fcntl.flock" or (ours and (event != "open" or given[2] & _WRITES)):
            self.step()


class Trials:
    """A disk, and the processes that try something on it."""

    def __init__(self, name: str, folder: Path, case: str) -> None:
        # A root with this computer's /sys and /proc, but its own /run.
        for link in ("sys", "proc"):
            (folder / link).symlink_to(f"/{link}")
        (folder / "run").mkdir()
        self.system = System(folder)
        self.disk = Disk(name, self.system.path(f"sys/block/{name}"))
        self.options = trial.Options(name, *CASES[case], seconds=60)
        self.steps = Steps((str(folder / "run"), str(self.disk.folder)))
        self.keeper_dies: int | None = None
        sys.addaudithook(self.steps.audit)
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._quick()
        self.before = wayback.current(self.disk)

    def _quick(self) -> None:
        """Make a try quick: it measures nothing, and its keeper is a fork, not a new Python."""

        def block(_: trial.Meter) -> trial.Block:
            self.steps.step()
            return trial.Block()

        @contextlib.contextmanager
        def meter(_: System, disk: Disk, block_s: float) -> Iterator[trial.Meter]:
            yield trial.Meter(disk, None, block_s)

        def spawn(*_: object, **__: object) -> None:
            self.steps.step()
            keep = functools.partial(wayback.keep, self.system, self.disk.name)
            keeper = self._child(keep, self.keeper_dies)
            # The try need not wait for a keeper that was killed before it was ready.
            how = os.WEXITED | os.WNOHANG | os.WNOWAIT
            while not wayback.ready_file(self.system, self.disk.name).exists():
                if os.waitid(os.P_PID, keeper, how):
                    setattr(wayback, "_START_S", 0.0)  # noqa: B010
                    break
                time.sleep(_LOOK_AGAIN_S)

        stand_in = SimpleNamespace(Popen=spawn, DEVNULL=subprocess.DEVNULL)
        for module, name, value in (
            (trial.Meter, "block", block),
            # The blocks: tried, old, old and tried settings, so two changes to the tried ones.
            (trial, "drawn", lambda *_: [True, False, False, True]),
            (trial, "_meter", meter),
            (trial, "_SETTLE_S", 0.0),
            (wayback, "_as_a_service", lambda *_: False),
            (wayback, "subprocess", stand_in),
        ):
            setattr(module, name, value)

    def _child(self, work: Callable[[], object], dies: int | None) -> int:
        child = os.fork()
        if not child:
            self._work(work, dies)
        return child

    def _work(self, work: Callable[[], object], dies: int | None) -> NoReturn:
        os.setsid()
        sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
        self.steps.begin(dies)
        status = 0
        try:
            work()
        except CtlError:
            status = 1
        self.steps.step()
        os._exit(status)

    def _give(self, options: trial.Options, dies: int | None) -> tuple[int, bool]:
        """Run a try or `--undo`. Return its status, and whether a signal ended another process."""
        child = self._child(lambda: trial.run(self.system, options), dies)
        status, other = 0, False
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, how = os.wait()
                if pid == child:
                    status = os.waitstatus_to_exitcode(how)
                else:
                    other |= os.WIFSIGNALED(how)
        return status, other

    def run(
        self, dies: int | None, keeper_dies: int | None, undo_dies: int | None = None
    ) -> dict[str, Any]:
        """Run a try; print and return a record of the processes that died and the disk's state.

        Kill the try, its keeper and `--undo` before the steps given for them; None: do not kill
        the process. If the try leaves a state file and the disk is as before, run a second try. If
        the disk is changed, run `--undo`, and once more if it was killed.
        """
        self.keeper_dies = keeper_dies
        status, keeper_died = self._give(self.options, dies)
        told = {
            "dies": (dies, keeper_dies, undo_dies),
            "died": status < 0,
            "keeper_died": keeper_died,
            "restored": self._restored(),
            "pending": self._pending(),
            "undo_died": False,
        }
        self.keeper_dies = None
        if told["pending"] and told["restored"]:
            # The disk is as before, but a state file is left. It must not hinder the next try.
            told["next"] = self._give(self.options, None)[0]
        elif told["pending"]:
            undo = trial.Options(self.disk.name, None, {}, 60, undo=True)
            if undo_dies is not None:
                told["undo_died"] = self._give(undo, undo_dies)[0] < 0
            if self._pending():
                self._give(undo, None)
        told["restored_at_last"] = self._restored() and not self._pending()
        print(json.dumps(told), flush=True)
        return told

    def _restored(self) -> bool:
        return wayback.current(self.disk) == self.before

    def _pending(self) -> bool:
        return wayback.pending(self.system, self.disk.name) is not None


def main() -> None:
    """Kill the try, then its keeper, then both, then `--undo` too, before each of their steps."""
    name, folder, case = sys.argv[1:]
    trials = Trials(name, Path(folder), case)
    steps = 1
    while trials.run(steps, None)["died"]:
        steps += 1
    keeper_steps = 1
    while trials.run(None, keeper_steps)["keeper_died"]:
        keeper_steps += 1
    if case != "scheduler":
        return
    changed = []
    # Kill the try before each of these steps. Drop a step once the keeper ends without reaching its
    # own step `keeper_steps`.
    dying = list(range(1, steps))
    keeper_steps = 1
    while dying:
        both = [trials.run(one, keeper_steps) for one in dying]
        dying = [told["dies"][0] for told in both if told["keeper_died"]]
        changed += [told["dies"] for told in both if told["pending"] and not told["restored"]]
        keeper_steps += 1
    undo_steps = 1
    while changed and trials.run(changed[0][0], changed[0][1], undo_steps)["undo_died"]:
        undo_steps += 1


if __name__ == "__main__":
    main()
