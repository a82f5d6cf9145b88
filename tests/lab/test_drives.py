# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the named drives: their files, and the devices made from these files."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from triagelab import cli
from triagelab.ask import devices, drives
from triagelab.base import sources
from triagelab.base.errors import RequestError
from triagelab.commands import telling


def test_a_drive_is_its_profile_with_what_its_file_sets() -> None:
    device = devices.find("hdd-hts72101", {"model.slots": "4"})
    assert device.settings["profile"] == "hdd"
    assert device.settings["depth"] == "32"
    assert device.settings["inner_mbps"] == "30"
    assert device.settings["slots"] == "4", "a user's setting goes before the file's"
    assert next(iter(device.settings)) == "profile", "it sets all others"
    assert set(device.parts) == {"arm"}
    with pytest.raises(RequestError, match=r"unknown setting of device hdd-hts72101 'model\.dies'"):
        devices.find("hdd-hts72101", {"model.dies": "4"})


@pytest.mark.parametrize(("profile", "drive"), [("flash", "980pro-fifth"), ("hdd", "hdd-f1")])
def test_the_profiles_are_drives_that_were_measured(profile: str, drive: str) -> None:
    """A profile has a measured drive's parameters, so it has the errors of that drive's model."""
    assert drives.find(drive).profile == profile
    assert not drives.find(drive).parameters
    assert drive in devices.describe(profile)
    assert devices.find(profile, {}).settings == {
        key: of
        for key, of in devices.find(drive, {}).settings.items()
        if key not in drives.find(drive).settings
    }


@pytest.mark.parametrize(
    ("profile", "iops", "like"),
    [("hdd", 40, "hdd-hts72101"), ("hdd", 900, "hdd-f1"), ("flash", 3000, "usb-crucial"),
     ("flash", 14_000, "sata-s4610")],
)  # fmt: skip
def test_a_drive_of_a_users_own_is_like_one_with_as_slow_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str, iops: float, like: str
) -> None:
    others = ["usb-crucial", "sata-s4610", "hdd-f1", "hdd-hts72101", "sd-a2"]
    load: dict[str, int | str] = {
        "op": "read", "pattern": "random", "bytes": 4096, "depth": 1, "jobs": 1,
    }  # fmt: skip
    lone = drives.Point("fit", load, {"iops": iops}, {}, ())
    mine = replace(
        drives.find("usb-crucial"), name="mine", profile=profile, parameters={}, points=(lone,)
    )
    for path in drives.FOLDER.glob("*.toml"):
        shutil.copy(path, tmp_path)
    (tmp_path / "mine.toml").write_text(drives.text(mine))
    monkeypatch.setattr(drives, "FOLDER", tmp_path)
    assert drives.alike("mine", others) == like
    assert drives.alike("mine", ["sd-a2"]) is None, "its lone reads were not measured"


@pytest.mark.parametrize(("name", "like"), [("hdd", "hdd-f1"), ("flash", "980pro"), ("null", None)])
def test_a_profile_is_like_a_drive_that_has_it(name: str, like: str | None) -> None:
    assert drives.alike(name, ["980pro", "hdd-f1"]) == like


def test_what_a_guest_was_set_to_has_all_parameters_of_its_model(tmp_path: Path) -> None:
    (tmp_path / "device").write_text("profile=flash\ndies=48\nrpm=7200\nslots=218\n")
    found = devices.was_set_to(devices.find("980pro", {}), tmp_path)
    assert found == {"profile": "flash", "dies": "48", "slots": "218"}


def test_list_drives_has_class_source_and_the_errors_of_every_role(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telling.output, "width", 400)
    with telling.output.capture() as captured:
        assert cli.main(["list", "drives"]) == 0
    words = " ".join(captured.get().split())
    for name in drives.names():
        assert name in words
    assert "github.com/" in words
    assert "held: rate 5/5 %; seen: rate 0.4/5.3 %, mean 5.7/5.7 %, p99 64.9/64.9 %" in words


