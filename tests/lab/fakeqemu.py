# SPDX-License-Identifier: GPL-2.0-only
"""A program in place of QEMU, for tests of how the lab handles runs. It runs no guest.

The program takes QEMU's options. To save a machine's state, it makes an empty file. To run a job,
it reads the job's archive and writes results like a guest's. The figures depend only on the
scheduler, the repeat and the jobs.

befall() makes runs of a scheduler go wrong. With `panic SCHEDULER` the kernel panics, and with
`no-boot SCHEDULER` it does not boot. With `SIGNAL SCHEDULER REPEAT` the first such run sends the
signal to its parent process: the lab, or a worker of the lab's cluster.
"""

import json
import os
import re
import signal
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from tests.lab import rundirs
from tests.lab.rundirs import Load

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 0.2
installed = Path()


def install(folder: Path) -> None:
    """Put the program into a new `folder` under QEMU's name. befall() acts on the newest folder."""
    global installed
    installed = folder
    folder.mkdir()
    program = folder / "qemu-system-x86_64"
    program.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && echo "QEMU emulator version 0, a fake" && exit\n'
        '[ "$1" = -L ] && exit\n'
        f'FAKE_QEMU={folder} PYTHONPATH={ROOT} exec {sys.executable} -m tests.lab.fakeqemu "$@"\n'
    )
    program.chmod(0o755)
    befall("")


def befall(what: str) -> None:
    """Make later runs go wrong as `what` says (see the top of this file); with "", none does."""
    (installed / "befalls").write_text(what)
    (installed / "once").unlink(missing_ok=True)


def main(arguments: list[str]) -> None:
    if "-mon" in arguments:
        obey()
    if "-S" in arguments:
        return
    files = dict(re.findall(r"file,id=(\w+),path=(\S+)", " ".join(arguments)))
    console = Path(files["console"])
    repeat = re.findall(r"-r(\d+)-", console.parent.name)[-1]
    archive = Path(re.findall(r"job,file=(\S+)", " ".join(arguments))[0]).read_bytes()
    scheduler = re.findall(rb"SCHEDULER='(.+?)'", archive)[-1].decode()
    job = re.findall(rb"job/job\.fio\0+(.+?)070701", archive, re.DOTALL)[-1].decode()
    sections = [name for name in re.findall(r"^\[(.+)\]$", job, re.MULTILINE) if name != "global"]

    folder = Path(os.environ["FAKE_QEMU"])
    wrong = (folder / "befalls").read_text().split()
    if wrong == ["no-boot", scheduler]:
        return
    console.write_text("triage: ready\n")
    if wrong == ["panic", scheduler]:
        console.write_text("triage: ready\nKernel panic - not syncing: made to\n")
        return
    if wrong[1:] == [scheduler, repeat]:
        once = folder / "once"
        if not once.exists():
            once.touch()
            os.kill(os.getppid(), signal.Signals[wrong[0]])
            signal.pause()  # wait until the lab kills this process
    random = np.random.default_rng([int(repeat), *scheduler.encode()])
    slower = 1.0 + len(scheduler) / 10
    jobs = {name: Load(500 / slower, 1000 * slower, 0.1) for name in sections}
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        (out / "logs").mkdir()
        rundirs.leave(out, jobs, random, 0.01, SECONDS)
        (out / "device").write_text("")
        (out / "exit-status").write_text("0\n")
        with tarfile.open(files["results"], "w") as results:
            for path in sorted(out.iterdir()):
                results.add(path, path.name)
    console.write_text("triage: ready\ntriage: fio starts\ntriage: done\n")


def obey() -> None:
    """Answer QMP commands, up to one that saves a state or lets a restored machine continue."""

    def say(**message: object) -> None:
        print(json.dumps(message), flush=True)

    say(QMP={})
    for line in sys.stdin:
        command = json.loads(line)
        say(**{"return": {}})
        match command["execute"]:
            case "migrate-incoming":
                say(event="MIGRATION", data={"status": "completed"})
            case "cont":
                say(event="STOP")
                if "-incoming" in sys.argv:
                    return
            case "migrate":
                Path(command["arguments"]["uri"].removeprefix("exec:cat > ")).touch()
                say(event="MIGRATION", data={"status": "completed"})
                return


if __name__ == "__main__":
    main(sys.argv[1:])
