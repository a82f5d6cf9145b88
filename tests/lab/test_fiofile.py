# SPDX-License-Identifier: GPL-2.0-only
"""Tests of job files: options that the lab reads, keeps, replaces, adds or refuses."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from triagelab.ask import fiofile
from triagelab.base.errors import RequestError

TEXT = """\
; a user's file
[global]
ioengine=libaio
prioclass=2
filename=/dev/sda
[urgent]
rw=randread
prio=1
runtime=1
[bulk]
rw=read
prio=7
group_reporting
runtime=1
"""


def read(folder: Path, text: str) -> fiofile.FioFile:
    path = folder / "job.fio"
    path.write_text(text)
    file = fiofile.read(path)
    file.check()
    return file


def test_global_options_reach_every_job_and_its_own_win(tmp_path: Path) -> None:
    urgent, bulk = read(tmp_path, TEXT + "prioclass=3\n").jobs
    assert urgent.options["prioclass"] == "2"
    assert bulk.options["prioclass"] == "3"


def test_jobs_never_touch_the_device_the_file_names(tmp_path: Path) -> None:
    prepared = read(tmp_path, TEXT).prepared(("nullb0",), 7, ("urgent", "bulk"))
    assert "sda" not in prepared
    assert prepared.count("filename=/dev/nullb0") == 2


def test_jobs_are_reported_one_by_one(tmp_path: Path) -> None:
    workload = read(tmp_path, TEXT)
    assert "group_reporting" not in workload.prepared(("nullb0",), 7, ("urgent", "bulk"))
    assert workload.replaced() == ["filename=/dev/sda", "group_reporting"]


def test_only_the_chosen_jobs_are_run_with_the_same_seeds_and_logs_by_place(tmp_path: Path) -> None:
    workload = read(tmp_path, TEXT)
    both = workload.prepared(("nullb0",), 7, ("urgent", "bulk"))
    alone = workload.prepared(("nullb0",), 7, ("bulk",))
    assert "[urgent]" not in alone
    seeds = [line for line in both.splitlines() if line.startswith("randseed=")]
    assert len(set(seeds)) == 2
    assert seeds[1] in alone
    assert "write_lat_log=out/logs/0" in alone
    assert "write_lat_log=out/logs/1" in both


def test_fio_accepts_what_the_lab_makes(tmp_path: Path) -> None:
    again = tmp_path / "prepared.fio"
    again.write_text(read(tmp_path, TEXT).prepared(("nullb0",), 7, ("urgent", "bulk")))
    file = fiofile.read(again)
    file.check()
    assert [job.name for job in file.jobs] == ["urgent", "bulk"]


def test_urgency_follows_the_io_priority(tmp_path: Path) -> None:
    text = "".join(
        f"[{name}]\nrw=read\n{options}\n"
        for name, options in {
            "idle": "prioclass=3",
            "unset": "",
            "be1": "prioclass=2\nprio=1",
            "rt7": "prioclass=1\nprio=7",
            "be5": "prioclass=0x2\nprio=0X5",  # fio takes hexadecimal
        }.items()
    )
    ranked = sorted(read(tmp_path, text).jobs, key=lambda job: job.urgency)
    assert [job.name for job in ranked] == ["rt7", "be1", "unset", "be5", "idle"]


@pytest.mark.parametrize(
    ("options", "processes"),
    [
        ("", 1),
        ("numjobs=12", 12),
        ("numjobs=0x10", 16),
    ],
)
def test_fio_writes_numbers_in_more_ways_than_one(
    tmp_path: Path, options: str, processes: int
) -> None:
    (job,) = read(tmp_path, f"[a]\nrw=read\n{options}\n").jobs
    assert job.processes == processes
    assert job.urgency == (1, 4)


@pytest.mark.parametrize(
    "line",
    [
        "numjobs=$ncpus",
        "numjobs=2k",
        "numjobs=1.5",
        "numjobs=3 4",
        "prio=1,2",
        f"prio={'0' * 5000}",
    ],
)
def test_a_number_that_fio_would_calculate_is_refused(tmp_path: Path, line: str) -> None:
    """If the lab read a priority otherwise than fio does, it could protect the wrong job."""
    with pytest.raises(RequestError, match=r"is not a plain number; write one like 4 or 0x4"):
        read(tmp_path, f"[a]\nrw=read\n{line}\n")


#: Options that the lab reads as numbers.
NUMBERS = ("numjobs", "prio", "prioclass")
#: Job files as users write them, with one section or more; fio accepts each.
FROM_THE_WILD = [
    "[a]\nprioclass=3 # idle\nnumjobs=4 ; four\nrw=read\ngroup_reporting ; all\n",
    "[a]\nprioclass=3# idle\nnumjobs=4;four\nrw=randread;x # y\n",
    "[a] # [b]\nrw=read\n[b] ; c\n prio = 3 \n",
    "# [no]\n; [no]\n  [a]  \n\trw=read\n\n#numjobs=3\n;numjobs=4\nnumjobs=2\n",
    "[global]\nnumjobs=2\nioengine=libaio # a\n[a]\nrw=read\n[global]\nprio=3\n[b]\nnumjobs=3\n",
    "[globals]\nnumjobs=5\nprioclass=2\n[a]\nrw=read\n",
    "[a]\nrw=read\nnumjobs=010\nprio=0X5\nprioclass=0x1\n[b]\nprio=1\nprio=2\n",
    "[a]\nreadwrite=randrw:4\ngroup_reporting=1\nnr_files=1\nrandrepeat=0\n",
    "[a]\nrw=read\ndescription=a # b\nthinktime=1000;us\n[a b]\nnumjobs=1\n",
    "[a]\nrw=read\nunified_rw_reporting=1\nstats=1\nlog_offset=1 # column\nlat_percentiles=0\n",
]


@pytest.mark.parametrize("text", FROM_THE_WILD)
def test_the_lab_reads_what_fio_reads(tmp_path: Path, text: str) -> None:
    """The lab reads the sections, options, values and numbers that fio's debug output shows."""
    workload = read(tmp_path, text)
    path = tmp_path / "job.fio"
    said = subprocess.run(
        ["fio", "--parse-only", "--debug=parse", path], capture_output=True, text=True, check=True
    ).stdout
    sections: list[tuple[str, dict[str, str]]] = []
    numbers: dict[tuple[int, str], int] = {}
    option = ""
    for line in (line.partition(" ")[2].strip() for line in said.splitlines() if "parse" in line):
        line = re.sub(r"^\d+\s+", "", line)
        if match := re.fullmatch(r"Parsing section \[(.*)\]", line):
            sections.append((match[1], {}))
        elif match := re.fullmatch(r"handle_option=(\w+), ptr=(.*)", line):
            option = match[1]
            sections[-1][1][option] = match[2].strip() if match[2] != "(null)" else ""
        elif match := re.fullmatch(r"ret=0, out=(\d+)", line):
            numbers.setdefault((len(sections) - 1, option), int(match[1]))
    ours = [
        (section.name, dict(map(fiofile._option, section.lines))) for section in workload.sections
    ]
    alike = {"readwrite": "rw", "nr_files": "nrfiles", "globals": "global"}
    named = [
        (alike.get(name, name), {alike.get(option, option): value for option, value in of.items()})
        for name, of in ours
    ]
    assert named == [(alike.get(name, name), of) for name, of in sections]
    for (place, option), value in numbers.items():
        if option in NUMBERS and (text := sections[place][1][option]):
            last = fiofile.number(text)
            assert value == last or text == "2", (
                "only the first value of an option that is given twice may differ"
            )


