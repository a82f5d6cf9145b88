# SPDX-License-Identifier: GPL-2.0-only
"""Run loads in a guest; write fio's logs of them and triagectl's output to the folder `out`.

One process does everything, because Python takes long to start in a guest.
"""

import contextlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, "/job")

from triagectl import command, top
from triagectl.sampling import LIMIT, Sampler

BUFFER_KIB = top.BUFFER_KIB

OUT = Path("out")
DISK = "md0"
QUEUE = Path(f"/sys/block/{DISK}/queue")
GATE = Path("/sys/kernel/debug/gatedisk/gate")
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq", "prio-basic", "prio-adaptive", "triage")

#: Under these schedulers, `top` also runs with the CPU limit that users have, so it times a sample.
SAMPLED = ("none", "triage")

READER = "--name=reader --bs=4k --iodepth=2 --rate_iops=1000 --prioclass=2 --prio=1"
BULK = "--name=bulk --bs=16k --iodepth=8 --rate_iops=850 --prioclass=3"

#: `explain` must see requests that wait long, and those that they wait for, from their start. So
#: the jobs of some cases start after `explain`.
LATER = "--startdelay=400ms"

#: For each case: the scheduler, its settings, the victim's job, the other jobs.
CASES = {
    "depth": ("none", "", "--bs=4k --iodepth=1", "--bs=128k --iodepth=64"),
    "tag": (
        "mq-deadline",
        "nr_requests=8",
        f"{LATER} --bs=4k --iodepth=1",
        f"{LATER} --bs=64k --iodepth=1 --numjobs=40",
    ),
    "priority": (
        "triage",
        "",
        "--bs=64k --iodepth=4 --prioclass=3",
        "--bs=64k --iodepth=32 --prioclass=2 --prio=0",
    ),
    "limit": (
        "triage",
        "iosched/limit_iops_low=20",
        f"{LATER} --bs=4k --iodepth=4 --prioclass=3",
        "--bs=4k --iodepth=1",
    ),
    "aging": (
        "triage",
        "iosched/aging_expire_low=1 iosched/aging_expire_normal=1",
        f"{LATER} --bs=64k --iodepth=8 --prioclass=2 --prio=0",
        "--bs=64k --iodepth=128 --prioclass=3",
    ),
}


def fio(options: str, disk: str = DISK, output: str = "/dev/null") -> "subprocess.Popen[bytes]":
    """Start fio with the jobs that `options` describe."""
    words = f"""fio --output={output} --output-format=json --filename=/dev/{disk} --direct=1
        --ioengine=libaio --rw=randread --time_based --runtime=60 --randseed=1 --thread {options}"""
    return subprocess.Popen(words.split())


def end(load: "subprocess.Popen[bytes]") -> None:
    """End fio by a signal. It still writes its results."""
    load.send_signal(2)
    load.wait()


def ctl(words: str, output: str) -> None:
    """Run triagectl, and write its output to a file of `out`."""
    print(f"triagectl {words}", flush=True)
    with (OUT / output).open("w") as file, contextlib.redirect_stdout(file):
        status = command.main(words.split())
    if status:
        sys.exit(f"triagectl {words} ended with {status}")


def watched(limit: float, seconds: float, output: str, at_once: bool = False) -> None:
    """Run `top` within a limit of CPU time.

    Write the times of its windows to a file. For each window the file has, in ns, when `top` began
    to open the window, when all events were on, and until when `top` followed new requests. The
    file also has, in s, when `top` began, and when `top` had read the last events.

    With `at_once`, `top` sleeps while events are recorded, and reads them all afterwards. So it
    takes no CPU from fio, and makes no request late.
    """
    moments: list[float] = []
    windows: list[tuple[int, int, int]] = []

    class Watched(Sampler):
        """A Sampler that notes when it measures."""

        def run(self, until: float) -> None:
            self.limit = limit
            if at_once:
                self._slice = seconds
            moments.append(time.time())
            super().run(until)
            moments.append(time.time())

        def _window(self, until: float) -> None:
            begin = time.time_ns()
            opened: list[int] = []

            def sleep(seconds: float) -> None:
                opened.append(time.time_ns())
                time.sleep(seconds)

            self.sleep = sleep
            super()._window(until)
            self.sleep = time.sleep
            windows.append((begin, opened[0], self.looked))

        def _look(self) -> int:
            self.looked = time.time_ns()
            return super()._look()

    setattr(top, "Sampler", Watched)  # noqa: B010
    setattr(top, "BUFFER_KIB", 4096 if at_once else BUFFER_KIB)  # noqa: B010
    ctl(f"top {DISK} --interval {seconds} --count 1 --json", f"top-{output}")
    when = {"began": moments[0], "ended": moments[-1], "windows": windows}
    (OUT / f"when-{output}").write_text(json.dumps(when))


def figures() -> None:
    """Let `top` and fio measure the same load under each scheduler."""
    for scheduler in SCHEDULERS:
        (QUEUE / "scheduler").write_text(scheduler)
        logs = f"--write_lat_log=out/{scheduler} --log_unix_epoch=1"
        load = fio(f"--name=global {logs} {READER} {BULK}")
        time.sleep(0.2)
        # Without a limit, `top` times every request.
        watched(100.0, 1.8, scheduler, at_once=True)
        if scheduler in SAMPLED:
            watched(LIMIT, 4.4, f"{scheduler}-sampled")
        end(load)


def causes() -> None:
    """Create each cause in turn, and keep the output of `triagectl explain`."""
    for case, (scheduler, settings, victim, others) in CASES.items():
        (QUEUE / "scheduler").write_text(scheduler)
        for setting in settings.split():
            name, _, value = setting.partition("=")
            (QUEUE / name).write_text(value)
        loads = [fio(f"--name=others {others}"), fio(f"--name=victim {victim}")]
        time.sleep(0.2)
        ctl(f"explain {DISK} --for 1 --json --pid {loads[1].pid}", f"explain-{case}")
        for load in loads:
            end(load)
        (QUEUE / "scheduler").write_text("none")


def stall() -> None:
    """Stop a device's answers for 200 ms, and keep the output of `triagectl explain`."""
    load = fio("--name=stuck --iodepth=4 --rate_iops=200", disk="gatedisk0")
    hold = subprocess.Popen(
        ["sh", "-c", f"sleep 0.4; echo hold > {GATE}; sleep 0.2; echo open > {GATE}"]
    )
    ctl("explain gatedisk0 --for 1 --json", "explain-stall")
    hold.wait()
    end(load)


# Make the sampler's random pauses the same in every run, like everything else in this guest.
random.seed(1)
figures()
causes()
stall()
left = [path.name for path in Path("/sys/kernel/tracing/instances").iterdir()]
(OUT / "instances").write_text(" ".join(left))
