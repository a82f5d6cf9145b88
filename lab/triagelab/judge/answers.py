# SPDX-License-Identifier: GPL-2.0-only
"""Define an answer to an experiment's question, and its warning about too few repeats."""

from dataclasses import dataclass

from triagelab.judge.lookup import View
from triagelab.measure.statistics import REPEATS_FOR_VERDICT


@dataclass(frozen=True)
class Answer:
    """The headline of an answer, and the sentences that follow it."""

    headline: str
    details: list[str]


def few_repeats(view: View) -> list[str]:
    """Return a list with one warning if a view has too few repeats for a verdict, else []."""
    if view.repeats >= REPEATS_FOR_VERDICT:
        return []
    warning = (
        f"Some figures rest on fewer than {REPEATS_FOR_VERDICT} repeats: too few to tell whether "
        f"a difference is chance. Use --repeats {REPEATS_FOR_VERDICT} or more."
    )
    return [warning]
