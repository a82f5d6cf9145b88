# SPDX-License-Identifier: GPL-2.0-only
"""Define the errors for an operator: each names the fault and the remedy."""

import difflib
from collections.abc import Iterable


class CtlError(Exception):
    """Raised if something fails while the command runs."""

    exit_status = 1


class RequestError(CtlError):
    """Raised if the user's request cannot be carried out as given."""

    exit_status = 2


def unknown(kind: str, name: str, known: Iterable[str]) -> RequestError:
    """Return the error for an unknown name. Its text suggests the nearest known name."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f": did you mean '{near[0]}'?" if near else "."
    return RequestError(f"unknown {kind} '{name}'{hint} There are: {', '.join(names) or 'none'}.")
