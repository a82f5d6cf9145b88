# SPDX-License-Identifier: GPL-2.0-only
"""Tests of `./triage fit`: fio's results become points, and some are held out for judging.

A fit to the figures of a model finds the model's parameters again.
"""

import dataclasses
import itertools
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from triagelab import cli
from triagelab.ask import drives, experiments, fiofile
from triagelab.base.errors import RequestError
from triagelab.commands import run
from triagelab.fit import fioresults, fitchart, fitting, window
from triagelab.fit.simulator import Simulator

#: A part of fio's result, for four requests at once: 4000 a second, and 1 ms for each.
READ = {
    "iops": 4000.0,
    "slat_ns": {"mean": 4000.0},
    "clat_ns": {"mean": 996000.0, "percentile": {"99.000000": 2000000}},
    "lat_ns": {"mean": 1000000.0},
}
#: Stands for an option that a job does not have.
ABSENT = "absent"
IDLE = {"iops": 0.0, "slat_ns": {"mean": 0.0}, "clat_ns": {"mean": 0.0}, "lat_ns": {"mean": 0.0}}


def result(folder: Path, name: str, *jobs: dict[str, Any], version: str = "fio-3.33") -> None:
    (folder / f"{name}.json").write_text(json.dumps({"fio version": version, "jobs": list(jobs)}))


def job(
    read: dict[str, Any] = READ, write: dict[str, Any] = IDLE, group: int = 0, **options: Any
) -> dict[str, Any]:
    given = {"rw": "randread", "bs": "4k", "iodepth": "4", "ioengine": "libaio", "direct": "1"}
    given = {key: value for key, value in (given | options).items() if value != ABSENT}
    return {"job options": given, "read": read, "write": write, "groupid": group}


def busy(at_once: float) -> dict[str, Any]:
    """Return the figures of a load that keeps `at_once` requests in the device."""
    return READ | {"iops": 1000.0 * at_once}


def test_a_result_is_a_point(tmp_path: Path) -> None:
    result(tmp_path, "one", job())
    (tmp_path / "other.json").write_text("{}")
    found = fioresults.read(tmp_path)
    points = found.points
    assert found.host_ns(points) == 4000
    assert [dict(point.load) for point in points] == [
        {"op": "read", "pattern": "random", "bytes": 4096, "depth": 4, "jobs": 1}
    ]
    assert points[0].measured == {"iops": 4000.0, "mean_us": 1000.0, "p99_us": 2000.0}


def test_notes_of_fio_before_the_result_are_skipped(tmp_path: Path) -> None:
    result(tmp_path, "one", job())
    path = tmp_path / "one.json"
    told = json.dumps(json.loads(path.read_text()), indent=1)
    path.write_text("note: both iodepth >= 1 and synchronous I/O engine are selected\n" + told)
    assert len(fioresults.read(tmp_path).points) == 1


def test_measure_runs_the_plan_of_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def called(words: list[str]) -> int:
        asked.append(words)
        return 0

    monkeypatch.setattr(run, "called", called)
    out = str(tmp_path / "points")
    assert cli.main(["fit", "measure", "--device", "/dev/sdx", "--out", out]) == 0
    assert cli.main(
        ["fit", "measure", "--device", "flash", "--machine", "sim", "--out", out,
         "--allow-write", "--seconds", "2"]
    ) == 0  # fmt: skip
    assert [words[0] for words in asked] == ["drive-reads", "drive-reads", "drive-writes"]
    assert "--allow-write" not in asked[0] and "host" in asked[0]
    assert "seconds=2" in asked[2] and "--allow-write" not in asked[2]
    assert f"./triage fit {out}" in capsys.readouterr().out.replace("\n", "")
    assert cli.main(["fit", "measure", "--device", "flash"]) == 2
    assert cli.main(["fit", "measure", "--device", "flash", "--out", out, "--seconds", "0"]) == 2
    assert len(asked) == 3
    capsys.readouterr()
    monkeypatch.setattr(run, "called", lambda _: 130)
    assert cli.main(["fit", "measure", "--device", "/dev/sdx", "--out", out]) == 130
    assert "measured" not in capsys.readouterr().out
    assert cli.main(["fit", out, "--machine", "sim"]) == 2


