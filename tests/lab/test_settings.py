# SPDX-License-Identifier: GPL-2.0-only
"""Tests of settings: the part of a run that each name sets, and the refusal of invalid values."""

import pytest
from triagelab.base import settings
from triagelab.base.errors import RequestError


def test_each_name_goes_where_it_belongs() -> None:
    found = settings.split(
        {
            "cpus": "4",
            "device.hw_queues": "cpus",
            "model.read_ns": 20000,
            "kyber.read_lat_nsec": 1,
            "mq-deadline.writes_starved": "5",
            "bs": "64k",
        }
    )
    assert found.cpus == 4
    assert found.device == {"device.hw_queues": "4", "model.read_ns": "20000"}
    assert found.tunables == {
        "kyber": {"read_lat_nsec": "1"},
        "mq-deadline": {"writes_starved": "5"},
    }


def test_the_long_form_of_a_tunable_is_the_same() -> None:
    assert settings.plain("iosched.kyber.read_lat_nsec") == "kyber.read_lat_nsec"
    assert settings.scheduler("kyber.read_lat_nsec") == "kyber"


@pytest.mark.parametrize("name", ["cpus", "device.size", "model.read_ns", "bs"])
def test_what_is_no_schedulers(name: str) -> None:
    assert settings.scheduler(name) is None


@pytest.mark.parametrize("text", ["0", "65", "-1", "many", "", "9" * 5000])
def test_a_number_of_cpus_out_of_bounds_names_the_bounds(text: str) -> None:
    with pytest.raises(RequestError, match="1 to 64"):
        settings.split({"cpus": text})


def test_as_many_as_cpus_needs_their_number() -> None:
    with pytest.raises(RequestError, match="--cpus N"):
        settings.split({"device.hw_queues": "cpus"})
