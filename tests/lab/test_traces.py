# SPDX-License-Identifier: GPL-2.0-only
"""Tests of traces: all formats give the same requests.

A job's processes share the requests, and each request fits on the device.
"""

import re
import subprocess
from pathlib import Path

import pytest
from triagelab.ask import devices, fiofile, traces
from triagelab.base import tools
from triagelab.base.errors import RequestError

MSR = """\
# a comment
128166372000000000,host,0,Read,8192,4096,100
128166372000015000,host,0,Write,65536,8192,100
"""
ALIBABA = "device_id,opcode,offset,length,timestamp\n3,R,8192,4096,7000\n3,W,65536,8192,8500\n"
BLKPARSE = """\
  8,0    1        1     2.000000000   697  Q   R 16 + 8 [fio]
  8,0    1        2     2.000001000   697  G   R 16 + 8 [fio]
  8,0    1        4     2.001500000   697  Q  WS 128 + 16 [fio]
  8,0    0        3     2.001400000   697  Q   D 128 + 16 [fio]
CPU0 (8,0):
 Reads Queued:           1,        4KiB
"""
IOLOG = """\
fio version 3 iolog
0 /dev/sda add
0 /dev/sda open
40 /dev/sda read 8192 4096
1540 /dev/sda write 65536 8192
1600 /dev/sda close
"""
JOB = (
    "[t]\nioengine=psync\nread_iolog=trace\nnumjobs={processes}\nruntime={runtime}\n"
    "replay_time_scale={speed}\n"
)


def written(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text)
    return path


def replayed(
    folder: Path, text: str, processes: int = 1, runtime: str = "10", speed: int = 100
) -> list[list[str]]:
    """Return the requests' lines in each process's iolog, without the three lines before them."""
    written(folder, text)
    job = folder / "job.fio"
    job.write_text(JOB.format(processes=processes, runtime=runtime, speed=speed))
    given = traces.files(fiofile.read(job), ("t",), devices.find("flash", {}))
    return [lines_of(content) for content in given.values()]


def lines_of(content: Path | str) -> list[str]:
    """Return the requests' lines in a process's iolog, without the three lines before them."""
    assert isinstance(content, Path)
    return content.read_text().splitlines()[3:]


@pytest.mark.parametrize("text", [MSR, ALIBABA, BLKPARSE, IOLOG])
def test_every_format_has_the_same_requests(tmp_path: Path, text: str) -> None:
    found = [
        (each.time_us, each.action, each.offset, each.length)
        for each in traces.read(written(tmp_path, text)).requests
    ]
    assert found == [(0, "read", 8192, 4096), (1500, "write", 65536, 8192)]


def test_a_flush_is_waited_for(tmp_path: Path) -> None:
    flush = "  8,0    1        5     2.002000000   697  Q  FN [jbd2]\n"
    assert traces.read(written(tmp_path, BLKPARSE + flush)).requests[-1].action == "datasync"
    assert replayed(tmp_path, BLKPARSE + flush)[0][-1] == "2001 device datasync 0 0"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not a trace: it has no line"),
        ("# a comment\n\n", "is not a trace: it has no line"),
        ("fio version 2 iolog\n/dev/sda read 0 4096\n", "is not a trace"),
        (ALIBABA + "4,R,0,512,9000\n", "requests of 2 devices (3, 4"),
        (IOLOG.partition("40 ")[0], "has no request"),
        ("1,h,0,Erase,0,512,1\n" * 2, "has no request; left out: lines that are not as in a CSV"),
        ("3,R,0,0,1\n", "has no request; left out: requests without data (1)"),
        (
            BLKPARSE.partition("\n")[0].replace(" Q ", " C "),
            "has no request; left out: events that are not Q, a request queued (1)",
        ),
    ],
)
def test_what_makes_no_sense_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(RequestError) as error:
        traces.read(written(tmp_path, text))
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ALIBABA, []),
        (
            BLKPARSE,
            ["left out: events that are not Q, a request queued (1); discards (1); lines that are "
             "not as in blkparse's text (2), the first of them line 5, 'CPU0 (8,0):'"],
        ),
        (
            MSR + "128166372000015000,host,0,Erase,65536,8192,100\n1281,host,0,Re",
            ["left out: lines that are not as in a CSV of MSR Cambridge (2), the first of them "
             "line 4, '128166372000015000,host,0,Erase,65536,8192,100'"],
        ),
        (
            ALIBABA + "3,R,-8192,4096,9000\n3,R,0,0,9000\n",
            ["left out: requests without data (1); lines that are not as in a CSV of Alibaba (1), "
             "the first of them line 4, '3,R,-8192,4096,9000'"],
        ),
        (
            IOLOG + "1700 /dev/sda trim 0 512\n1700 /dev/sda read\n",
            ["left out: discards (1); lines that are not as in fio's iolog (1), the first of them "
             "line 8, '1700 /dev/sda read'"],
        ),
        (
            ALIBABA + "3,R,0,512,8499\n3,R,0,512,8600\n",
            ["sorted by time: requests that were before the one above them (1)"],
        ),
    ],
)  # fmt: skip
def test_lines_that_are_no_request_are_told(tmp_path: Path, text: str, told: list[str]) -> None:
    assert traces.read(written(tmp_path, text)).notes == told