def test_measure_resumes_what_was_begun_and_begins_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, bool] = {}

    def called(words: list[str]) -> int:
        asked[words[0]] = "--resume" in words
        return 0

    monkeypatch.setattr(run, "called", called)
    out = tmp_path / "points"
    words = ["fit", "measure", "--device", "flash", "--machine", "sim", "--allow-write", "--resume"]
    assert cli.main([*words, "--out", str(out)]) == 2
    assert f"nothing to resume: {out} does not exist" in capsys.readouterr().err
    assert not asked
    (out / "drive-reads").mkdir(parents=True)
    assert cli.main([*words, "--out", str(out)]) == 0
    assert asked == {"drive-reads": True, "drive-writes": False}


def test_the_points_that_are_measured_suffice_for_a_fit() -> None:
    points = [
        point(int(where["depth"]), bytes=fiofile.size(str(where["bs"])))
        for where in experiments.find("drive-reads").points
    ]
    roles = [each.role for each in fitting.with_roles(points)]
    assert roles.count("fit") >= 9 and roles.count("held") >= 9


def test_measured_and_modelled_are_drawn(tmp_path: Path) -> None:
    measured = dataclasses.replace(point(4), role="held", measured={"iops": 9.0, "mean_us": 8.0})
    compared = fitting.Compared(measured, {"iops": 7.0, "mean_us": 6.0, "p99_us": 5.0})
    fitchart.write(tmp_path / "it.html", "it", [compared])
    page = (tmp_path / "it.html").read_text()
    assert "4.00 KiB measured" in page and "circle-open" in page


def test_jobs_that_do_the_same_are_one_point(tmp_path: Path) -> None:
    slower = READ | {"iops": 2000.0, "lat_ns": {"mean": 2000000.0}}
    result(tmp_path, "two", job(), job(slower), job(bs="64K", rw="read", group=1))
    points = fioresults.read(tmp_path).points
    found = [(each.load["jobs"], each.load["bytes"], each.measured["iops"]) for each in points]
    assert found == [(2, 4096, 6000.0), (1, 65536, 4000.0)]
    assert points[0].measured["mean_us"] == 1500.0


def test_numbers_are_read_as_fio_reads_them(tmp_path: Path) -> None:
    result(tmp_path, "one", job(busy(32), iodepth="0x10", numjobs="0x2", bs="8kb"))
    (found,) = fioresults.read(tmp_path).points
    assert (found.load["depth"], found.load["jobs"], found.load["bytes"]) == (16, 2, 8192)


@pytest.mark.parametrize(
    ("bs", "reads", "writes"),
    [
        ("8k", 8192, 8192),
        ("4k,64k", 4096, 65536),
        (",64k", 4096, 65536),
        ("8k,", 8192, 4096),
        (ABSENT, 4096, 4096),
    ],
)
def test_reads_and_writes_may_have_sizes_of_their_own(
    tmp_path: Path, bs: str, reads: int, writes: int
) -> None:
    result(tmp_path, "it", job(bs=bs), job(IDLE, READ, rw="randwrite", bs=bs, group=1))
    assert [each.load["bytes"] for each in fioresults.read(tmp_path).points] == [reads, writes]


def test_a_job_that_waited_for_others_ran_alone(tmp_path: Path) -> None:
    """fio's result omits a `stonewall` without value; only the groupid shows that a job waited."""
    result(tmp_path, "it", job(), job(group=1), job(busy(8), iodepth="8", group=2))
    found = fioresults.read(tmp_path)
    assert [(each.load["depth"], each.load["jobs"]) for each in found.points] == [(4, 1), (8, 1)]
    assert found.points[0].measured["iops"] == 4000.0 and found.left_out == []