def of_fio(folder: Path, option: str, value: str) -> int:
    """Return the number that fio makes of an option's value, from fio's debug output."""
    path = folder / "job.fio"
    path.write_text(f"[a]\nrw=read\n{option}={value}\n")
    said = subprocess.run(
        ["fio", "--parse-only", "--debug=parse", path], capture_output=True, text=True, check=True
    ).stdout
    return int(re.findall(r"ret=0, out=(\d+)", said)[-1])


@pytest.mark.parametrize(
    "text",
    ["5", "010", "0", "5s", "5S", "5000ms", "5000msec", "1m", "1M", "2h", "1d", "7us", "7USEC"],
)
def test_a_time_is_read_as_fio_reads_it(tmp_path: Path, text: str) -> None:
    for option in ("runtime", "timeout"):
        (job,) = read(tmp_path, f"[a]\nrw=read\n{option}={text}\n").jobs
        assert job.time_us("runtime", -1) == of_fio(tmp_path, option, text)


@pytest.mark.parametrize("text", ["5min", "5sec", "0x10", "1.5", "1:30", "+5", "5 s", "-1", "1ns"])
def test_a_time_that_fio_reads_as_nobody_expects_is_refused(tmp_path: Path, text: str) -> None:
    (job,) = read(tmp_path, f"[a]\nrw=read\nruntime={text}\n").jobs
    with pytest.raises(
        RequestError, match=r"is not a plain time; write one like 5, 5s, 5000ms or 1m"
    ):
        job.time_us("runtime", 0)


