# SPDX-License-Identifier: GPL-2.0-only
"""Run `triagectl`, but let a try measure nothing: it only keeps its change for the given time."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from triagectl import command, trial


def blocks(_: trial.Meter, seconds: float, what: str) -> list[trial.Block]:
    """Sleep while the change is in place; before and after it, return at once."""
    if what.startswith("with"):
        time.sleep(seconds)
    return []


setattr(trial.Meter, "blocks", blocks)  # noqa: B010
sys.exit(command.main())