def test_processes_of_a_job_that_waited_ran_together(tmp_path: Path) -> None:
    """Each process has the option `stonewall`, but only the first waited for the previous job."""
    late = job(numjobs="2", stonewall="1", group=1)
    result(tmp_path, "it", job(numjobs="2"), job(numjobs="2"), late, late)
    (found,) = fioresults.read(tmp_path).points
    assert (found.load["jobs"], found.measured["iops"]) == (2, 8000.0)


@pytest.mark.parametrize("engine", ["psync", "mmap", ABSENT])
def test_an_engine_that_waits_for_each_request_has_depth_1(tmp_path: Path, engine: str) -> None:
    result(tmp_path, "one", job(busy(1), ioengine=engine, iodepth="32"))
    (found,) = fioresults.read(tmp_path).points
    assert found.load["depth"] == 1


def test_an_engine_without_a_page_cache_needs_no_direct(tmp_path: Path) -> None:
    result(tmp_path, "one", job(ioengine="io_uring_cmd", direct=ABSENT))
    assert len(fioresults.read(tmp_path).points) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"random_distribution": "random", "rate": "0", "iodepth_batch": "1"},
        {"direct": ABSENT, "buffered": "0"},
        {"fsync": "10000", "sync": "1"},  # these affect only writes
    ],
)
def test_an_option_that_changes_nothing_is_no_reason(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    result(tmp_path, "one", job(**options))
    found = fioresults.read(tmp_path)
    assert len(found.points) == 1 and found.left_out == []


@pytest.mark.parametrize("name", ["drive-reads", "drive-writes"])
def test_what_fit_measure_runs_is_a_plain_load(tmp_path: Path, name: str) -> None:
    values = {"bs": "4k", "depth": "4", "seconds": "25"}
    file = dataclasses.replace(experiments.find(name).workload, values=values)
    text = file.prepared(("vda",), 1, tuple(each.name for each in file.jobs))
    (prepared,) = fiofile.FioFile(tmp_path / "it.fio", text, {}).jobs
    figures = {"read": READ, "write": IDLE} if name == "drive-reads" else {"write": READ}
    result(tmp_path, "it", job() | {"read": IDLE} | figures | {"job options": prepared.options})
    found = fioresults.read(tmp_path)
    assert found.left_out == [] and found.points[0].load["depth"] == 4


def test_repeats_are_one_point(tmp_path: Path) -> None:
    for name, iops in (("a", 4000.0), ("b", 3600.0)):
        result(tmp_path, name, job(READ | {"iops": iops}))
    (found,) = fioresults.read(tmp_path).points
    assert found.measured["iops"] == 3800.0


def test_two_drives_in_one_folder_are_refused(tmp_path: Path) -> None:
    result(tmp_path, "a", job())
    result(tmp_path, "b", job(READ | {"iops": 2000.0, "lat_ns": {"mean": 2000000.0}}))
    with pytest.raises(
        RequestError, match=r"b\.json: job 1 and .*a\.json: job 1 differ .* 2000 and 4000 requests"
    ):
        fioresults.read(tmp_path)


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        ([job(), job(IDLE, READ, rw="randwrite")], "job 2 to 3 .* at the same time"),
        ([job(), job(bs="64k")], "job 2 to 3 .* at the same time"),
        ([job(), job(wait_for="a")], "job 2 to 3 .* wait_for=a"),
        ([job(direct="0")], "job 2 .* page cache"),
        ([job(direct=ABSENT)], "page cache"),
        ([job(buffered="1")], "page cache"),
        ([job(rate_iops="100")], "rate_iops=100"),
        ([job(rate=",1m")], "rate=,1m"),
        ([job(random_distribution="zipf:1.2")], "random_distribution=zipf"),
        ([job(bssplit="4k/50:64k/50")], "bssplit"),
        ([job(bsrange="4k-64k")], "bsrange"),
        ([job(verify="crc32c")], "verify=crc32c"),
        ([job(option_of_a_later_fio="1")], "option_of_a_later_fio=1"),
        ([job(IDLE, READ, rw="randwrite", fsync="1")], "fsync=1"),
        ([job(ioengine="null")], "ioengine=null"),
        ([job(filename="/dev/a:/dev/b")], "several files, /dev/a:/dev/b"),
        ([job(rw="randrw")], "rw=randrw"),
        ([job(rw="randread:8")], "rw=randread:8"),
        ([job() | {"error": 5}], "error 5"),
        ([job() | {"job options": {}}], "does not say what it did"),
        ([job(IDLE)], "nothing was done"),
        ([job(iodepth="2k")], "'2k' is not a plain number"),
        ([job(numjobs="$ncpus")], "'\\$ncpus' is not a plain number"),
        ([job(bs="4ki")], "'4ki' is not a plain size"),
        ([job(bs=None)], "'None' is not a plain size"),
        ([job(iodepth="0")], "depth is 0"),
        ([job(bs="0")], "bytes is 0"),
        ([job(bs="1000")], "1000 bytes"),
        ([job(bs="1m")], "1048576 bytes"),
        ([job(READ | {"lat_ns": {"mean": 0}})], "mean_us is 0"),
        ([job({"iops": 4000.0})], "mean_us is 0"),
        ([job(READ | {"clat_ns": {"mean": 1, "percentile": {"99.000000": 0}}})], "p99_us is 0"),
        # By Little's law, these jobs had more or fewer requests at once than they ask for.
        ([job(busy(1), iodepth="32")], "were 1 requests at once, .* ask for 32$"),
        ([job(numjobs="4")], "were 4 requests at once, .* ask for 16$"),
        ([job(busy(20), numjobs="3")], "were 20 requests at once, .* ask for 12$"),
    ],
)
def test_what_is_no_plain_load_is_left_out_and_told(
    tmp_path: Path, jobs: list[dict[str, Any]], why: str
) -> None:
    result(tmp_path, "it", job(), *({**each, "groupid": 1} for each in jobs))
    found = fioresults.read(tmp_path)
    assert [point.load["bytes"] for point in found.points] == [4096]
    (told,) = found.left_out
    assert re.search(r"it\.json: job 2 (to 3 )?is left out: ", told) and re.search(why, told)