def test_a_trace_is_read_once_for_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "cache"))
    read: list[traces.Trace] = []
    ours = traces.read

    def counted(path: Path) -> traces.Trace:
        read.append(ours(path))
        return read[-1]

    monkeypatch.setattr(traces, "read", counted)
    first = replayed(tmp_path, MSR)
    assert replayed(tmp_path, MSR) == first and len(read) == 1
    assert replayed(tmp_path, MSR, processes=2) != first and len(read) == 2
    assert replayed(tmp_path, ALIBABA) == first and len(read) == 3


def test_runs_are_named_by_the_requests_that_they_replay(tmp_path: Path) -> None:
    def folder(text: str) -> str:
        written(tmp_path, text)
        job = tmp_path / "job.fio"
        job.write_text(JOB.format(processes=1, runtime=10, speed=100))
        given = traces.files(fiofile.read(job), ("t",), devices.find("flash", {}))
        return Path(given["t-0.iolog"]).parent.name

    assert folder(MSR) == folder(ALIBABA) != folder(ALIBABA + "3,R,0,4096,9000\n")


def test_what_a_replay_leaves_out_is_told_with_the_trace(tmp_path: Path) -> None:
    written(tmp_path, IOLOG + "1700 /dev/sda trim 0 512\n")
    job = tmp_path / "job.fio"
    job.write_text(JOB.format(processes=1, runtime=10, speed=100))
    given = fiofile.read(job)
    device = devices.find("flash", {})
    assert traces.notes(given, ("t",), device) == ["the trace trace: left out: discards (1)"]
    assert traces.notes(given, (), device) == []


def test_requests_are_shared_out_and_stay_on_the_device(tmp_path: Path) -> None:
    size = 32768 << 20
    text = "".join(f"3,R,{place * size + 1000},4096,{place}\n" for place in range(5))
    first, second = replayed(tmp_path, text, processes=2)
    assert [line.split()[0] for line in first] == ["1", "3", "5"]
    assert [line.split()[0] for line in second] == ["2", "4"]
    for line in (*first, *second):
        offset, length = map(int, line.split()[3:])
        assert offset % 512 == 0 and length == 4608 and offset == 512


def test_a_sequential_stream_past_the_end_stays_sequential(tmp_path: Path) -> None:
    """A stream that reaches the end of the modelled device goes on at the device's start.

    The request across the end is cut off there.
    """
    size = 32768 << 20
    lengths = [4096, 65536, 512, 131072, 8192]
    offsets = [size - 4096 - 1024 + sum(lengths[:place]) for place in range(5)]
    text = "".join(
        f"3,R,{offset},{length},{offset}\n" for offset, length in zip(offsets, lengths, strict=True)
    )
    (lines,) = replayed(tmp_path, text, runtime="0")
    found = [tuple(map(int, line.split()[3:])) for line in lines]
    assert found[:2] == [(size - 5120, 4096), (size - 1024, 1024)]
    assert found[2:] == [(64512, 512), (65024, 131072), (196096, 8192)]


