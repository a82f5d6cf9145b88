# SPDX-License-Identifier: GPL-2.0-only
"""A bare computer has what runs take before the first test, whichever that is."""

import pytest
from triagelab import tools


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    """Installed where root may; else every test says what is missing."""
    tools.require((*tools.RUN, *tools.RUN_ON_HOST, *tools.BUILD))