def test_a_result_without_jobs_is_told(tmp_path: Path) -> None:
    result(tmp_path, "one", job())
    (tmp_path / "server.json").write_text(json.dumps({"fio version": "fio-3", "client_stats": []}))
    (told,) = fioresults.read(tmp_path).left_out
    assert "server.json is left out: it has no job" in told


def test_a_folder_of_nothing_but_other_loads_says_why(tmp_path: Path) -> None:
    result(tmp_path, "one", job(rw="randrw"))
    with pytest.raises(RequestError, match=r"no result that a model can repeat\n.*rw=randrw"):
        fioresults.read(tmp_path)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"jobs": {"a": 1}}, "not a complete result"),
        ({"jobs": 1}, "not a complete result"),
        ({"jobs": [None]}, "not a complete result"),
        ({"jobs": [{"job options": ["rw"]}]}, "not a complete result"),
        ({"jobs": [job()], "global options": None}, "not a complete result"),
        ({"jobs": [{"job options": {"rw": "read"}}]}, r"missing @ \$\.jobs\[0\]\.read"),
        ({"jobs": [job({"iops": "abc"})]}, r"a number is expected @ \$\.jobs\[0\]\.read\.iops"),
        ({"jobs": [job(READ | {"iops": "100"})]}, "a number is expected"),
        ({"jobs": [job(READ | {"iops": True})]}, "a number is expected"),
        ({"jobs": [job(READ | {"iops": -1})]}, "-1 is not a possible number"),
        ({"jobs": [job(READ | {"iops": math.nan})]}, "nan is not a possible number"),
        ({"jobs": [job(READ | {"iops": 10**400})]}, "not a complete result"),
        ({"jobs": [job(READ | {"lat_ns": "abc"})]}, "not a complete result"),
        ({"jobs": [job(READ | {"lat_ns": 5})]}, "not a complete result"),
        ({"jobs": [job(READ | {"slat_ns": {"mean": math.nan}})]}, "nan is not a possible number"),
        ({"jobs": [job(READ | {"slat_ns": {"mean": math.inf}})]}, "inf is not a possible number"),
        ({"jobs": [job() | {"error": "x"}]}, "a whole number is expected"),
        ({"jobs": [job() | {"error": 0.5}]}, "a whole number is expected"),
        ({"jobs": [{"job options": {"rw": "read"}, "read": READ, "write": IDLE}]}, "groupid"),
        ("[" * 100_000, "recursion"),
        ("{ broken", "Expecting"),
        ("", "Expecting"),
    ],
)
def test_a_damaged_result_is_told_with_its_file(
    tmp_path: Path, given: dict[str, Any] | str, why: str
) -> None:
    text = given if isinstance(given, str) else json.dumps({"fio version": "fio-3"} | given)
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(RequestError, match=rf"odd\.json.*{why}") as told:
        fioresults.read(tmp_path)
    assert "_Side" not in str(told.value) and "_Job" not in str(told.value)


