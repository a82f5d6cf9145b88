# SPDX-License-Identifier: GPL-2.0-only
"""Install the programs that the lab's runs and builds need, before the first test."""

import pytest
from triagelab.base import tools


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    """As root, install missing programs. As another user, fail each test and name them."""
    tools.require((*tools.RUN, *tools.RUN_ON_HOST, *tools.BUILD))
