# SPDX-License-Identifier: GPL-2.0-only
"""Tests of triage under Secure Boot: the kernel loads it only if signed with the firmware's key.

The kernel is Debian's, and the firmware is OVMF. The firmware's only key is Debian's test key
("snakeoil"). The package ovmf has the private key too, and the tests sign with it.
"""

import asyncio
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from triagelab.base import tools
from triagelab.plan.machine import Job
from triagelab.provision import guest, kernels, modules
from triagelab.run import machines

from tests.product.product import DISK, OPERATE
from tests.triagectl import carried

FIRMWARE = Path("/usr/share/OVMF/OVMF_CODE_4M.secboot.fd")
VARIABLES = Path("/usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd")
KEY, CERTIFICATE = (Path(f"/usr/share/ovmf/PkKek-1-snakeoil.{end}") for end in ("key", "pem"))
OVMF = tools.Tool(str(VARIABLES), "ovmf")
SBSIGN = tools.Tool("sbsign", "sbsigntool")
OPENSSL = tools.Tool("openssl", "openssl")

CTL = carried.COMMAND.replace(
    "/job/in_guest.py",
    '-c \'import sys; sys.path.insert(0, "/job"); from triagectl import command; '
    "sys.exit(command.main(sys.argv[1:]))'",
)
#: The guest's script tries to load modules, and to choose triage for the disk. Before each try it
#: writes the try's name to the kernel's log. The kernel's messages about the try follow the name.
SCRIPT = f"""\
#!/bin/sh -x
mount -t securityfs security /sys/kernel/security
cat /sys/kernel/security/lockdown > out/lockdown
cat /sys/kernel/security/lsm > out/lsm
modprobe null_blk
scheduler=/sys/block/{DISK}/queue/scheduler
echo mq-deadline > $scheduler
for name in unsigned stranger; do
	echo "try $name" > /dev/kmsg
	insmod $name.ko 2>> out/refused && echo "$name was loaded" >> out/loaded
done
cmp unsigned.ko /lib/modules/$(uname -r)/extra/triage-iosched.ko || exit
echo "try to choose" > /dev/kmsg
echo triage > $scheduler 2>> out/refused
cat $scheduler > out/kept
cp signed.ko /lib/modules/$(uname -r)/extra/triage-iosched.ko
echo "try signed" > /dev/kmsg
echo triage > $scheduler && cat $scheduler > out/chosen
mount -t tracefs trace /sys/kernel/tracing
while sleep 0.02; do dd if=/dev/{DISK} of=/dev/null bs=4k count=100 iflag=direct; done 2> out/dd &
{CTL} top {DISK} --interval 1 --count 1 > out/top
{CTL} explain {DISK} --for 3 > out/explain
{CTL} status {DISK} > out/status
kill $!
wait
cat /sys/kernel/debug/block/{DISK}/sched/dispatched > out/dispatched
echo mq-deadline > $scheduler && rmmod triage-iosched && echo removed > out/removed
dmesg > out/log
"""


class Signed(kernels.Kernel):
    """A kernel that QEMU boots from its image, because the image has the signature."""

    @property
    def elf_or_image(self) -> Path:
        return self.image


def with_job(
    base: guest.Base, files: Mapping[str, Path | str], built: Path, folder: Path
) -> guest.Base:
    """Return a copy of the guest's base, an initramfs, with the job inside.

    Usually a program in the guest reads the job from an I/O port, but lockdown forbids this.
    """
    stage, made = folder / "stage", folder / "base"
    made.mkdir()
    shutil.copyfile(base.folder / "modules.dep", made / "modules.dep")
    guest.install("#!/bin/sh\ncat /job.cpio\n", stage / "bin/from-host")
    guest.pack_job(base, files, (built,), stage / "job.cpio")
    guest.archive(stage, folder / "job")
    found = guest.Base(base.kernel, made)
    # The kernel unpacks one archive after the other.
    found.archive.write_bytes(base.archive.read_bytes() + (folder / "job").read_bytes())
    return found


