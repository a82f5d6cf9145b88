# SPDX-License-Identifier: GPL-2.0-only
"""Define the errors that a user sees. Each message names the fault and the next step.

Scripts may rely on the exit status: 1 if something failed while running, 2 if the request itself
made no sense.
"""

import difflib
from collections.abc import Iterable

#: The least similarity of a name that unknown() proposes: 0 to 1, as of difflib. With 0.4, the lab
#: took 'nosuch' for 'none'.
_ALIKE = 0.55


class LabError(Exception):
    """A failure. The message names the fault and the next step."""

    exit_status = 1


class RequestError(LabError):
    """A request that made no sense. The lab refuses it before it starts a run."""

    exit_status = 2


def unknown(kind: str, name: str, known: Iterable[str]) -> RequestError:
    """Return the error for an unknown name; its message proposes the most similar known name."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=1, cutoff=_ALIKE)
    hint = f": did you mean '{near[0]}'?" if near else "."
    return RequestError(f"unknown {kind} '{name}'{hint} There are: {', '.join(names) or 'none'}.")
