# SPDX-License-Identifier: GPL-2.0-only
"""Find the version of triagectl, which is also the version of the scheduler."""

import re
from pathlib import Path

from triagectl.system import read

_FOLDER = Path(__file__).parent
#: Packages install the header beside this file. In a checkout of the repository, it is beside the
#: source of the kernel module.
_HEADERS = (_FOLDER / "version.h", _FOLDER.parent / "kernel/triage/version.h")


def version() -> str:
    """Return the version, or "unknown" if no header version.h is found."""
    for header in _HEADERS:
        found = re.search(r'^#define TRIAGE_VERSION "(.+)"$', read(header) or "", re.M)
        if found:
            return found[1]
    return "unknown"
