# SPDX-License-Identifier: GPL-2.0-only
"""Tests of devices: their capacity and settings, and the refusal of invalid settings."""

import pytest
from triagelab.ask import devices
from triagelab.base.errors import RequestError


def test_capacity_is_places_by_service_time() -> None:
    device = devices.find(
        "null",
        {
            "device.hw_queue_depth": "4",
            "device.submit_queues": "2",
            "device.completion_nsec": "500000",
        },
    )
    assert device.capacity_iops == 4 * 2 * 1e6 / 500


def test_null_devices_come_in_numbers() -> None:
    one, three = (devices.find("null", {"device.count": count}) for count in ("1", "3"))
    assert (one.blocks, three.blocks) == (("nullb0",), ("nullb0", "nullb1", "nullb2"))
    assert one.capacity_iops
    assert three.capacity_iops == 3 * one.capacity_iops
    assert one.settings == three.settings, "several devices have the settings of one"
    for block in three.blocks:
        assert f"echo 1 > /sys/kernel/config/nullb/{block}/power" in three.device_up
    with pytest.raises(RequestError, match=r"device\.count=9: expected .* from 1 to 8"):
        devices.find("null", {"device.count": "9"})


def test_the_last_of_several_drives_may_be_slower() -> None:
    two = devices.find("980pro", {"device.count": "2", "slow.full_mbps": "100"})
    first, last = two.device_up.split("mkdir ")[1:3]
    assert two.blocks == ("md0", "md1")
    assert "echo 2096 > /sys/kernel/config/modeldisk/md0/full_mbps" in first
    assert "echo 100 > /sys/kernel/config/modeldisk/md1/full_mbps" in last
    assert "the last one slower" in two.description
    assert not two.parts, "there are no counters of several"
    with pytest.raises(RequestError, match=r"there is one; add device\.count=N"):
        devices.find("980pro", {"slow.full_mbps": "100"})
    with pytest.raises(RequestError, match=r"unknown setting of device 980pro 'slow\.full_mbp'"):
        devices.find("980pro", {"device.count": "2", "slow.full_mbp": "100"})
    with pytest.raises(RequestError, match=r"slow\.full_mbps=x: expected"):
        devices.find("980pro", {"device.count": "2", "slow.full_mbps": "x"})


@pytest.mark.parametrize("text", ["0", "-1", "4.5", "many", "1025", ""])
def test_a_value_out_of_bounds_names_the_bounds(text: str) -> None:
    with pytest.raises(RequestError, match="1 to 1024"):
        devices.find("null", {"device.hw_queue_depth": text})


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(RequestError, match=r"did you mean 'device.completion_nsec'"):
        devices.find("null", {"device.complete_nsec": "3"})


def test_an_unknown_device_names_what_there_is() -> None:
    with pytest.raises(RequestError, match=r"unknown device 'nul'.*did you mean 'null'"):
        devices.find("nul", {})


def test_a_model_has_its_own_parameters_with_the_drivers_bounds() -> None:
    flash = devices.find("flash", {"model.read_ns": "20000", "device.size": "64"})
    assert flash.settings == {"profile": "flash", "read_ns": "20000", "size": "64"}
    with pytest.raises(RequestError, match=r"page_kib=12: expected a power of 2 from 4 to 128"):
        devices.find("flash", {"model.page_kib": "12"})
    with pytest.raises(RequestError, match=r"unknown setting of device flash 'model\.rpm'"):
        devices.find("flash", {"model.rpm": "5400"})
    assert devices.find("hdd", {"model.rpm": "5400"}).settings["rpm"] == "5400"


@pytest.mark.parametrize("name", devices.names())
def test_schedulers_get_the_tags_that_were_asked_for(name: str) -> None:
    device = devices.find(name, {"device.scheduler_tags": "256"})
    assert device.scheduler_tags == 256
    assert "scheduler_tags" not in device.settings, "the driver knows no such thing"


def test_too_few_tags_for_a_scheduler_are_refused() -> None:
    with pytest.raises(RequestError, match=r"device\.scheduler_tags=3: expected"):
        devices.find("flash", {"device.scheduler_tags": "3"})