def sign(program: str, *arguments: object) -> None:
    subprocess.run([program, *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tools.require([*tools.RUN, OVMF, SBSIGN, OPENSSL])
    folder = tmp_path_factory.mktemp("secure-boot")
    (folder / "compiled").mkdir()
    key = folder / "firmware.key"
    sign("openssl", "rsa", "-in", KEY, "-passin", "pass:snakeoil", "-out", key)
    stranger, his = folder / "stranger.key", folder / "stranger.pem"
    request = ("req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=stranger")
    sign("openssl", *request, "-keyout", stranger, "-out", his)

    stock = kernels.find(kernels.DEFAULT_SERIES)
    image = folder / "vmlinuz"
    sign("sbsign", "--key", key, "--cert", CERTIFICATE, "--output", image, stock.image)
    base = guest.base(stock)
    signed = Signed(stock.release, image, stock.root, stock.headers, stock.programs)

    assert stock.headers is not None
    (sign_file,) = stock.root.glob("usr/lib/linux-kbuild-*/scripts/sign-file")
    built = modules.build(stock) / "triage-iosched.ko"
    ways: dict[str, Path | str] = {
        "unsigned.ko": built,
        "run": SCRIPT,
        **carried.files(folder / "compiled"),
    }
    for name, one, public in (("signed", key, CERTIFICATE), ("stranger", stranger, his)):
        target = folder / f"{name}.ko"
        shutil.copyfile(built, target)
        sign(str(sign_file), "sha256", one, public, target)
        ways[target.name] = target

    variables = folder / "variables.fd"
    shutil.copyfile(VARIABLES, variables)
    machine = machines.Qemu(
        "vm",
        replace(with_job(base, ways, built, folder), kernel=signed),
        1,
        (
            *("-accel", "tcg", "-cpu", "max", "-machine", "q35,smm=on"),
            *("-global", "driver=cfi.pflash01,property=secure,value=on"),
            *("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={FIRMWARE}"),
            *("-drive", f"if=pflash,unit=1,format=raw,file={variables}"),
        ),
        ("mitigations=off", "no_timer_check"),
        {},
        1,
        "Secure Boot",
    )
    job = Job({}, memory_mb=1536, boot_limit_s=600)
    outcome = asyncio.run(machine.run(job, folder / "guest"))
    assert outcome.status == 0, (folder / "guest/console.log").read_text()
    return outcome.folder


def said(started: Path, way: str) -> str:
    """Return the kernel's messages from one try of SCRIPT to the next."""
    log = (started / "log").read_text()
    return log.split(f"try {way}", 1)[1].split("try ", 1)[0]


def test_secure_boot_is_on(started: Path) -> None:
    assert "[integrity]" in (started / "lockdown").read_text()
    assert "Secure boot enabled" in (started / "log").read_text()
    assert "apparmor" in (started / "lsm").read_text().split(",")


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("unsigned", "Loading of unsigned module is rejected"),
        ("stranger", "Loading of module with unavailable key is rejected"),
        ("to choose", "Loading of unsigned module is rejected"),
    ],
)
def test_without_the_firmwares_key_it_is_refused(way: str, reason: str, started: Path) -> None:
    assert reason in said(started, way)
    assert reason in OPERATE
    assert not (started / "loaded").exists()


def test_the_disk_keeps_its_scheduler_then(started: Path) -> None:
    assert (started / "kept").read_text().count("[mq-deadline]") == 1
    refused = (started / "refused").read_text()
    assert "Invalid argument" in refused
    # busybox's insmod prints this for each of the two modules.
    assert refused.count("insmod: can't insert") == 2


def test_with_the_firmwares_key_it_is_chosen_and_removed(started: Path) -> None:
    assert "[triage]" in (started / "chosen").read_text()
    assert "rejected" not in said(started, "signed")
    assert "BUG" not in said(started, "signed")
    assert (started / "removed").exists()


def test_the_operators_command_works(started: Path) -> None:
    assert sum(map(int, (started / "dispatched").read_text().split())) > 0
    # In this slow guest `top` takes few samples. But it computes rates from the kernel's counts.
    assert re.search(rf"^{DISK} \[triage\]  [1-9]\S* IOPS", (started / "top").read_text(), re.M)
    assert re.search(r": [1-9]\d* requests seen", (started / "explain").read_text())
    assert "[triage]" in (started / "status").read_text()
