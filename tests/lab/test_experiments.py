# SPDX-License-Identifier: GPL-2.0-only
"""Experiments: ours are whole, a user's file becomes one."""

from pathlib import Path

import pytest
from triagelab import experiments
from triagelab.errors import RequestError

TWO = "[{}]\nrw=read\nprioclass=2\nprio={}\n[{}]\nrw=read\nprioclass=2\nprio={}\n"


@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_loads(name: str) -> None:
    experiment = experiments.find(name)
    assert experiment.question.endswith("?")
    assert experiment.repeats >= 5


def test_of_a_users_jobs_the_most_urgent_is_protected(tmp_path: Path) -> None:
    path = tmp_path / "mine.fio"
    path.write_text(TWO.format("slow", 6, "quick", 0))
    experiment = experiments.find(str(path))
    assert (experiment.protected, experiment.background) == ("quick", ("slow",))


def test_of_equal_jobs_none_is_protected(tmp_path: Path) -> None:
    path = tmp_path / "mine.fio"
    path.write_text(TWO.format("one", 3, "other", 3))
    experiment = experiments.find(str(path))
    assert (experiment.protected, experiment.background) == (None, ())


def test_an_unknown_experiment_names_the_nearest() -> None:
    with pytest.raises(RequestError, match="did you mean 'mixed-priority'"):
        experiments.find("mixed-prioritiy")
