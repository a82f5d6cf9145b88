# SPDX-License-Identifier: GPL-2.0-only
"""Tests that the files of fio and of the guest become the right figures, or a clear error."""

import dataclasses
import gzip
import itertools
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from triagelab.base import metrics
from triagelab.base.errors import LabError, RequestError
from triagelab.base.metrics import Of, jain, percentile
from triagelab.measure import samples
from triagelab.measure.samples import SCHEMA
from triagelab.run import records

from tests.lab import rundirs
from tests.lab.rundirs import Bench, Load

ASKED = [metric.name for metric in metrics.METRICS if metric.asked]
FIO = Path(__file__).parent / "data" / "fio-3.33.json.gz"

SMALL = Bench(
    loads={"none": {"a": Load(500, 100), "b": Load(50, 900, bs=65536, ddir="write")}},
    repeats=2,
    seconds=1.0,
    protected=None,
    background=(),
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return rundirs.make(tmp_path / "out", SMALL)


def edit(path: Path, change: Any) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def with_real_fio(out: Path) -> dict[str, Any]:
    """Replace the first run's fio.json with that of a real fio; return its content."""
    path = out / "runs" / "none-0"
    real = gzip.decompress(FIO.read_bytes())
    (path / "out" / "fio.json").write_bytes(real)
    edit(path / "run.json", lambda run: run.update(sections=["database_sim", "backup_sim"]))
    loaded: dict[str, Any] = json.loads(real)
    return loaded


def first_run(table: pl.DataFrame, job: str | None) -> dict[str, float]:
    rows = table.filter(
        pl.col("run") == "none-0",
        pl.col("time_s").is_null(),
        pl.col("job").eq_missing(pl.lit(job, dtype=pl.String)),
    )
    return dict(zip(rows["metric"].to_list(), rows["value"].to_list(), strict=True))


# ---- against fio itself ---------------------------------------------------------


def test_percentiles_are_the_ones_fio_prints(out: Path) -> None:
    """A job's figures are those that fio prints under "mixed", its own merge of reads and writes.

    fio made the file with unified_rw_reporting=both.
    """
    fio = with_real_fio(out)
    (backup,) = (job for job in fio["jobs"] if job["jobname"] == "backup_sim")
    printed = backup["mixed"]["lat_ns"]
    assert backup["read"]["lat_ns"]["percentile"] != printed["percentile"]
    found = first_run(samples.collect(out), "backup_sim")
    assert found["p50_us"] * 1000 == printed["percentile"]["50.000000"]
    assert found["p99_us"] * 1000 == printed["percentile"]["99.000000"]
    assert metrics.percentile(bins_of(backup), 999) == printed["percentile"]["99.900000"]
    assert "p999_us" not in found, "P99.9 needs 1000 requests; there are fewer"
    assert found["max_us"] * 1000 == printed["max"]
    assert found["mean_us"] * 1000 == pytest.approx(printed["mean"])
    completion = backup["mixed"]["clat_ns"]["percentile"]["99.000000"]
    assert found["clat_p99_us"] * 1000 == completion
    assert found["iops"] == pytest.approx(backup["mixed"]["iops"], rel=1e-3)
    assert found["bytes_per_s"] == pytest.approx(backup["mixed"]["bw_bytes"], rel=1e-3)


def bins_of(job: dict[str, Any]) -> Counter[int]:
    """Return the number of a job's requests in each bin of fio's latency histogram."""
    bins: Counter[int] = Counter()
    for way in ("read", "write", "trim"):
        bins.update({int(ns): n for ns, n in job[way]["lat_ns"].get("bins", {}).items()})
    return bins


def test_threads_of_one_job_are_one_job(out: Path) -> None:
    fio = with_real_fio(out)
    threads = [job for job in fio["jobs"] if job["jobname"] == "database_sim"]
    assert len(threads) == 2
    found = first_run(samples.collect(out), "database_sim")
    assert found["iops"] == pytest.approx(sum(job["read"]["iops"] for job in threads), rel=1e-3)
    assert found["max_us"] * 1000 == max(job["read"]["lat_ns"]["max"] for job in threads)
    assert found["cpu_s"] == pytest.approx(
        sum((job["usr_cpu"] + job["sys_cpu"]) / 100 * 2.0 for job in threads)
    )
    merged: Counter[int] = Counter()
    for job in threads:
        merged.update({int(value): n for value, n in job["read"]["lat_ns"]["bins"].items()})
    assert found["p99_us"] * 1000 == percentile(merged, 990)


def test_generated_buckets_are_fios(out: Path) -> None:
    """rundirs.py, which the other tests use, has the same buckets as a real fio."""
    bins = with_real_fio(out)["jobs"][0]["read"]["lat_ns"]["bins"]
    assert bins
    assert all(rundirs.bucket(int(value)) == int(value) for value in bins)


def test_percentiles_in_bins_beside_each_other_are_one(out: Path) -> None:
    bins = with_real_fio(out)["jobs"][0]["read"]["lat_ns"]["bins"]
    values = [rundirs.bucket(1 << 14)]
    while values[-1] < 1 << 20:
        width = 1 << max(values[-1].bit_length() - 7, 0)
        values.append(rundirs.bucket(values[-1] + width))
    assert set(map(int, bins)) & set(values), "none of fio's bins is among the values"
    for metric in ("p50_us", "p99_us", "p999_us", "clat_p99_us"):
        resolution = metrics.find(metric).resolution
        assert all(b / a <= 1 + resolution for a, b in itertools.pairwise(values))
        assert any(c / a > 1 + resolution for a, c in zip(values, values[2:], strict=False))
    assert metrics.find("mean_us").resolution == metrics.find("iops").resolution == 0


def test_percentile_is_the_smallest_value_that_reaches_the_share() -> None:
    random = np.random.default_rng(2)
    for size in (1, 2, 99, 100, 101, 1000, 1001):
        values = sorted(int(value) for value in random.integers(1, 50, size))
        for permille in (500, 990, 999):
            rank = -(-permille * size // 1000)  # rounded up
            assert percentile(Counter(values), permille) == values[rank - 1]


# ---- the table ------------------------------------------------------------------


def test_table_is_tidy_and_in_a_fixed_order(out: Path) -> None:
    table = samples.collect(out)
    assert table.schema == pl.Schema(SCHEMA)
    assert table["run"].unique(maintain_order=True).to_list() == ["none-0", "none-1"]
    assert set(first_run(table, "a")) == {metric.name for metric in metrics.of(Of.JOB)} - {
        "p999_us"
    }
    assert table["value"].is_finite().all()
    assert table.equals(samples.collect(out))


def test_latency_over_time_is_the_logs(out: Path) -> None:
    line = (out / "runs/none-1/out/logs/1_clat.log").read_text().splitlines()[3]
    milliseconds, nanoseconds = (int(cell) for cell in line.split(",")[:2])
    rows = samples.collect(out).filter(
        run="none-1", job="b", metric="clat_us", time_s=milliseconds / 1000
    )
    assert rows["value"].to_list() == [nanoseconds / 1000]


def test_points_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    points = tuple({"n": n, "cell": cell} for n in (16, 1, 4) for cell in ("b", "a"))
    bench = dataclasses.replace(SMALL, points=points, repeats=1, seconds=0.2)
    table = samples.collect(rundirs.make(tmp_path / "out", bench))
    found = [json.loads(point) for point in table["point"].unique(maintain_order=True)]
    assert found == [{"cell": cell, "n": n} for cell in ("a", "b") for n in (1, 4, 16)]


def test_failed_runs_are_left_out(tmp_path: Path) -> None:
    bench = dataclasses.replace(SMALL, failed=(("none", 1),))
    out = rundirs.make(tmp_path / "out", bench)
    assert samples.collect(out)["run"].unique().to_list() == ["none-0"]


def test_no_run_at_all_is_an_empty_table(out: Path) -> None:
    shutil.rmtree(out / "runs")
    table = samples.collect(out)
    assert table.is_empty()
    assert table.schema == pl.Schema(SCHEMA)


def test_job_that_completed_nothing_has_no_latency(out: Path) -> None:
    def starve(fio: dict[str, Any]) -> None:
        idle = fio["jobs"][0]["write"]
        fio["jobs"][0]["read"] = idle

    edit(out / "runs/none-0/out/fio.json", starve)
    found = first_run(samples.collect(out), "a")
    assert set(found) == {"iops", "bytes_per_s", "cpu_s"}
    assert found["iops"] == 0


# ---- metrics of all jobs together -----------------------------------------------


def judged(out: Path) -> dict[str, float]:
    edit(out / "environment.json", lambda content: content.update(judged_by=ASKED))
    found = first_run(samples.collect(out), None)
    return {metric: found[metric] for metric in ASKED}


def test_what_is_judged_of_all_jobs_is_made_of_each(out: Path) -> None:
    a, b = (first_run(samples.collect(out), job) for job in "ab")
    found = judged(out)
    assert found["total_iops"] == a["iops"] + b["iops"]
    assert found["total_bytes_per_s"] == a["bytes_per_s"] + b["bytes_per_s"]
    assert found["longest_wait_us"] == max(a["max_us"], b["max_us"])
    least = min(a["bytes_per_s"], b["bytes_per_s"])
    assert found["least_share"] == least / found["total_bytes_per_s"]
    assert found["jain_index"] == pytest.approx(jain([a["bytes_per_s"], b["bytes_per_s"]]))


def test_a_level_is_worth_its_weight(out: Path) -> None:
    """Priority level 6 has half the weight of level 4, the default: half as many bytes are fair."""

    def half(fio: dict[str, Any]) -> None:
        for job, options in zip(fio["jobs"], ({"prio": "0x6"}, {}), strict=True):
            job["job options"] = options
            for way in ("read", "write"):
                job[way]["io_bytes"] = 0
            job["read"]["io_bytes"] = 1000 if options else 2000

    edit(out / "runs/none-0/out/fio.json", half)
    assert judged(out)["jain_index"] == pytest.approx(1)


def test_a_flush_is_a_request_that_its_job_waits_for(out: Path) -> None:
    before = first_run(samples.collect(out), "a")

    def flush(told: Any) -> None:
        (job,) = (part for part in told["jobs"] if part["jobname"] == "a")
        count = job["read"]["total_ios"]
        latency = {"min": 9e9, "max": 9e9, "mean": 9e9, "N": count, "bins": {"9000000000": count}}
        job["sync"] = {"total_ios": count, "lat_ns": latency}

    edit(out / "runs/none-0/out/fio.json", flush)
    after = first_run(samples.collect(out), "a")
    assert after["iops"] == pytest.approx(2 * before["iops"])
    assert after["bytes_per_s"] == before["bytes_per_s"]
    assert after["p99_us"] == pytest.approx(9e6) == after["max_us"]
    assert after["mean_us"] == pytest.approx((before["mean_us"] + 9e6) / 2)


def test_each_run_is_read_by_its_own_devices_parts(flash: Path) -> None:
    for path in (flash / "runs").glob("*/run.json"):
        told = json.loads(path.read_text())
        told["parts"] = {"bus": {"busy": ["bus_busy_ns"], "places": None}}
        path.write_text(json.dumps(told))
    metrics_found = set(samples.collect(flash)["metric"])
    assert "bus_utilisation" in metrics_found and "dies_utilisation" not in metrics_found


def test_who_completed_nothing_waited_all_the_time(out: Path) -> None:
    def starve(fio: dict[str, Any]) -> None:
        fio["jobs"][0]["read"] = fio["jobs"][0]["write"]

    edit(out / "runs/none-0/out/fio.json", starve)
    found = judged(out)
    assert found["longest_wait_us"] == 1e6
    assert found["least_share"] == 0


def test_what_no_experiment_asks_for_is_not_in_its_table(out: Path) -> None:
    assert not set(ASKED) & set(first_run(samples.collect(out), None))


def test_jain_index_is_between_one_of_all_and_all_alike() -> None:
    assert jain([5, 5, 5]) == pytest.approx(1)
    assert jain([0, 0, 7]) == pytest.approx(1 / 3)
    assert jain([1, 2, 3]) == pytest.approx(36 / 42)
    assert jain([0, 0]) == 0


# ---- the guest's counters -------------------------------------------------------


def test_start_up_is_not_counted(out: Path) -> None:
    """The CPU of the made-up guest is fully busy for 0.5 s before the I/O, and 60 % during it."""
    found = first_run(samples.collect(out), None)
    rows = (out / "runs/none-0/out/samples.csv").read_text().splitlines()[1:]
    last = [int(cell) for cell in rows[-2].split(",")]  # the last sample with requests in flight
    assert found["instructions_per_io"] == pytest.approx(0.6 * 0.9e9 / last[3])
    assert found["cpu_utilisation"] == pytest.approx(0.6)
    assert found["device_utilisation"] == pytest.approx(last[3] / 0.9 / 10000)
    assert found["device_busy"] == pytest.approx(0.98)
    assert found["context_switches"] == last[2] - 1000


@pytest.mark.parametrize("kind", ["writes", "discards", "flushes"])
def test_every_kind_of_request_is_one(out: Path, kind: str) -> None:
    path = out / "runs/none-0/out/samples.csv"
    before = first_run(samples.collect(out), None)
    heading, *rest = (line.split(",") for line in path.read_text().splitlines())
    reads, other = heading.index("reads"), heading.index(kind)
    for line in rest:
        line[reads], line[other] = line[other], line[reads]
    path.write_text("\n".join(",".join(line) for line in (heading, *rest)) + "\n")
    assert first_run(samples.collect(out), None) == before


def test_instructions_are_only_known_in_virtual_time(out: Path) -> None:
    edit(out / "environment.json", lambda content: content.update(machine="vm"))
    assert "instructions_per_io" not in first_run(samples.collect(out), None)


def test_a_run_that_stands_for_several_points_is_at_each(out: Path) -> None:
    points = [{"budget": 1}, {"budget": 2}]
    before = samples.collect(out)
    for repeat in (0, 1):
        edit(out / f"runs/none-{repeat}/run.json", lambda run: run.update(points=points))
    after = samples.collect(out)
    assert after["point"].unique(maintain_order=True).to_list() == [*map(json.dumps, points)]
    for point in points:
        here = after.filter(point=json.dumps(point))
        assert here["value"].to_list() == before["value"].to_list()


def test_a_runs_own_cpus_and_capacity_count(out: Path) -> None:
    before = first_run(samples.collect(out), None)
    own = {"cpus": 2, "capacity_iops": 40000.0}
    edit(out / "runs/none-0/run.json", lambda run: run.update(own))
    after = first_run(samples.collect(out), None)
    assert after["device_utilisation"] == pytest.approx(before["device_utilisation"] / 4)
    assert after["cpu_utilisation"] == pytest.approx((2 * 0.9 - 0.4 * 0.9) / (2 * 0.9))


def test_several_devices_are_busy_in_the_mean(out: Path) -> None:
    before = first_run(samples.collect(out), None)
    edit(out / "runs/none-0/run.json", lambda run: run.update(devices=2))
    after = first_run(samples.collect(out), None)
    assert after["device_busy"] == pytest.approx(before["device_busy"] / 2)


def test_contended_locks_are_those_while_io_goes_on(out: Path) -> None:
    path = out / "runs/none-0/out/samples.csv"
    rows = [[int(cell) for cell in row.split(",")] for row in path.read_text().splitlines()[1:]]
    first, last = rows[5], rows[-2]  # with requests in flight
    waits = [f"{row[0]},{10 * row[3] + (0 if row[0] < first[0] else 77)}" for row in rows]
    (path.parent / "locks.csv").write_text("\n".join(["time_ns,contended", *waits]) + "\n")
    found = first_run(samples.collect(out), None)["contended_locks_per_io"]
    assert found == pytest.approx(10)
    assert last[3] > first[3]


def test_unknown_capacity_gives_no_utilisation(out: Path) -> None:
    edit(out / "environment.json", lambda content: content["device"].update(capacity_iops=None))
    found = first_run(samples.collect(out), None)
    assert "device_utilisation" not in found
    assert "device_busy" in found


def test_io_too_quick_to_be_seen_in_flight_counts(out: Path) -> None:
    path = out / "runs/none-0/out/samples.csv"
    before = first_run(samples.collect(out), None)
    lines = [line.split(",") for line in path.read_text().splitlines()]
    for line in lines[1:]:
        line[7] = "0"
    path.write_text("\n".join(",".join(line) for line in lines))
    after = first_run(samples.collect(out), None)
    assert after["instructions_per_io"] == pytest.approx(before["instructions_per_io"], rel=0.02)


def test_run_too_short_for_counters_has_no_utilisation(out: Path) -> None:
    path = out / "runs/none-0/out/samples.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:6]) + "\n")
    assert first_run(samples.collect(out), None) == {}


# ---- the device's counters ------------------------------------------------------


@pytest.fixture
def flash(tmp_path: Path) -> Path:
    return rundirs.make(tmp_path / "flash", dataclasses.replace(SMALL, device="flash"))


def over_time(table: pl.DataFrame) -> list[tuple[float, float]]:
    rows = table.filter(pl.col("time_s").is_not_null(), run="none-0", metric="device_utilisation")
    return list(rows.select("time_s", "value").iter_rows())


def device_rows(out: Path) -> list[dict[str, int]]:
    lines = (out / "runs/none-0/out/device.csv").read_text().splitlines()
    heading, *rest = (line.split(",") for line in lines)
    return [dict(zip(heading, map(int, line), strict=True)) for line in rest]


def test_parts_are_as_busy_as_they_say(flash: Path) -> None:
    found = first_run(samples.collect(flash), None)
    # The guest sees requests in flight from its sample 5 (0.5 s) to its sample 14 (1.4 s). The
    # drive's sample 14 comes 3 µs later, so its sample 13 is the last that counts.
    first, last = device_rows(flash)[5], device_rows(flash)[13]
    seconds = (last["time_ns"] - first["time_ns"]) / 1e9
    assert seconds == pytest.approx(0.8)
    dies = ("die_read_ns", "die_program_ns", "die_copy_ns")
    busy = sum(last[name] - first[name] for name in dies) / 1e9
    assert found["dies_utilisation"] == pytest.approx(busy / seconds / rundirs.DIES)
    bus = (last["bus_busy_ns"] - first["bus_busy_ns"]) / 1e9
    assert found["bus_utilisation"] == pytest.approx(bus / seconds)
    assert 0 < found["controller_utilisation"] < found["bus_utilisation"]
    assert found["device_utilisation"] == found["dies_utilisation"] > found["bus_utilisation"]


def test_device_is_as_full_as_its_fullest_part_in_each_interval(flash: Path) -> None:
    path = flash / "runs/none-0/out/device.csv"
    heading, *lines = (line.split(",") for line in path.read_text().splitlines())
    for index, line in enumerate(lines):  # from 1 s on the bus is always busy
        line[heading.index("bus_busy_ns")] = str(max(index - 10, 0) * 100_000_000)
    path.write_text("\n".join(",".join(line) for line in (heading, *lines)) + "\n")
    found = over_time(samples.collect(flash))
    dies = first_run(samples.collect(flash), None)["dies_utilisation"]
    assert [time for time, _ in found] == pytest.approx([0.1 * n for n in range(1, 9)], abs=1e-4)
    used = [value for _, value in found]
    assert used[:5] == pytest.approx([dies] * 5, rel=0.02)
    assert used[5:] == pytest.approx([1.0] * 3)


def test_null_is_as_full_as_what_it_completes(out: Path) -> None:
    found = over_time(samples.collect(out))
    rows = (out / "runs/none-0/out/samples.csv").read_text().splitlines()[1:]
    done = [int(row.split(",")[3]) for row in rows]
    assert [time for time, _ in found] == pytest.approx([0.1 * n for n in range(1, 10)])
    for index, (_, used) in enumerate(found):
        completed = done[6 + index] - done[5 + index]
        assert used == pytest.approx(completed / 0.1 / 10000)


def test_only_the_devices_own_parts_are_metrics(flash: Path, out: Path) -> None:
    assert not any("dies" in metric for metric in samples.collect(out)["metric"])
    parts = {"arm": {"busy": ["die_read_ns"], "places": None}}
    edit(flash / "environment.json", lambda content: content["device"].update(parts=parts))
    found = first_run(samples.collect(flash), None)
    utilisations = {metric for metric in found if metric.endswith("_utilisation")}
    assert utilisations == {"cpu_utilisation", "device_utilisation", "arm_utilisation"}
    assert found["device_utilisation"] == found["arm_utilisation"]


def test_device_without_parts_has_no_counters_of_its_own(out: Path) -> None:
    before = samples.collect(out)
    assert "parts" not in records.read_environment(out)["device"]
    edit(out / "environment.json", lambda content: content["device"].update(parts={}))
    assert samples.collect(out).equals(before)


@pytest.mark.parametrize("content", [None, "", "time_ns,dies\n1,1\n", "time_ns,dies\n1,x\n"])
def test_damaged_device_counters_are_named(flash: Path, content: str | None) -> None:
    path = flash / "runs/none-0/out/device.csv"
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(LabError, match=r"device\.csv.*--resume"):
        samples.collect(flash)


# ---- unreadable results ---------------------------------------------------------


def test_notes_before_the_json_are_skipped(out: Path) -> None:
    path = out / "runs/none-0/out/fio.json"
    path.write_text("fio: this platform does not support affinity\n" + path.read_text())
    assert not samples.collect(out).is_empty()


def test_histogram_missing_says_what_to_do(out: Path) -> None:
    def drop(fio: dict[str, Any]) -> None:
        del fio["jobs"][0]["read"]["lat_ns"]["bins"]

    edit(out / "runs/none-0/out/fio.json", drop)
    with pytest.raises(LabError, match="lat_percentiles=1"):
        samples.collect(out)


def test_group_reporting_is_noticed(out: Path) -> None:
    edit(out / "runs/none-0/out/fio.json", lambda fio: fio["jobs"].pop())
    with pytest.raises(LabError, match="group_reporting"):
        samples.collect(out)


@pytest.mark.parametrize("name", ["fio.json", "samples.csv"])
@pytest.mark.parametrize("content", [None, "", '{"jobs": [', "time_ns,reads\n1,x\n"])
def test_damaged_file_is_named(out: Path, name: str, content: str | None) -> None:
    path = out / "runs/none-0/out" / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(LabError, match=f"{name}.*--resume"):
        samples.collect(out)


def test_folder_without_results_makes_no_sense(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"environment\.json"):
        samples.collect(tmp_path)


def test_what_an_environment_does_not_say_is_named(out: Path) -> None:
    edit(out / "environment.json", lambda environment: environment.pop("schedulers"))
    with pytest.raises(LabError, match=r"it does not say schedulers\. Delete that file alone"):
        samples.collect(out)


def late_share(out: Path, **deadlines: int) -> float:
    changes = {"judged_by": ["late_share"], "deadlines": deadlines}
    edit(out / "environment.json", lambda environment: environment.update(changes))
    return first_run(samples.collect(out), None)["late_share"]


def test_a_request_is_late_that_took_longer_than_its_jobs_deadline(out: Path) -> None:
    """Only the job with a deadline counts: its histogram tells the share of late requests."""
    threads = json.loads((out / "runs/none-0/out/fio.json").read_text())["jobs"]
    bins: Counter[int] = Counter()
    for thread in threads:
        if thread["jobname"] == "a":
            bins.update({int(value): n for value, n in thread["read"]["lat_ns"]["bins"].items()})
    deadline_us = percentile(bins, 800) // 1000
    expected = sum(n for value, n in bins.items() if value > deadline_us * 1000) / bins.total()
    assert 0.1 < expected < 0.3
    assert late_share(out, a=deadline_us) == pytest.approx(expected)


def test_who_completes_nothing_is_late_with_everything_beside_who_is_in_time(out: Path) -> None:
    """Job b completes nothing: it counts as entirely late. Job c is not run: it does not count."""
    never_us = 10**9
    assert late_share(out, a=never_us, b=never_us, c=1) == 0

    def starve(fio: dict[str, Any]) -> None:
        fio["jobs"][1]["write"] = fio["jobs"][1]["read"]

    edit(out / "runs/none-0/out/fio.json", starve)
    assert late_share(out, a=never_us, b=never_us, c=1) == 0.5
    assert late_share(out, b=never_us) == 1
    assert late_share(out, c=1) == 0


def test_threads_of_one_job_are_late_together(out: Path) -> None:
    """Of a job's eight requests, the two of one thread are late: a quarter."""

    def two(fio: dict[str, Any]) -> None:
        for job, bins in zip(fio["jobs"], ({"1000": 6}, {"9000": 2}), strict=True):
            done = {"total_ios": 6, "io_bytes": 6, "runtime": 1000}
            latency = {"N": 6, "mean": 1.0, "max": 1, "bins": bins}
            job |= {"jobname": "a", "read": {**done, "lat_ns": latency}, "write": job["trim"]}

    edit(out / "runs/none-0/out/fio.json", two)
    edit(out / "runs/none-0/run.json", lambda run: run.update(sections=["a"]))
    assert late_share(out, a=5) == 0.25


def test_a_process_that_never_started_is_no_starved_one(out: Path) -> None:
    def stop(fio: Any) -> None:
        fio["jobs"][0]["job_runtime"] = 0
        fio["jobs"][0]["read"]["total_ios"] = 0

    edit(out / "runs/none-0/out/fio.json", stop)
    with pytest.raises(LabError, match="never started"):
        samples.collect(out)


# ---- complete messages, and edge cases --------------------------------------------

AGAIN = (
    "Delete the run's folder and use --resume to run it again; all other finished runs are kept."
)


def refused(out: Path) -> str:
    with pytest.raises(LabError) as error:
        samples.collect(out)
    return str(error.value).removeprefix(f"{out}/runs/none-0/out/")


def test_what_fio_lacks_is_told_with_the_option_to_take_out(out: Path) -> None:
    path = out / "runs/none-0/out/fio.json"
    whole = path.read_text()
    edit(path, lambda fio: fio["jobs"][0]["read"]["lat_ns"].pop("bins"))
    assert refused(out) == (
        "fio.json: there is no histogram of a's total latency. fio must run with "
        "lat_percentiles=1 and --output-format=json+: take lat_percentiles=0 and disable_lat out "
        "of the job file."
    )
    path.write_text(whole)
    edit(path, lambda fio: fio["jobs"][0].update(job_runtime=0, read=fio["jobs"][0]["trim"]))
    assert refused(out) == "fio.json: a process of a never started; fio.log there may say why"
    path.write_text(whole)
    edit(out / "runs/none-0/run.json", lambda run: run.update(sections=["a", "b", "c"]))
    assert refused(out) == (
        "fio.json reports on a, b alone, although the jobs were a, b, c: take group_reporting out "
        "of the job file."
    )


def test_counters_of_another_kind_are_told_by_their_columns(out: Path, flash: Path) -> None:
    (out / "runs/none-0/out/samples.csv").write_text("time_ns,reads\n1,1\n")
    assert refused(out) == (
        f"samples.csv: its columns are not {','.join(samples.COUNTERS)}. {AGAIN}"
    )
    (flash / "runs/none-0/out/device.csv").write_text("time_ns,dies,die_read_ns\n1,1,1\n")
    assert refused(flash) == (
        f"device.csv: it lacks bus_busy_ns, ctrl_busy_ns, die_copy_ns, die_program_ns. {AGAIN}"
    )


def test_a_process_that_started_and_completed_nothing_has_starved(out: Path) -> None:
    def starve(fio: Any) -> None:
        fio["jobs"][0]["read"] = fio["jobs"][0]["trim"]

    edit(out / "runs/none-0/out/fio.json", starve)
    assert first_run(samples.collect(out), "a")["iops"] == 0


def test_a_level_for_all_jobs_holds_for_those_without_their_own(out: Path) -> None:
    """Priority level 6 has weight 2, and level 0 has weight 8: these bytes are fair shares."""

    def share(fio: dict[str, Any]) -> None:
        fio["global options"] = {"prio": "6"}
        for job, options, done in zip(fio["jobs"], ({}, {"prio": "0"}), (1000, 4000), strict=True):
            job["job options"] = options
            for way in ("read", "write"):
                job[way]["io_bytes"] = 0
            job["read"]["io_bytes"] = done

    edit(out / "runs/none-0/out/fio.json", share)
    assert judged(out)["jain_index"] == pytest.approx(1)


def test_a_scheduler_that_the_environment_does_not_name_comes_last(tmp_path: Path) -> None:
    loads = dict.fromkeys(("bfq", "kyber", "none"), SMALL.loads["none"])
    out = rundirs.make(tmp_path / "out", dataclasses.replace(SMALL, loads=loads, repeats=1))
    edit(out / "environment.json", lambda told: told.update(schedulers=["none", "kyber"]))
    order = samples.collect(out)["scheduler"].unique(maintain_order=True).to_list()
    assert order == ["none", "kyber", "bfq"]


@pytest.mark.parametrize(("counted", "found"), [(1, None), (2, 9)])
def test_locks_need_two_counts(out: Path, counted: int, found: int | None) -> None:
    path = out / "runs/none-0/out/samples.csv"
    rows = [[int(cell) for cell in row.split(",")] for row in path.read_text().splitlines()[1:]]
    first, last = rows[5], rows[-2]  # with requests in flight
    done = sum(last[3:7]) - sum(first[3:7])
    counts = [f"{last[0]},{9 * done + 1}"] + [f"{first[0]},1"] * (counted - 1)
    (path.parent / "locks.csv").write_text("\n".join(["time_ns,contended", *counts[::-1]]) + "\n")
    told = first_run(samples.collect(out), None).get("contended_locks_per_io")
    assert told == (None if found is None else pytest.approx(found))


def test_a_device_that_was_seen_twice_has_a_utilisation(flash: Path) -> None:
    path = flash / "runs/none-0/out/device.csv"
    heading, *lines = path.read_text().splitlines()
    path.write_text("\n".join([heading, lines[6], lines[9]]) + "\n")
    assert len(over_time(samples.collect(flash))) == 1
    path.write_text("\n".join([heading, lines[6]]) + "\n")
    assert over_time(samples.collect(flash)) == []
    assert "dies_utilisation" not in first_run(samples.collect(flash), None)


def test_a_histogram_has_the_flushes_that_a_job_waits_for(out: Path) -> None:
    before = samples.histograms(out, "a")["{}", "none"]

    def flush(fio: Any) -> None:
        fio["jobs"][0]["sync"] = {"total_ios": 3, "lat_ns": {"N": 3, "bins": {"77": 3}}}

    edit(out / "runs/none-0/out/fio.json", flush)
    after = samples.histograms(out, "a")["{}", "none"]
    assert after - before == Counter({77: 3})
