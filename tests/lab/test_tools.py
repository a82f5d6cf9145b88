# SPDX-License-Identifier: GPL-2.0-only
"""Tools: what is missing is named in one message, with the packages."""

import pytest
from triagelab import tools
from triagelab.errors import LabError

MISSING = tools.Tool("no-such-program", "no-such-package")


def test_all_that_is_missing_is_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_NO_INSTALL", "1")
    with pytest.raises(
        LabError, match=r"no-such-program, other.*apt-get install no-such-package x"
    ):
        tools.require([MISSING, tools.Tool("other", "x"), tools.Tool("sh", "dash")])


def test_a_user_is_not_made_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LabError, match="sudo apt-get install no-such-package"):
        tools.require([MISSING])
