# SPDX-License-Identifier: GPL-2.0-only
"""Simulate each drive of drives/ under the loads under which it was measured.

A drive's file states the model's errors, and lists as a miss each figure with a larger error than
drives.JUDGED allows. The simulation must give these errors, within 0.2 percentage points, and
exactly these misses: a test fails if a miss is not listed, or if a listed figure is no miss.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from triagelab.ask import devices, drives
from triagelab.fit import fitting
from triagelab.fit.simulator import Simulator

from tests import due


@pytest.fixture(scope="session")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Simulator:
    """Return the models, compiled without the sanitizers that test_models.py uses."""
    return Simulator.build(tmp_path_factory.mktemp("quick"), sanitize=False)


@pytest.mark.parametrize("name", drives.names())
def test_the_errors_and_the_misses_are_those_listed(quick: Simulator, name: str) -> None:
    drive = drives.find(name)
    compared = fitting.compare(quick, drive)
    for each in compared:
        listed = set(each.point.misses)
        assert set(each.misses) == listed, f"{each.point}: {each.errors}"
    found = fitting.summary(compared)
    assert fitting.medians_missed(found) == drive.misses
    assert _flat(found) == pytest.approx(_flat(drive.errors), abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", due.selected(drives.names(), lambda name: [drives.FOLDER / f"{name}.toml"])
)
def test_ten_times_the_window_gives_the_same_misses(quick: Simulator, name: str) -> None:
    """Simulate longer: a figure that depends on the simulated time says nothing about a drive."""
    for each in fitting.compare(quick, drives.find(name), times=10):
        assert set(each.misses) == set(each.point.misses), f"{each.point}: {each.errors}"


def _flat(errors: Mapping[str, Mapping[str, list[float]]]) -> dict[str, float]:
    """Return each error under the key `role kind place`: place 0 is the median, 1 the worst."""
    return {
        f"{role} {kind} {place}": value
        for role, kinds in errors.items()
        for kind, pair in kinds.items()
        for place, value in enumerate(pair)
    }


@pytest.mark.parametrize("name", drives.names())
def test_the_driver_takes_what_the_file_sets(name: str) -> None:
    drive = drives.find(name)
    changes = {f"device.{key}": str(value) for key, value in drive.settings.items()}
    changes |= {f"model.{key}": str(value) for key, value in drive.parameters.items()}
    assert devices.find(name, changes).settings == devices.find(name, {}).settings


@pytest.mark.parametrize("name", drives.names())
def test_a_drive_names_its_source(name: str) -> None:
    assert {"repository", "licence", "path"} <= drives.find(name).source.keys()


def is_judged_where_it_was_not_fitted(drive: drives.Drive) -> bool:
    """Return whether the drive has a point that judges it and that no parameter was fitted to.

    If the drive has points of role `fit`, this is one of role `held`, else one of PREDICTED.
    """
    roles = {point.role for point in drive.points}
    return "held" in roles if "fit" in roles else not roles.isdisjoint(drives.PREDICTED)


@pytest.mark.parametrize("name", drives.names())
def test_a_drive_is_judged_where_it_was_not_fitted(name: str) -> None:
    assert is_judged_where_it_was_not_fitted(drives.find(name))


@pytest.mark.parametrize("role", ["fit", "info", "state"])
def test_a_drive_that_is_judged_only_where_it_was_fitted_is_found(role: str) -> None:
    drive = drives.find("usb-crucial")
    points = (replace(each, role=role) if each.role == "held" else each for each in drive.points)
    assert not is_judged_where_it_was_not_fitted(replace(drive, points=tuple(points)))
