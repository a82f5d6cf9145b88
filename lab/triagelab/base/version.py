# SPDX-License-Identifier: GPL-2.0-only
"""The version of the project, read from kernel/triage/version.h."""

import functools
import re

from triagelab.base import sources
from triagelab.base.errors import LabError

_HEADER = sources.MODULES / "triage/version.h"


@functools.cache
def version() -> str:
    """Return the version of the module, its packages and this laboratory."""
    found = re.search(r'^#define TRIAGE_VERSION "(.+)"$', _HEADER.read_text(), re.M)
    if found is None:
        raise LabError(f"{_HEADER} has no line `#define TRIAGE_VERSION`; check the file out again")
    return found[1]