def test_what_comes_after_the_runtime_is_left_out(tmp_path: Path) -> None:
    text = "".join(f"3,R,0,4096,{second * 1000000}\n" for second in range(8))
    assert len(replayed(tmp_path, text, runtime="3")[0]) == 3
    assert len(replayed(tmp_path, text, runtime="3", speed=200)[0]) == 6
    with pytest.raises(RequestError, match="only 3 requests to replay"):
        replayed(tmp_path, text, runtime="3", processes=4)


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        ("runtime=1m", 60),
        ("runtime=5000ms", 5),
        ("timeout=5", 5),
        ("runtime=5\nreplay_time_scale=0x64", 5),
        ("runtime=5\nreplay_time_scale=50", 3),
        ("runtime=0", 80),
        ("", 80),
        ("runtime=5\nreplay_no_stall=0x1", 80),
        ("runtime=5\nreplay_no_stall=00", 5),
    ],
)
def test_the_runtime_is_read_as_fio_reads_it(tmp_path: Path, options: str, requests: int) -> None:
    written(tmp_path, "".join(f"3,R,0,4096,{second * 1000000}\n" for second in range(80)))
    job = tmp_path / "job.fio"
    job.write_text(f"[t]\nread_iolog=trace\n{options}\n")
    (content,) = traces.files(fiofile.read(job), ("t",), devices.find("flash", {})).values()
    assert len(lines_of(content)) == requests


@pytest.mark.parametrize("line", ["runtime=1min", "replay_time_scale=1k", "replay_no_stall=yes"])
def test_an_option_of_a_replay_that_cannot_be_read_is_refused(tmp_path: Path, line: str) -> None:
    written(tmp_path, MSR)
    job = tmp_path / "job.fio"
    job.write_text(f"[t]\nread_iolog=trace\n{line}\n")
    with pytest.raises(RequestError, match=f"job t: {line}: .* is not a plain"):
        traces.files(fiofile.read(job), ("t",), devices.find("flash", {}))


def test_a_missing_trace_is_told(tmp_path: Path) -> None:
    job = tmp_path / "job.fio"
    job.write_text(JOB.format(processes=1, runtime=1, speed=100))
    with pytest.raises(RequestError, match="no trace trace"):
        traces.files(fiofile.read(job), ("t",), devices.find("flash", {}))


def test_fio_replays_it_at_the_recorded_times(tmp_path: Path) -> None:
    """Each of two processes takes at least 300 ms: its two requests are 300 ms apart.

    fio reads the times in an iolog of version 3 as µs.
    """
    text = "".join(f"3,R,{4096 * place},4096,{place * 150000}\n" for place in range(4))
    written(tmp_path, text)
    (tmp_path / "job.fio").write_text(JOB.format(processes=2, runtime=10, speed=100))
    workload = fiofile.read(tmp_path / "job.fio")
    for name, content in traces.files(workload, ("t",), devices.find("flash", {})).items():
        (tmp_path / name).write_text(Path(content).read_text())
    (tmp_path / "out" / "logs").mkdir(parents=True)
    (tmp_path / "disk").write_bytes(bytes(1 << 20))
    ready = workload.prepared(("md0",), 1, ("t",)).replace("/dev/md0", str(tmp_path / "disk"))
    assert ready.count("read_iolog=") == 1
    (tmp_path / "ready.fio").write_text(ready)
    done = subprocess.run(
        [tools.path(tools.FIO), "--output-format=terse", "ready.fio"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line.split(";") for line in done.stdout.splitlines() if re.match(r"\d+;fio", line)]
    assert len(lines) == 2
    for fields in lines:
        assert fields[5] == "8"  # KiB read: two requests
        assert 300 <= int(fields[8]) < 3000  # runtime in ms
