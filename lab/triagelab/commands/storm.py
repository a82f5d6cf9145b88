# SPDX-License-Identifier: GPL-2.0-only
"""Define the command `storm`: find a scheduler's bugs with random plans, and replay them."""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from triagelab.base import files, tools
from triagelab.base.errors import RequestError
from triagelab.check import storm
from triagelab.commands import telling
from triagelab.commands import verify as verifying
from triagelab.provision import kernels
from triagelab.run import execute, machines, rundir

_SEEDS = 50
_LAST_TOLD = 24


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `storm`."""
    parser.add_argument("scheduler", metavar="SCHEDULER", help="see ./triage list")
    parser.add_argument("--seed", metavar="N", type=int, help="the first (default 1)")
    parser.add_argument("--seeds", metavar="COUNT", type=int, help=f"how many (default {_SEEDS})")
    parser.add_argument("--minutes", metavar="M", type=float, help="go on for so long")
    parser.add_argument(
        "--until-failure", action="store_true", help="begin no seed after one has failed"
    )
    parser.add_argument(
        "--replay", metavar="SEED[:MASK[:MS]]", help="this one alone, as a failure printed it"
    )
    parser.add_argument(
        "--shrink", action="store_true", help="make the plan of the first failure smaller"
    )
    verifying.add_what(parser)
    parser.add_argument("--cpus", metavar="N", type=int, default=4, help="virtual (default 4)")
    parser.add_argument("--out", metavar="DIR", type=Path, help="default: results/storm-NAME-DATE")
    parser.add_argument("--json", action="store_true", help="print storm.json, no text")
    parser.set_defaults(command=_storm)


def _storm(given: argparse.Namespace) -> int:
    if given.replay and {given.seed, given.seeds, given.minutes} != {None}:
        raise RequestError("--replay is one storm: give no --seed, --seeds or --minutes")
    if given.cpus < 1 or (given.seeds is not None and given.seeds < 1):
        raise RequestError("--cpus and --seeds are 1 at least")
    if given.minutes is not None and not given.minutes > 0:
        raise RequestError("--minutes: give more than 0")
    kernel, files = verifying.prepared(given, with_yield_points=True)
    debug = kernel.release.endswith(kernels.DEBUG) or given.kernel.endswith(kernels.DEBUG)
    tools.require(tools.RUN)
    if given.replay:
        storms = iter([storm.parse_replay(given.replay, debug)])
        count: int | None = 1
    else:
        seeds = itertools.count(1 if given.seed is None else given.seed)
        count = given.seeds or (None if given.minutes else _SEEDS)
        storms = (storm.whole(storm.make(seed, debug)) for seed in itertools.islice(seeds, count))
    out = rundir.new_folder(given.out, f"storm-{given.scheduler}")
    with rundir.owned(out):
        machine = machines.make("sim", kernel, given.cpus).poisoning()
        runner = storm.Runner(machine, given.scheduler, files, debug, out / "failed")
        return _carry_out(given, kernel, runner, storms, count, out)


def _carry_out(
    given: argparse.Namespace,
    kernel: kernels.Kernel,
    runner: storm.Runner,
    storms: Iterator[storm.Storm],
    count: int | None,
    out: Path,
) -> int:
    begin = time.monotonic()
    done: list[storm.Result] = []

    def finished(result: storm.Result) -> None:
        done.append(result)
        state = f"FAILED: {result.kind}" if result.reason else f"passed ({result.measured})"
        if not given.json:
            of = f"/{count}" if count else ""
            telling.output.print(f"[{len(done)}{of}] seed {result.storm.replay} {state}")

    try:
        results = storm.run(
            runner.run, storms, finished, given.minutes, until_failure=given.until_failure
        )
        failed = [result for result in results if result.reason]
        if failed and given.shrink:
            smallest = storm.shrink(runner.run, failed[0], finished)
            failed = [smallest, *failed[1:]]
    except execute.StoppedError:
        for result in done:
            if result.reason:
                _tell(given, result)
        telling.error.print(f"triage: interrupted; what failed so far is in {out}")
        return telling.INTERRUPTED
    seconds = time.monotonic() - begin
    record = {
        "schema": 1,
        "scheduler": given.scheduler,
        "kernel": kernel.release,
        "cpus": given.cpus,
        "result": "fail" if failed else "pass",
        "seconds": round(seconds, 1),
        "storms": [result.record() for result in results],
        "failed": [result.record() for result in failed],
    }
    files.write_json(out / "storm.json", record)
    if given.json:
        sys.stdout.write((out / "storm.json").read_text())
    else:
        for result in failed:
            _tell(given, result)
        telling.output.print(
            f"{given.scheduler} on {kernel.release}: {len(results)} storms, {len(failed)} failed, "
            f"in {seconds:.0f} s ({len(results) / seconds * 60:.0f} a minute); "
            f"logs: {os.path.relpath(out)}"
        )
    return 1 if failed else 0


def _tell(given: argparse.Namespace, result: storm.Result) -> None:
    """Print a failed storm: seed, command to replay it, plan, reason, and the CPUs' last steps."""
    words = ["./triage", "storm", given.scheduler, "--replay", result.storm.replay]
    words += ["--debug"] if given.debug else []
    words += ["--kernel", given.kernel] if given.kernel != kernels.DEFAULT_SERIES else []
    words += ["--cpus", str(given.cpus)] if given.cpus != 4 else []
    words += ["--module", str(given.module)] if given.module else []
    say = telling.output.print
    say(f"\nseed {result.storm.plan.seed} failed. Replay it with:", style="red")
    say(f"  {' '.join(words)}")
    say("\n".join(["Its plan:", *(f"  {part}" for part in result.storm.parts)]))
    say(result.reason)
    last = result.last.splitlines()[:_LAST_TOLD]
    if last:
        say("What the CPUs passed last, the latest first (ns, CPU, pauses, place):")
        say("\n".join(f"  {line}" for line in last))
    say(f"More of it: {os.path.relpath(result.folder)}\n")