def test_list_drives_explains_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "drives"]) == 0
    _, legend = " ".join(capsys.readouterr().out.split()).split("off: ")
    named = [drives.find(name) for name in drives.names()]
    kinds = {drive.kind for drive in named if drive.kind.startswith("datacentre NVMe, ")}
    roles = {role for drive in named for role in drive.errors}
    for word in {*roles, *(kind.split(", ")[1] for kind in kinds)}:
        assert f"{word}: " in legend, word


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ('role = "held"', 'role = "hold"', "must have a role: fit, held, seen"),
        ("mean_us", "means_us", "points, item 1: not known: means_us; there are bytes, depth"),
        ("mean_us", "means_us", "Mistakes not shown: 6"),
        (
            "bytes = 4096",
            "bytes = '4k'",
            r"points, item 1\.bytes must be a multiple of 512 and at most 524288, not \"4k\"",
        ),
        ("bytes = 4096", "bytes = 1048576", r"points, item 1\.bytes must be a multiple of 512 and"),
        ('op = "read"', 'op = "flush"', r'item 1\.op must be read or write, not "flush"'),
        ('"random"', '"randread"', r"item 1\.pattern must be random or sequential"),
        (", jobs = 1", "", "item 1: missing: jobs"),
        ("jobs = 1", "jobs = 1, writes_per_s = 9000", "1: not known: bytes, depth, iops"),
        ("p50_us", 'misses = ["p90_us"], p50_us', "misses: not known: p90_us; there are iops"),
        ("jobs = 1", "jobs = 1, has_room = 1", r"has_room must be true or false, not 1"),
        ("jobs = 1", "jobs = 1, has_room = true", "has_room: only a point of writes fills a drive"),
        ("kind =", "name = 'x'\nkind =", "not known: name; there are errors, host_ns, kind"),
        ("licence =", "license =", "source: not known: license; there are repository, commit"),
        ('licence = "BSD-3-Clause"', "", "source must name a licence"),
        ('profile = "hdd"', 'profile = "hd"', "profile: not known: hd; there are flash, fast"),
        ("depth = 32\n", "dept = 32\n", "settings: not known: dept; there are size, hw_queues"),
        ("depth = 32\n", "depth = 99999\n", r"settings\.depth must be .* from 1 to 10240"),
        ("[parameters]", "[parameters]\ndies = 4", "parameters: not known: dies; there are cmd_ns"),
        ("[parameters]", "[parameters]\nrpm = 7", "parameters.rpm must be a whole number from 60"),
        ("errors.held", "errors.hold", "errors: not known: hold; there are held, scaled, seen"),
        ("{ rate", "{ rat", r"errors\.held: not known: rat; there are rate, mean, p99"),
        ("host_ns", 'misses = ["p50"]\nhost_ns', "misses: not known: p50; there are rate, mean"),
        ("depth = 32", "depth = 3.2", r"settings\.depth must be a whole number"),
        ("profile =", "profil =", "missing: profile"),
    ],
)
def test_a_mistake_in_a_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: str, becomes: str, message: str
) -> None:
    text = (drives.FOLDER / "hdd-f1.toml").read_text()
    assert was in text
    (tmp_path / "mine.toml").write_text(text.replace(was, becomes))
    monkeypatch.setattr(drives, "FOLDER", tmp_path)
    with pytest.raises(RequestError, match=message):
        drives.find("mine")


def test_a_drive_without_errors_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (drives.FOLDER / "hdd-f1.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("errors.")]
    (tmp_path / "mine.toml").write_text("\n".join(lines))
    monkeypatch.setattr(drives, "FOLDER", tmp_path)
    assert drives.find("mine").error_text == "not judged"


def test_the_readme_tells_the_errors_of_the_demos_drive() -> None:
    drive = drives.find("980pro")
    held = [point for point in drive.points if point.role == "held" and "p99_us" in point.measured]
    found = re.search(
        r"For (\d+) loads that the fit did not use, the model's P99 is off by ([\d.]+) % in "
        r"the median and ([\d.]+) % at worst",
        (sources.ROOT / "README.md").read_text(),
    )
    assert found
    assert int(found[1]) == len(held)
    assert [float(found[2]), float(found[3])] == list(drive.errors["held"]["p99"])