def test_a_folder_with_the_name_of_a_result_is_no_result(tmp_path: Path) -> None:
    result(tmp_path, "one", job())
    (tmp_path / "x.json").mkdir()
    assert len(fioresults.read(tmp_path).points) == 1


def test_fio_2_counts_in_us(tmp_path: Path) -> None:
    old = {
        "iops": 4000.0,
        "slat": {"mean": 4.0},
        "clat": {"mean": 996.0, "percentile": {"99.000000": 2000}},
        "lat": {"mean": 1000.0},
    }
    result(tmp_path, "old", job(old), version="fio-2.14")
    found = fioresults.read(tmp_path)
    points = found.points
    assert found.host_ns(points) == 4000
    assert points[0].measured == {"iops": 4000.0, "mean_us": 1000.0, "p99_us": 2000.0}


def point(depth: int, **load: int | str) -> drives.Point:
    given: dict[str, int | str] = {"op": "read", "pattern": "random", "bytes": 4096, "jobs": 1}
    return drives.Point(
        "info", given | {"depth": depth} | load, {"iops": 1.0, "mean_us": 1.0}, {}, ()
    )


def test_the_time_of_the_host_is_that_of_fitted_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's time is the least submission latency of the points that are fitted.

    The fit must predict the held-out points, so it must not use their figures.
    """
    quick = {"slat_ns": {"mean": 50.0}}
    for depth in (1, 2, 4, 8, 16):
        held = quick if depth in (2, 4) else {"slat_ns": {"mean": 1000.0 + depth}}
        result(tmp_path, f"{depth}", job(busy(depth) | held, iodepth=str(depth)))
    asked: list[drives.Drive] = []

    def fitted(_: Simulator, drive: drives.Drive) -> drives.Drive:
        asked.append(drive)
        raise RequestError("enough")

    monkeypatch.setattr(fitting, "fitted", fitted)
    assert cli.main(["fit", str(tmp_path), "--out", str(tmp_path / "mine.toml")]) == 2
    (drive,) = asked
    held_at = [point.load["depth"] for point in drive.points if point.role == "held"]
    assert (held_at, drive.host_ns) == ([2, 4], 1001)


def test_points_are_held_out_by_depth() -> None:
    points = [point(depth) for depth in (64, 1, 2, 4, 8, 16, 32)]
    found = fitting.with_roles([*points, point(4, jobs=2), point(4, op="write")])
    assert [(each.load["depth"], each.role) for each in found] == [
        (1, "fit"), (2, "held"), (4, "held"), (8, "fit"), (16, "held"), (32, "held"), (64, "fit"),
        (4, "info"), (4, "info"),
    ]  # fmt: skip


def test_a_median_that_is_too_large_is_told_of_any_role() -> None:
    found = {"held": {"rate": [5.0, 9.0]}, "seen": {"mean": [10.1, 10.1], "p99": [35.0, 99.0]}}
    assert fitting.medians_missed(found) == ("mean",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "depths", "parameters", "found_again"),
    [
        (
            (4096, 16384, 65536),
            (1, 2, 4, 8, 16, 32, 64),
            {"cmd_ns": 2000, "ctrl_ns": 15_000, "read_ns": 45_000, "read_spread_pct": 0, "dies": 8,
             "bus_mbps": 500, "read_full_ns": 110_000, "full_mbps": 420},
            {"ctrl_ns": 0.05, "dies": 0.05, "read_full_ns": 0.05, "full_mbps": 0.05,
             "read_ns": 0.1},
        ),
        (
            (4096,),
            (1, 2, 4, 8, 16, 32),
            {"rpm": 7200, "queue_rule": 1, "readahead_kib": 0, "age_limit_ms": 0, "reorder_min": 0,
             "seek_settle_ns": 2_000_000, "seek_sqrt_ns": 12_000_000, "seek_knee_permille": 300},
            {"rpm": 0, "queue_rule": 0},
        ),
    ],
    ids=["flash", "hdd"],
)  # fmt: skip
def test_a_modelled_drive_is_found_again(
    tmp_path: Path,
    sizes: tuple[int, ...],
    depths: tuple[int, ...],
    parameters: dict[str, int],
    found_again: dict[str, float],
) -> None:
    """The fit predicts the held-out points, and finds the parameters in `found_again`.

    The test checks no other parameters: for flash, reads show only the sum of cmd_ns and read_ns,
    and nothing of a bus that is faster than the dies.
    """
    simulate = Simulator.build(tmp_path, sanitize=False)
    profile = "hdd" if "rpm" in parameters else "flash"
    blank = dataclasses.replace(
        drives.find("hdd-f1"), profile=profile, parameters=parameters, host_ns=1000
    )
    guess = 100.0 if profile == "hdd" else 20_000.0  # in IOPS; it sets only the simulated time
    measured = []
    for size, depth in itertools.product(sizes, depths):
        load = dataclasses.replace(point(depth, bytes=size), measured={"iops": guess})
        found = fitting.modelled(simulate, blank, load, fitting.steady(simulate, blank, load))
        measured.append(dataclasses.replace(load, measured=found))
    drive = dataclasses.replace(blank, parameters={}, points=fitting.with_roles(measured))
    drive = fitting.judged(simulate, fitting.fitted(simulate, drive))
    assert drive.profile == profile
    assert drive.errors["held"]["rate"][1] < 5
    assert drive.errors["held"]["mean"][1] < 5
    for key, within in found_again.items():
        assert drive.parameters[key] == pytest.approx(parameters[key], rel=within)


#: Flash that programs 1.6 GB/s in quick cells, and then makes a copy or two for each program.
CELLS = {
    "buffer_kib": 2048, "map_kib": 4, "slc_mib": 1024, "gc_after_mib": 512, "gc_amplify_pct": 200,
    "gc_ns": 800_000, "gc_burst": 1600, "program_kib": 64, "program_ns": 640_000, "dies": 16,
    "write_cache_kib": 0, "protect_after_ms": 0, "age_limit_ms": 0, "ctrl_slow_ms": 0,
}  # fmt: skip


@pytest.mark.parametrize("slc_mib", [1024, 0])
@pytest.mark.parametrize("times", [1, 10])
def test_a_drive_with_room_is_simulated_until_it_is_full(slc_mib: int, times: float) -> None:
    model = CELLS | {"slc_mib": slc_mib}
    load = window.Load(1e4, 1e4, at_once=1, writes=1e4, bytes=131072, has_room=True)
    found = window.steady(model, load, times)
    # 20 000 commands would take 2 s, but the load fills the quick cells, or else the clean space.
    full_s = ((slc_mib or 512) << 20) / 131072e4
    assert found.warmup_s + found.counted_s == pytest.approx(full_s)
    assert found.counted_s > 0.9 * full_s
    later = window.steady(model, dataclasses.replace(load, has_room=False), times)
    assert later.warmup_s > ((slc_mib + 512) << 20) / 131072e4


def test_a_drive_with_too_little_room_is_told() -> None:
    load = window.Load(1e4, 1e4, at_once=100, writes=1e4, bytes=131072, has_room=True)
    with pytest.raises(ValueError, match="has_room, but the model has too little room"):
        window.steady(CELLS | {"slc_mib": 1}, load)


def test_a_file_is_written_as_it_was_read() -> None:
    for name in drives.names():
        assert drives.text(drives.find(name)) == (drives.FOLDER / f"{name}.toml").read_text()


@pytest.mark.parametrize(
    ("depths", "sizes", "enough"),
    [
        ([1, 4, 16, 32], ["4k"], False),
        ([1, 2, 4, 8, 16], ["4k"], True),
        ([1, 4, 32], ["4k", "64k"], True),
    ],
)
def test_as_many_depths_as_the_message_names_suffice(
    depths: list[int], sizes: list[str], enough: bool
) -> None:
    points = [point(depth, bytes=fiofile.size(size)) for size in sizes for depth in depths]
    roles = [each.role for each in fitting.with_roles(points)]
    assert (roles.count("fit") >= 3) == enough and "held" in roles


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="has no result of fio"):
        fioresults.read(tmp_path)
    with pytest.raises(RequestError, match="is not a folder"):
        fioresults.read(tmp_path / "missing")
    result(tmp_path, "one", job())
    assert cli.main(["fit", str(tmp_path), "--out", str(tmp_path / "it.toml")]) == 2
    assert not (tmp_path / "it.toml").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--name", "flash"], "there is a device flash already"),
        (["--name", "980pro"], "there is a device 980pro already"),
        (["--name", "../x"], "'../x' cannot be a drive's name"),
        (["--name", "/tmp/x"], "'/tmp/x' cannot be a drive's name"),
        (["--name", ".x"], "'.x' cannot be a drive's name"),
        (["--out", "x.html"], "--out x.html: give a file NAME.toml"),
        (["--out", "folder"], "--out folder: give a file NAME.toml"),
        (["--out", "hdd.toml"], "there is a device hdd already"),
        (["--out", "missing/x.toml"], "there is no folder missing: make it"),
        (["--out", "made.toml"], "made.toml exists: choose another"),
        (["--out", "drawn.toml"], "drawn.html exists: choose another"),
    ],
)
def test_a_name_or_a_file_that_will_not_do_is_refused_before_the_results_are_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    why: str,
) -> None:
    def read(folder: Path) -> fioresults.Found:
        raise AssertionError(f"{folder} is read")

    monkeypatch.setattr(fioresults, "read", read)
    monkeypatch.chdir(tmp_path)
    for kept in ("made.toml", "drawn.html"):
        (tmp_path / kept).write_text("kept")
    named = ["--name", "mine"] if "--out" in options else []
    assert cli.main(["fit", ".", *named, *options]) == 2
    assert why in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "made.toml").read_text() == "kept"


def test_a_folder_of_drives_that_nobody_may_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["fit", ".", "--name", "mine", "--out", "mine.toml"]) == 2
    assert "you may not write to the folder" in capsys.readouterr().err
