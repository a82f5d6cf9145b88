# SPDX-License-Identifier: GPL-2.0-only
"""Install, upgrade and remove the Debian package on a system that boots: systemd, udev, DKMS.

    python -m tests.packaging.in_guest FOLDER        (make packages-in-guest)

FOLDER gets a Debian of this computer's release (debootstrap), which QEMU boots three times with a
SCSI and an NVMe disk: with the package, with a newer one, which is then removed, and without any.
Root only. Exit status 1, and what differs, where a disk has another scheduler than it should have.
No part of `make test`: it fetches a system and takes many minutes.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from triagelab.base import tools

from tests.packaging.system import make, of_next_version

#: The packages of a user's system, beside Triage's.
PACKAGES = (
    "systemd-sysv,udev,kmod,initramfs-tools,linux-image-amd64,linux-headers-amd64,"
    "dkms,pahole,python3-minimal,python3,make"
)
_APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
#: The longest time of one boot, on a busy computer.
LIMIT_S = 1500

#: The only difference from a stock system: a service reports its findings to a serial port.
UNIT = """\
[Unit]
Description=Tell what this boot is like
After=multi-user.target systemd-udev-settle.service
SuccessAction=poweroff
FailureAction=poweroff

[Service]
Type=oneshot
ExecStart=/bin/sh /root/look
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS1

[Install]
WantedBy=multi-user.target
"""

STATE = r"""
state() {
	for disk in sda nvme0n1 vda; do
		sed "s/.*\[//; s/\].*//; s/^/$1 $disk /" /sys/block/$disk/queue/scheduler
	done
	echo "$1 module $(cat /sys/module/triage_iosched/version 2> /dev/null || echo none)"
}
udevadm settle
state booted
"""
#: At the first boot: a tunable is set, an event changes nothing, and the disks are used.
FIRST = (
    STATE
    + r"""
echo "booted factor $(cat /sys/block/sda/queue/iosched/latency_factor)"
dd if=/dev/sda of=/dev/null bs=64k count=64 iflag=direct 2> /dev/null && echo booted read ok
udevadm trigger --settle --subsystem-match=block --action=change
state changed
# The kernel says that the module is not its own; of anything else it should say nothing.
journalctl -k -p warning --no-pager | grep -i 'triage\|BUG:\|WARNING:' | grep -v taint |
	sed 's/^/log /'
"""
)
#: At the second: the package goes.
SECOND = (
    STATE
    + r"""
dpkg -r triage-dkms > /dev/null 2>&1
state removed
find /lib/modules /usr/src /var/lib/dkms /usr/lib -name '*triage*' | sed 's/^/left /'
udevadm trigger --settle --subsystem-match=block --action=change
state changed
"""
)
RULES = {
    "59-triage.rules": 'SUBSYSTEM=="block", KERNEL=="sda|nvme0n1", ENV{TRIAGE}="1"\n',
    "61-triage-tunables.rules": 'SUBSYSTEM=="block", KERNEL=="sda", ENV{DEVTYPE}=="disk", '
    'ATTR{queue/iosched/latency_factor}="300"\n',
}


def call(*command: object, cwd: Path | None = None) -> str:
    """Run a program to its end; return its output."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"error: {' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def system(folder: Path) -> Path:
    """Return a folder with a stock system of this computer's release."""
    root = folder / "root"
    if root.exists():
        return root
    release = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.M)
    targets = call(
        "apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"
    )
    mirror = re.search(r"^Debian (\S+)$", targets, re.M)
    if release is None or mirror is None:
        raise SystemExit("error: this is no Debian with a mirror to make a system from")
    part = folder / "root.part"
    shutil.rmtree(part, ignore_errors=True)
    # Run it in its own namespaces, so that its mounts are gone however it ends.
    debootstrap = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}"]
    call(*_APART, *debootstrap, release[1], part, mirror[1])
    part.rename(root)
    return root


def install(root: Path, package: Path) -> None:
    """Install a package in the folder, where DKMS builds the module as for a user."""
    shutil.copyfile(package, root / "package.deb")
    inside = "mount -t proc proc /proc && dpkg -i /package.deb"
    call(*_APART, "chroot", root, "sh", "-c", inside)
    (root / "package.deb").unlink()


