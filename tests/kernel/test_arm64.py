# SPDX-License-Identifier: GPL-2.0-only
"""Tests of triage on another architecture: a guest with Debian's arm64 kernel runs checks."""

import lzma
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from triagelab.base import cache, sources, tools
from triagelab.base.errors import LabError
from triagelab.check.verify import CHECKS
from triagelab.provision import guest, kernels
from triagelab.provision.packages import Apt, unpack, with_libraries

GCC = tools.Tool("aarch64-linux-gnu-gcc-12", "gcc-12-aarch64-linux-gnu libc6-dev-arm64-cross")
STRIP = tools.Tool("aarch64-linux-gnu-strip", "binutils-aarch64-linux-gnu")
READELF = tools.Tool("readelf", "binutils")
QEMU = tools.Tool("qemu-system-aarch64", "qemu-system-arm")
QUICK = (
    "01-exactly-once",
    "02-class-order",
    "05-aging-bound",
    "07-counts",
    "09-unloaded-under-load",
    "10-merging",
    "13-tunables",
    "14-merged-under-load",
    "15-data",
    "25-no-pause",
    "34-gathers",
)
MODULES = ("triage", "gatedisk", "modeldisk")
#: The kernel's own modules that the checks load, each with the modules that it needs.
LOADED = {"null_blk": ("configfs",), "configfs": ()}

INIT = f"""\
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
export PATH=/bin:/sbin SCHEDULER=triage
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t debugfs debug /sys/kernel/debug
for check in {" ".join(QUICK)}; do
	sh /job/$check.sh > /tmp/log 2>&1
	status=$?
	sed "s/^/$check: /" /tmp/log
	echo "check $check ended $status"
done
echo "all ended on $(uname -m)"
poweroff -f
"""


def fetched() -> Path:
    """Return a folder with the newest arm64 kernel of the default series, its headers, and busybox.

    The programs that build modules (linux-kbuild) are those for this computer: they run here, and
    build for arm64.
    """

    def fetch(folder: Path) -> None:
        tools.tell("fetching the distribution's arm64 kernel")
        own = Apt(folder / "apt/own")
        other = Apt(folder / "apt/arm64", architecture="arm64")
        names = other.run("apt-cache", "pkgnames", "linux-headers-").split()
        series = re.escape(kernels.DEFAULT_SERIES)
        found = [
            m[1]
            for m in (re.fullmatch(rf"linux-headers-({series}\.\S+)-arm64", n) for n in names)
            if m
        ]
        stock = [version for version in found if not re.search(r"-(cloud|rt)$", version)]
        if not stock:
            raise LabError(f"Debian has no {kernels.DEFAULT_SERIES} for arm64")
        version = max(stock, key=kernels.version)
        here = folder / "apt/packages"
        here.mkdir()
        parts = (f"image-{version}-arm64", f"headers-{version}-arm64", f"headers-{version}-common")
        wanted = [*(f"linux-{part}" for part in parts), "busybox-static"]
        other.run("apt-get", "download", *wanted, cwd=here)
        own.run("apt-get", "download", f"linux-kbuild-{version}", cwd=here)
        unpack(here, folder)
        makefile = folder / f"usr/src/linux-headers-{version}-arm64/Makefile"
        beside = "$(dir $(lastword $(MAKEFILE_LIST)))../"
        makefile.write_text(makefile.read_text().replace("/usr/src/", beside))
        shutil.rmtree(folder / "apt")

    return cache.fetched(f"kernels-arm64/{kernels.DEFAULT_SERIES}", fetch)


def fio() -> Path:
    """Return a folder with Debian's fio for arm64, and all libraries that it needs."""

    def fetch(folder: Path) -> None:
        tools.tell("fetching the distribution's fio for arm64")
        other = Apt(folder / "apt", architecture="arm64")
        here = folder / "apt/packages"
        here.mkdir()
        other.run("apt-get", "download", *with_libraries(other, ["fio"]), cwd=here)
        unpack(here, folder)
        shutil.rmtree(folder / "apt")

    return cache.fetched("packages/fio-arm64", fetch)


