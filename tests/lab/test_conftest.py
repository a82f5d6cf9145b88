# SPDX-License-Identifier: GPL-2.0-only
"""Tests of tests/conftest.py, which prepares every test."""

import os
import subprocess

import pytest
from triagelab.base import sources

from tests import conftest


def test_a_make_in_a_test_has_no_flags_of_the_make_that_runs_the_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MAKEFLAGS", "w -- KERNEL=6.1")
    monkeypatch.setenv("MAKELEVEL", "1")
    conftest.pytest_configure()
    said = subprocess.run(["make", "-sn", "modules"], cwd=sources.ROOT, capture_output=True)
    assert said.stdout == b"./triage modules --kernel 6.12\n"
    assert not {"MAKEFLAGS", "MAKELEVEL"} & os.environ.keys()


def test_the_header_says_which_quarter_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTS", "due")
    (line,) = conftest.pytest_report_header()
    assert line.startswith("due: part ")
    monkeypatch.setenv("TESTS", "all")
    assert conftest.pytest_report_header() == []