def boot(root: Path, folder: Path, look: str | None) -> list[str]:
    """Boot the system with a script, or again with the one on the disk; return its report."""
    image = folder / "disk.img"
    if look is not None:
        (root / "root/look").write_text(look)
        (root / "etc/systemd/system/look.service").write_text(UNIT)
        wanted = root / "etc/systemd/system/multi-user.target.wants/look.service"
        wanted.parent.mkdir(exist_ok=True)
        wanted.unlink(missing_ok=True)
        wanted.symlink_to("../look.service")
        for name, text in RULES.items():
            (root / "etc/udev/rules.d" / name).write_text(text)
        image.unlink(missing_ok=True)
        call("mke2fs", "-q", "-t", "ext4", "-d", root, image, "3G")
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    (initrd,) = (root / "boot").glob("initrd.img-*")
    for name in ("sda.img", "nvme.img"):
        with (folder / name).open("wb") as file:
            file.truncate(64 << 20)
    told = folder / "told"
    told.unlink(missing_ok=True)
    qemu = [
        *("qemu-system-x86_64", "-accel", "tcg", "-m", "1024", "-smp", "2", "-nodefaults"),
        *("-display", "none", "-no-reboot"),
        *("-kernel", kernel, "-initrd", initrd),
        *("-append", "root=/dev/vda rw console=ttyS0 quiet systemd.show_status=no"),
        *("-serial", f"file:{folder}/console.log", "-serial", f"file:{told}"),
        *("-drive", f"file={image},format=raw,if=virtio"),
        *("-device", "virtio-scsi-pci,num_queues=1", "-device", "scsi-hd,drive=s"),
        *("-drive", f"file={folder}/sda.img,format=raw,if=none,id=s"),
        *("-device", "nvme,drive=n,serial=1"),
        *("-drive", f"file={folder}/nvme.img,format=raw,if=none,id=n"),
    ]
    try:
        subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", "--", *map(str, qemu)],
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(
            f"error: a boot took more than {LIMIT_S} s: {folder}/console.log"
        ) from None
    return told.read_text().splitlines()


def state(when: str, scsi: str, nvme: str, root: str, module: str) -> list[str]:
    """Return the expected report of a boot."""
    return [
        *(
            f"{when} {disk} {has}"
            for disk, has in (("sda", scsi), ("nvme0n1", nvme), ("vda", root))
        ),
        f"{when} module {module}",
    ]


def expect(what: str, told: list[str], wanted: list[str]) -> bool:
    """Print whether a boot's report is as expected; if not, print both."""
    if told == wanted:
        print(f"{what}: as it should be")
        return True
    print(
        f"{what}:",
        *(f"\n  wanted  {line}" for line in wanted),
        *(f"\n  told    {line}" for line in told),
    )
    return False


def version(package: Path) -> str:
    """Return a package's version."""
    return call("dpkg-deb", "-f", package, "Version").strip()


def main(folder: Path) -> int:
    """Run the program; return its exit status."""
    tools.require([*tools.RUN, tools.MKE2FS, tools.Tool("debootstrap", "debootstrap")])
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("source", "next", "this"):
        shutil.rmtree(folder / name, ignore_errors=True)
    make("deb", folder / "this")
    (older,) = (folder / "this").glob("*.deb")
    (newer,) = of_next_version("deb", folder).glob("*.deb")
    root = system(folder)
    stock = ("mq-deadline", "none", "none")
    chosen = ("triage", "triage", "none")
    install(root, older)
    has = version(older)
    good = expect(
        "installed",
        boot(root, folder, FIRST),
        [
            *state("booted", *chosen, has),
            "booted factor 300",
            "booted read ok",
            *state("changed", *chosen, has),
        ],
    )
    install(root, newer)
    has = version(newer)
    good &= expect(
        "upgraded and removed",
        boot(root, folder, SECOND),
        [
            *state("booted", *chosen, has),
            *state("removed", *stock, "none"),
            *state("changed", *stock, "none"),
        ],
    )
    again = boot(root, folder, None)
    good &= expect("after another boot", again[:4], state("booted", *stock, "none"))
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).absolute()))
