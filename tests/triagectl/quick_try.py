# SPDX-License-Identifier: GPL-2.0-only
"""Run `triagectl`, but let a try measure nothing: it only keeps its change for the given time."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from triagectl import command, trial


def block(meter: trial.Meter) -> trial.Block:
    """Sleep in place of a measurement."""
    time.sleep(meter.block_s)
    return trial.Block()


setattr(trial.Meter, "block", block)  # noqa: B010
# One pair of blocks takes all the time. Its first block has the change.
setattr(trial, "pairs_in", lambda _: 1)  # noqa: B010
setattr(trial, "drawn", lambda *_: [True, False])  # noqa: B010
sys.exit(command.main())
