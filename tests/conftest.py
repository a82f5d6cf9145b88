# SPDX-License-Identifier: GPL-2.0-only
"""Install the programs that runs need, before the first test of a bare computer."""

import pytest
from triagelab.base import tools


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    """Install missing programs as root; as another user, each test fails and names them."""
    tools.require((*tools.RUN, *tools.RUN_ON_HOST, *tools.BUILD))