def needed(program: Path, folder: Path) -> dict[str, Path]:
    """Return the files that a program needs, by their names: its libraries and the loader."""
    found: dict[str, Path] = {}
    left = [program]
    while left:
        command = [tools.path(READELF), "-dl", str(left.pop())]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names = re.findall(r"Shared library: \[(.+)\]|program interpreter: /lib/(.+)\]", said)
        for name in map("".join, names):
            if name not in found:
                found[name] = next(folder.glob(f"**/{name}")).resolve()
                left.append(found[name])
    return found


def built(kernel: Path, folder: Path) -> list[Path]:
    """Build modules for the arm64 kernel, with all warnings as errors; return their files."""
    (headers,) = kernel.glob("usr/src/linux-headers-*-arm64")
    command = ["make", "-C", str(sources.MODULES), f"KDIR={headers}", f"O={folder}"]
    command += [f"MODULES={' '.join(MODULES)}", f"STRIP={tools.path(STRIP)}"]
    done = subprocess.run([*command, "KCFLAGS=-Werror"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr, done.stderr
    return sorted(folder.glob("*.ko"))


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run the checks in a guest, and return the text of its console."""
    tools.require([*tools.RUN, *tools.BUILD, GCC, STRIP, READELF, QEMU])
    folder = tmp_path_factory.mktemp("arm64")
    kernel = fetched()
    (image,) = kernel.glob("boot/vmlinuz-*")
    release = image.name.removeprefix("vmlinuz-")
    stage = folder / "stage"
    guest.install(INIT, stage / "init")
    guest.install(kernel / "bin/busybox", stage / "bin/busybox")
    (stage / "sbin").mkdir()
    (stage / "sbin/modprobe").symlink_to("/bin/busybox")
    modules = stage / "lib/modules" / release
    index = ""
    for module in built(kernel, folder / "built"):
        guest.install(module, modules / "extra" / module.name)
        index += f"extra/{module.name}:\n"
    for name, needs in LOADED.items():
        (packed,) = kernel.glob(f"lib/modules/*/kernel/**/{name}.ko.xz")
        unpacked = modules / "kernel" / f"{name}.ko"
        unpacked.parent.mkdir(exist_ok=True)
        unpacked.write_bytes(lzma.decompress(packed.read_bytes()))
        index += f"kernel/{name}.ko: {' '.join(f'kernel/{need}.ko' for need in needs)}\n"
    guest.install(index, modules / "modules.dep")
    program = fio() / "usr/bin/fio"
    guest.install(program, stage / "bin/fio")
    for name, library in needed(program, fio()).items():
        guest.install(library, stage / "lib" / name)
    for name in ("lib", *QUICK):
        guest.install(CHECKS / f"{name}.sh", stage / "job" / f"{name}.sh")
    submit = stage / "job/tools/submit"
    submit.parent.mkdir()
    compiler = [tools.path(GCC), "-O2", "-Wall", "-Werror", "-static"]
    subprocess.run([*compiler, "-o", submit, CHECKS / "tools/submit.c"], check=True)
    guest.archive(stage, folder / "initramfs")
    said = folder / "console"
    command = tools.with_us(
        "KILL",
        [
            *(tools.path(QEMU), "-M", "virt", "-cpu", "cortex-a72", "-m", "512"),
            *("-icount", "shift=0,align=off,sleep=off", "-nodefaults", "-display", "none"),
            *("-serial", f"file:{said}", "-no-reboot", "-kernel", str(image)),
            *("-initrd", str(folder / "initramfs")),
            *("-append", "console=ttyAMA0 quiet panic=-1 cryptomgr.notests"),
        ],
    )
    subprocess.run(command, stdin=subprocess.DEVNULL, timeout=600, check=True)
    return said.read_text(errors="replace")


def test_it_is_another_architecture(console: str) -> None:
    assert "all ended on aarch64" in console


@pytest.mark.parametrize("check", QUICK)
def test_a_check_passes(check: str, console: str) -> None:
    lines = [line.strip() for line in console.splitlines() if f"{check}: " in line]
    assert re.search(rf"^check {check} ended 0\r?$", console, re.M), "\n".join(lines)