@pytest.mark.parametrize("text", ["4096", "4k", "4K", "4kb", "512b", "1m", "2G"])
def test_a_size_is_read_as_fio_reads_it(tmp_path: Path, text: str) -> None:
    assert fiofile.size(text) == of_fio(tmp_path, "bs", text)


def test_a_size_that_is_less_than_it_seems_is_refused(tmp_path: Path) -> None:
    assert of_fio(tmp_path, "bs", "4kib") == 4000
    with pytest.raises(ValueError, match="'4kib' is not a plain size"):
        fiofile.size("4kib")


def test_no_option_has_another_name_that_the_lab_does_not_know() -> None:
    known = {*fiofile._REPLACED, *fiofile._REFUSED, *fiofile._REFUSED_ON_HOST, "readwrite"}
    read_ = known | {*NUMBERS, *fiofile._ALIASES, "rw", "ioengine"}
    read_ |= {"runtime", "replay_time_scale", "replay_no_stall"}
    for option in read_ - {"include"}:  # fio has no option `include`
        told = subprocess.run(["fio", f"--cmdhelp={option}"], capture_output=True, text=True).stdout
        for name in re.findall(r"^\s*alias: (\w+)$", told, re.M):
            assert name in read_, f"another name of {option}"


@pytest.mark.parametrize("line", ["[a;b]", "[]", "[a", "[a] x", "[[a]]"])
def test_a_section_that_fio_would_call_otherwise_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(RequestError, match=r"does not name a job: write \[name\]"):
        read(tmp_path, f"{line}\nrw=read\n")


def test_a_job_is_called_by_its_section(tmp_path: Path) -> None:
    """The option `name` is refused: the lab finds fio's results by the section's name."""
    with pytest.raises(RequestError, match="remove name"):
        read(tmp_path, "[a]\nname=b\nrw=read\n")


def test_an_option_that_stands_for_nothing_may_have_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "job.fio"
    path.write_text("[a]\nrw=read\nprio=${LEVEL} # its level\n")
    assert "prio" not in fiofile.read(path, {"LEVEL": ""}).jobs[0].options


def test_environment_variables_are_filled_in_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPTH", "9")
    workload = read(tmp_path, "[a]\nrw=read\niodepth=${DEPTH}\n")
    assert workload.jobs[0].options["iodepth"] == "9"


def test_an_option_that_stands_for_nothing_is_not_set(tmp_path: Path) -> None:
    path = tmp_path / "job.fio"
    path.write_text("[a]\nrw=read\nprio=${LEVEL}\n")
    assert "prio" not in fiofile.read(path, {"LEVEL": ""}).jobs[0].options
    with pytest.raises(RequestError, match="prio="):  # a variable that nobody has set is an error
        fiofile.read(path).check()


def test_what_fio_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="iodepht"):
        read(tmp_path, "[a]\nrw=read\niodepht=3\n")


@pytest.mark.parametrize("line", ["directory=/tmp", "opendir=/tmp"])
def test_options_without_meaning_here_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(RequestError, match="device under test"):
        read(tmp_path, f"[a]\nrw=read\n{line}\n")


def test_a_file_without_jobs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no job"):
        read(tmp_path, "[global]\nrw=read\n")


@pytest.mark.parametrize(
    ("options", "works"),
    [
        ("ramp_time=1\nthinktime=500", False),
        ("ramp_time=100ms\nthinktime=1ms", False),
        ("ramp_time=0s\nthinktime=500", True),
        ("ramp_time=1\nthinktime=0", True),
        ("ramp_time=1", True),
    ],
)
def test_a_job_that_would_forget_its_pauses_is_refused(
    tmp_path: Path, options: str, works: bool
) -> None:
    """fio before 3.35 ignores thinktime after ramp_time: https://github.com/axboe/fio/pull/1549."""
    text = f"[global]\n{options}\n[a]\nrw=read\n"
    if works:
        read(tmp_path, text)
    else:
        with pytest.raises(RequestError, match="job a has ramp_time and thinktime"):
            read(tmp_path, text)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="cannot read"):
        fiofile.read(tmp_path / "none.fio")


