# SPDX-License-Identifier: GPL-2.0-only
"""Tests of bad input: ./triage exits with a helpful message, and leaves no process or result."""

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.product.product import SMALL, qemus, triage


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "small.fio"
    path.write_text(SMALL)
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "mixed-prioritiy"], "did you mean 'mixed-priority'"),
        (["run", "mixed-priority", "--schedulers", "none,kybr"], "did you mean 'kyber'"),
        (["run", "mixed-priority", "--device", "nul"], "did you mean 'null'"),
        (["run", "mixed-priority", "--machine", "simm"], "did you mean 'sim'"),
        (["run", "mixed-priority", "--kernel", "runing"], "did you mean 'running'"),
        (["run", "mixed-priority", "--kernel", "/no/vmlinuz"], "cannot read the kernel"),
        (["run", "mixed-priority", "--repeats", "0"], "expected 1 or more"),
        (["run", "mixed-priority", "--set", "depth=3"], "expected device.SETTING=N"),
        (["run", "mixed-priority", "--set", "device.depth=many"], "from 1 to 10240"),
        (["run", "mixed-priority", "--cpus", "0"], "from 1 to 64"),
        (["run", "mixed-priority", "--vary", "bs"], "expected NAME=VALUE"),
        (["run", "mixed-priority", "--vary", "bs=4k"], "unknown name to vary 'bs'"),
        (["run", "overhead", "--vary", "prio=sett"], "did you mean 'set'"),
        (["run", "mixed-priority", "--vary", "kybr.x=1"], "did you mean 'kyber'"),
        (["run", "scaling", "--set", "device.submit_queues=2"], "use --vary device.submit_queues"),
        (["run", "mixed-priority", "--module", "/no/x-iosched.ko"], "no such file"),
        (["run", "mixed-priority", "--module", "/no/x.ko"], "NAME-iosched.ko"),
        (["run", "/no/job.fio"], "no job file"),
        (["study", "--schedulers", "none,kybr"], "did you mean 'kyber'"),
        (["study", "--machine", "simm"], "did you mean 'sim'"),
        (["study", "--quick", "--repeats", "0"], "expected 1 or more"),
        (["study", "--machine", "vm", "--dask", "tcp://localhost:1"], "--dask is for sim"),
        (["report", "/no/such"], "not a run directory"),
        (["verify", "kybr"], "did you mean 'kyber'"),
        (["verify", "kyber", "--check", "02-clas-order"], "did you mean '02-class-order'"),
        (["verify", "kyber", "--kernel", "runing", "--debug"], "unknown kernel 'runing-debug'"),
        (["verify", "x", "--module", "/no/y-iosched.ko"], "no such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_request_that_makes_no_sense(tmp_path: Path, arguments: list[str], message: str) -> None:
    out = tmp_path / "out"
    more = ["--out", out] if arguments[0] in ("run", "study", "verify") else []
    done = triage(*arguments, *more)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not out.exists()
    assert "Traceback" not in done.stderr


def test_a_job_file_that_does_not_parse_is_told_in_fios_words(tmp_path: Path) -> None:
    path = tmp_path / "bad.fio"
    path.write_text("[a]\nrw=read\nblocksiez=4k\n")
    done = triage("run", path, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "Bad option <blocksiez=4k>" in done.stderr


def test_a_folder_with_something_in_it_is_not_written_to(tmp_path: Path, job: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    done = triage("run", job, "--device", "null", "--schedulers", "none", "--out", out)
    assert (done.returncode, "exists" in done.stderr) == (2, True)
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_a_missing_tool_is_named_with_its_package(tmp_path: Path, job: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            if (
                not program.name.startswith("qemu-system")
                and not (programs / program.name).exists()
            ):
                (programs / program.name).symlink_to(program)
    environment = {"PATH": str(programs), "TRIAGE_NO_INSTALL": "1"}
    done = triage(
        "run", job, "--device", "null", "--out", tmp_path / "out", environment=environment
    )
    assert done.returncode == 1
    assert "missing: qemu-system-x86_64" in done.stderr
    assert "apt-get install qemu-system-x86" in done.stderr


def test_a_kernel_that_does_not_boot_ends_the_run_with_its_console(
    tmp_path: Path, job: Path
) -> None:
    # Make an image with a boot header and code that resets the computer at once. Then make the
    # folder of modules that ./triage expects beside the image.
    image = bytearray(1 << 16)
    image[0x1F1] = 1
    image[0x1FE:0x200] = b"\x55\xaa"
    image[0x202:0x206] = b"HdrS"
    image[0x200:0x202] = b"\xeb\x66"  # jmp 0x268
    image[0x268:0x26F] = b"\xb0\xfe\xe6\x64\xf4\xeb\xfd"  # out 0x64, 0xfe; hlt
    image[0x206:0x208] = b"\x0f\x02"
    image[0x20E:0x210] = (0x100).to_bytes(2, "little")
    image[0x300:0x308] = b"9.9-none"
    modules = tmp_path / "lib/modules/9.9-none"
    modules.mkdir(parents=True)
    (modules / "modules.builtin").write_text("kernel/null_blk.ko\nkernel/configfs.ko\n")
    (modules / "modules.dep").touch()
    kernel = tmp_path / "vmlinuz"
    kernel.write_bytes(image)
    done = triage(
        "run",
        job,
        "--device",
        "null",
        "--schedulers",
        "none",
        "--kernel",
        kernel,
        "--out",
        tmp_path / "out",
    )
    assert done.returncode == 1
    assert "the kernel did not boot" in done.stderr
    assert "console.log" in done.stderr
    assert "Traceback" not in done.stderr
    assert not qemus(tmp_path)


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Mount a file system of `size` on `folder`."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "triage-test", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root and the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_too_little_space_is_told_before_anything_is_run(tmp_path: Path, job: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder, "20m"):
        done = triage(
            "run", job, "--device", "null", "--schedulers", "none", "--out", folder / "out"
        )
        assert done.returncode == 1
        assert "MiB free" in done.stderr
        assert not list((folder / "out").glob("runs/*"))


def test_a_disk_that_fills_up_is_told_and_nothing_runs_on(tmp_path: Path, job: Path) -> None:
    # The disk has the space that ./triage requires at the start. When the runs begin, dd fills it.
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder, "560m"):
        (folder / "ballast").write_bytes(b"\0" * (30 << 20))
        hog = subprocess.Popen(
            ["sh", "-c", f"while [ ! -d {folder}/out/runs ]; do sleep 0.1; done; "
             f"dd if=/dev/zero of={folder}/hog bs=1M 2>/dev/null"]
        )  # fmt: skip
        done = triage(
            "run", job, "--device", "null", "--schedulers", "none", "--out", folder / "out"
        )
        hog.wait()
        assert done.returncode == 1
        assert "no space left" in done.stderr.lower()
        assert "Traceback" not in done.stderr
        assert not qemus(folder)


def test_a_second_run_into_the_same_folder_waits_for_nobody(tmp_path: Path, job: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with (out / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = triage("run", job, "--device", "null", "--schedulers", "none", "--out", out)
    assert done.returncode == 1
    assert "another triage" in done.stderr
