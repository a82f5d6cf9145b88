# SPDX-License-Identifier: GPL-2.0-only
"""Preparation of a bare computer: install the tools of runs before the first test."""

import pytest
from triagelab.base import tools


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    """Install the tools if root may; otherwise every test names the missing ones."""
    tools.require((*tools.RUN, *tools.RUN_ON_HOST, *tools.BUILD))