def test_a_seed_decides_where_a_random_job_goes(tmp_path: Path) -> None:
    """fio reads at the same offsets with the same seed, and at other offsets with another seed."""
    target = tmp_path / "target"
    target.write_bytes(bytes(1 << 20))
    text = f"[a]\nrw=randread\nbs=4k\nsize=1m\nnumber_ios=9\nwrite_iolog={tmp_path}/places\n"
    workload = read(tmp_path, text)

    def places(seed: int) -> str:
        job = tmp_path / "prepared.fio"
        job.write_text(workload.prepared((f"..{target}",), seed, ("a",)))
        (tmp_path / "out/logs").mkdir(parents=True, exist_ok=True)
        (tmp_path / "places").unlink(missing_ok=True)  # fio appends to its log
        subprocess.run(["fio", job], cwd=tmp_path, check=True, capture_output=True)
        lines = (tmp_path / "places").read_text().splitlines()
        return " ".join(line.split()[-2] for line in lines if " read " in line)

    assert places(1) == places(1)
    assert places(1) != places(2)


@pytest.mark.parametrize(
    ("options", "writes"),
    [
        ("", False),  # without rw, fio reads
        ("rw=read", False),
        ("readwrite=randread:8", False),
        ("rw=write", True),
        ("rw=randrw", True),
        ("rw=trim", True),
        ("rw=read\nreadwrite=randwrite", True),
        ("rw=read\nverify=crc32c", True),
    ],
)
def test_what_might_write(tmp_path: Path, options: str, writes: bool) -> None:
    (job,) = read(tmp_path, f"[a]\n{options}\n").jobs
    assert job.writes == writes
    (job,) = read(tmp_path, f"[global]\n{options}\n[a]\nbs=8k\n").jobs
    assert job.writes == writes


@pytest.mark.parametrize(
    "line",
    [
        "filename=/dev/sda",
        "exec_prerun=rm -r precious",
        "read_iolog=log",
        "write_bw_log=/var/log/bandwidth",
        "mem=mmap:/var/precious",
        "ioengine=filecreate",
    ],
)
def test_what_could_touch_more_than_the_device(tmp_path: Path, line: str) -> None:
    for text in (f"[a]\nrw=read\n{line}\n", f"[global]\n{line}\n[a]\nrw=read\n"):
        path = tmp_path / "job.fio"
        path.write_text(text)
        with pytest.raises(RequestError, match="cannot be used on this computer"):
            fiofile.read(path).require_device_alone()


def test_a_file_within_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.fio"
    path.write_text("[a]\nrw=read\ninclude other.fio\n")
    (tmp_path / "other.fio").write_text("[b]\nrw=write\n")
    with pytest.raises(RequestError, match="remove include"):
        fiofile.read(path).check()


def test_many_files_are_read_by_one_fio_and_a_wrong_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = []
    for number in range(4):
        path = tmp_path / f"{number}.fio"
        path.write_text(f"[job]\nrw=read\nbs={number + 1}k\n")
        files.append(fiofile.read(path))
    calls: list[list[str]] = []
    run = subprocess.run

    def counted(words: list[str], **options: Any) -> Any:
        calls.append(words)
        return run(words, **options)

    monkeypatch.setattr(subprocess, "run", counted)
    fiofile.check(files)
    assert [len(words) for words in calls] == [2 + 4]
    path = tmp_path / "wrong.fio"
    path.write_text("[job]\nrw=reed\n")
    with pytest.raises(RequestError, match=r"(?s)fio does not accept .*wrong\.fio:.*reed"):
        fiofile.check([*files, fiofile.read(path)])
    path.write_text("[global]\nrw=read\n")
    with pytest.raises(RequestError, match=r"wrong\.fio defines no job"):
        fiofile.check([*files, fiofile.read(path)])


def test_fio_keeps_options_for_all_jobs_of_one_file_from_the_next(tmp_path: Path) -> None:
    first, second = tmp_path / "first.fio", tmp_path / "second.fio"
    first.write_text("[global]\nbs=4k\nrw=randread\n[one]\n")
    second.write_text("[other]\nrw=write\n")
    done = subprocess.run(
        ["fio", "--showcmd", first, second], check=True, capture_output=True, text=True
    )
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["fio", "--bs=4k", "--rw=randread", "--name=one"],
        ["fio", "--name=other", "--rw=write"],
    ]
