#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The calibration of the profile `flash`: the model's P99s beside those of a study.

Run as a program, this prints the table of docs/modeldisk.md: how the P99 of an L-app, which
makes 4 KiB random reads one at a time, grows beside T-apps with 128 requests each.
"""

import tempfile
from pathlib import Path

from triagelab.fit.simulator import Simulator

#: The study's results by the T-apps' load and number: the L-app's P99, as a multiple of its P99
#: alone, on a real device with `none` (docs/modeldisk.md names the study). For 4 KiB reads the
#: study says only that the P99 stays below 0.21 ms, which is 2.7 times the P99 alone.
STUDY: dict[str, dict[int, float]] = {
    "read:random:4096": {8: 2.7, 16: 2.7, 32: 2.7},
    "read:random:65536": {8: 500, 16: 1870, 32: 3948},
    "write:random:4096": {8: 187, 16: 305, 32: 439},
    "write:random:65536": {8: 974, 16: 3195, 32: 5260},
}
#: The host's time for a request: the study's ten cores made at most 776 000 requests a second, and
#: the model has a fifth of its device's throughput.
HOST_NS = round(5 / 776e3 * 1e9)
#: The L-app. With the host's time for a request that `sim` has, its P99 alone is 77 µs.
L_APP = "l:read:random:4096:1:host_ns=13900"


def p99_alone(simulate: Simulator) -> float:
    """Return the L-app's P99 with nothing beside it, in ns."""
    return float(simulate("flash", L_APP)["l"]["p99_ns"])


def p99_beside(simulate: Simulator, load: str, t_apps: int) -> float:
    """Return the L-app's P99 beside `t_apps` T-apps with this load, in ns."""
    job = f"t:{load}:{t_apps * 128}:host_ns={HOST_NS}"
    found = simulate("flash", L_APP, job, time_ms=14_000, warmup_ms=4_000)
    return float(found["l"]["p99_ns"])


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        simulate = Simulator.build(Path(folder))
        alone = p99_alone(simulate)
        heads = [f"{t_apps} T-apps: study | model | off" for t_apps in (8, 16, 32)]
        print("| beside | " + " | ".join(heads) + " |")
        print("|---" * 10 + "|")
        for load, study in STUDY.items():
            cells = [load]
            for t_apps, wanted in study.items():
                ratio = p99_beside(simulate, load, t_apps) / alone
                cells += [f"{wanted:g}", f"{ratio:.3g}" if ratio < 100 else f"{ratio:.0f}"]
                cells.append(f"{ratio / wanted - 1:+.0%}")
            print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
