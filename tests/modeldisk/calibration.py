#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compare P99 latencies of the model `flash` with those of a study.

An L-app makes 4 KiB random reads, one at a time. Its P99 grows beside T-apps, which have 128
requests each. Run as a program, this file prints the table of docs/modeldisk.md.
"""

import tempfile
from pathlib import Path

from triagelab.fit.simulator import Simulator

#: T-apps' load -> their number -> the L-app's P99 in the study, as a multiple of its P99 alone. The
#: study (docs/modeldisk.md names it) measured with `none`. For 4 KiB reads it says only that the
#: P99 stays below 0.21 ms, which is 2.7 times the P99 alone.
STUDY: dict[str, dict[int, float]] = {
    "read:random:4096": {8: 2.7, 16: 2.7, 32: 2.7},
    "read:random:65536": {8: 500, 16: 1870, 32: 3948},
    "write:random:4096": {8: 187, 16: 305, 32: 439},
    "write:random:65536": {8: 974, 16: 3195, 32: 5260},
}
#: The host's time for a request. The study's ten cores made at most 776 000 requests a second. The
#: model has a fifth of the throughput of the study's device, so its host is five times as slow.
HOST_NS = round(5 / 776e3 * 1e9)
#: The L-app. Its host_ns is the time that software in `sim` takes for a request. With it, the P99
#: alone is 77 µs.
L_APP = "l:read:random:4096:1:host_ns=13900"


def p99_alone(simulate: Simulator) -> float:
    """Return the L-app's P99 without other load, in ns."""
    return float(simulate("flash", L_APP)["l"]["p99_ns"])


def p99_beside(simulate: Simulator, load: str, t_apps: int) -> float:
    """Return the L-app's P99 beside `t_apps` T-apps with this load, in ns."""
    job = f"t:{load}:{t_apps * 128}:host_ns={HOST_NS}"
    found = simulate("flash", L_APP, job, time_ms=14_000, warmup_ms=4_000)
    return float(found["l"]["p99_ns"])


def main() -> None:
    """Print the table of docs/modeldisk.md."""
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
