# SPDX-License-Identifier: GPL-2.0-only
"""Say which tests are due, and prepare the environment that tests need."""

import os

import pytest
from triagelab.base import tools

from tests import due

#: The variables by which `make test` would pass its own flags to each make that a test runs.
OF_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")


def pytest_configure() -> None:
    """Let each make that a test runs behave as in a user's shell.

    `make test` exports its flags. After -C or -w they include -w: each make that a test runs would
    then print the folders that it enters.
    """
    for name in OF_MAKE:
        os.environ.pop(name, None)


def pytest_report_header() -> list[str]:
    """Return a line that says which quarter of the tests is due (tests/due.py); none if all run."""
    return [due.described()] if due.is_asked() else []


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    """As root, install missing programs. As another user, fail each test and name them."""
    tools.require((*tools.RUN, *tools.RUN_ON_HOST, *tools.BUILD))
