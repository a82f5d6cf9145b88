# SPDX-License-Identifier: GPL-2.0-only
"""Find the version of this command, which is that of the scheduler in the same package."""

import re
from pathlib import Path

from triagectl.system import read

_FOLDER = Path(__file__).parent
#: A package has the header beside this file; a checkout has it beside the module's source.
_HEADERS = (_FOLDER / "version.h", _FOLDER.parent / "kernel/triage/version.h")


def version() -> str:
    """Return the version, or "unknown" if no header version.h is found."""
    for header in _HEADERS:
        found = re.search(r'^#define TRIAGE_VERSION "(.+)"$', read(header) or "", re.M)
        if found:
            return found[1]
    return "unknown"
