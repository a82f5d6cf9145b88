# SPDX-License-Identifier: GPL-2.0-only
"""Define an answer to an experiment's question, and its warnings about too few repeats."""

from dataclasses import dataclass

from triagelab.measure.statistics import NOT_ENOUGH, REPEATS_FOR_VERDICT

#: The first words of a headline that compares means, because repeats are too few for verdicts.
BY_MEANS = f"{NOT_ENOUGH.capitalize()}; by the means: "


@dataclass(frozen=True)
class Answer:
    """The headline of an answer, and the sentences that follow it."""

    headline: str
    details: list[str]


def few_repeats(repeats: int) -> list[str]:
    """Return a list with one warning if there are too few repeats for a verdict, else []."""
    if repeats >= REPEATS_FOR_VERDICT:
        return []
    warning = (
        f"Some figures rest on fewer than {REPEATS_FOR_VERDICT} repeats: too few to tell whether "
        f"a difference is chance. Use --repeats {REPEATS_FOR_VERDICT} or more."
    )
    return [warning]


def preliminary(headline: str) -> str:
    """Return BY_MEANS, followed by the headline with its first letter in lower case.

    The headline must not begin with a name, because a name would lose its capital letter.
    """
    return f"{BY_MEANS}{headline[0].lower()}{headline[1:]}"
