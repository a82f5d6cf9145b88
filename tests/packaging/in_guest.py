# SPDX-License-Identifier: GPL-2.0-only
"""Try the Debian package in a stock Debian that boots with systemd, udev, DKMS and tuned.

    python -m tests.packaging.in_guest FOLDER        (make packages-in-guest)

This program makes a disk in FOLDER with a Debian of this computer's release (debootstrap). QEMU
boots it four times, beside two SCSI disks and an NVMe disk. All work is done in the guest, without
a network:

1. The package is installed, udev's rule chooses triage, and a second kernel is installed, for
   which DKMS builds the module by itself.
2. The second kernel has triage. `triagectl status` is asked about each prepared case. The package
   is upgraded.
3. The newer version is loaded, and tuned gives triage to every disk. The package is removed.
4. Everything is as before the installation.

Only root can run this program. If a boot reports anything else, the program prints the difference
and exits with status 1. Each boot's console stays in FOLDER. The program downloads a system and
takes long, so `make test` does not run it.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from triagelab.base import tools
from triagelab.provision import kernels
from triagelab.provision.packages import Apt
from triagelab.run.machines import NO_CMPXCHG16B

from tests.packaging.system import PACKAGING, make, of_next_version

#: The packages to install in the stock system. They include all that our package depends on: the
#: guest has no network.
PACKAGES = (
    "systemd-sysv,libpam-systemd,udev,kmod,initramfs-tools,linux-image-amd64,linux-headers-amd64,"
    "dkms,pahole,python3-minimal,python3,make,zstd,apparmor,tuned"
)
APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
#: The time limit of a boot, in s, which leaves time for a busy computer. Without KVM, the guest
#: compiles ten times slower than the computer.
LIMIT_S = 3600
#: Both virtual CPUs in one thread. With a thread for each, two of eight boots of Linux 6.12 died
#: early. In the one that was examined, a CPU had patched code that the other was running.
ACCEL = "tcg,thread=single"

#: Without no_timer_check, the kernel would distrust a busy computer's emulated timer, and panic.
#: With panic=-1, a panic ends QEMU.
OPTIONS = "quiet no_timer_check panic=-1"

#: Two differences from a stock system. A service runs the boot's script, which reports to a serial
#: port. The initramfs has only the modules that the machine needs: an emulated machine takes long
#: to unpack all of them.
INITRAMFS = "MODULES=dep\n"
UNIT = """\
[Unit]
Description=Tell what this boot is like
After=multi-user.target systemd-udev-settle.service triagectl-record.service
SuccessAction=poweroff
FailureAction=poweroff

[Service]
Type=oneshot
ExecStartPre=/sbin/modprobe qemu_fw_cfg
ExecStart=/bin/sh /sys/firmware/qemu_fw_cfg/by_name/opt/look/raw
StandardOutput=tty
TTYPath=/dev/ttyS1

[Install]
WantedBy=multi-user.target
"""

#: The beginning of each script: functions that report disks and the journal's complaints.
TOOLS = r"""
export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root
state() {
	line="$1:"
	for disk in sda sdb nvme0n1 vda; do
		line="$line $disk=$(sed 's/.*\[//; s/\].*//' /sys/block/$disk/queue/scheduler)"
	done
	echo "$line module=$(cat /sys/module/triage_iosched/version 2> /dev/null || echo none)"
}
# The kernel reports that the module taints it. Nothing else should be reported.
log() {
	journalctl -b -p warning --no-pager |
		grep -i 'triage\|BUG:\|WARNING:\|apparmor="DENIED"' | grep -v taint | sed "s/^/$1: log: /"
}
trigger() {
	udevadm trigger --settle --subsystem-match=block --action=change
}
apt() {
	apt-get install -y -q --no-install-recommends "$@" < /dev/null > /run/apt.log 2>&1 ||
		sed 's/^/apt: /' /run/apt.log
}
# DKMS writes to stderr when all is well too, so its output is reported only if it fails.
built() {
	dkms "$@" > /run/dkms.log 2>&1 || sed 's/^/dkms: /' /run/dkms.log
}
udevadm settle
echo "kernel $(uname -r)"
"""

INSTALL = r"""
state stock
apt /packages/older/*.deb
state installed
cp /packages/rules/* /etc/udev/rules.d
udevadm control --reload
trigger
state chosen
echo "chosen: exchange $(cat /sys/block/sda/queue/iosched/exchange)"
dd if=/dev/sda of=/dev/null bs=64k count=64 iflag=direct 2> /dev/null && echo "chosen: read"
apt /packages/kernel/*.deb
for modules in /lib/modules/*; do
	kernel=${modules##*/}
	echo "built: $kernel $(modinfo -k "$kernel" -F version triage-iosched)"
done
state kernel
log installed
"""

#: The cases of `triagectl status`: in each, the real program, such as tuned, sets the scheduler.
STATUS = r"""
by() {
	triagectl status "$2" --json > /run/status
	python3 -c '
import json, re
(disk,) = json.load(open("/run/status"))["disks"]
found = disk["set_by"]
print(disk["disk"], disk["scheduler"], "by", found["by"] + ":", found["text"])
print("changed", re.sub("at [0-9: -]+ it", "at the boot it", found["changed"]))
' | sed "s/^/$1: /"
}
profile() {
	tuned-adm profile "$1" || echo "tuned-adm failed"
}
echo "record: $(systemctl show -P Result -P ExecMainStatus triagectl-record | tr '\n' ' ')"
echo "apparmor: $(cat /sys/module/apparmor/parameters/enabled)" \
	"$([ "$(aa-status --enforced)" -gt 0 ] && echo enforced)"
by kernel sdb
by udev sda
mkdir -p /etc/tuned/mine
printf '[main]\ninclude=balanced\n[disk]\ndevices=sdb\nelevator=kyber\n' \
	> /etc/tuned/mine/tuned.conf
profile mine
by tuned sdb
profile triage
by profile sdb
systemctl stop tuned
by stopped sdb
echo none > /sys/block/sdb/queue/scheduler
by hand sdb
echo mq-deadline > /sys/block/sdb/queue/scheduler
log status
built uninstall triage/$VERSION -k "$(uname -r)"
for disk in sda nvme0n1; do echo none > /sys/block/$disk/queue/scheduler; done
rmmod triage-iosched
trigger
by gone sda
built install triage/$VERSION -k "$(uname -r)"
# After a `change` event the disks still have the `none` that was chosen by hand above.
trigger
state kept
udevadm trigger --settle --subsystem-match=block --action=add
state back
"""

UPGRADE = r"""
state booted
echo "booted: exchange $(cat /sys/block/sda/queue/iosched/exchange)"
dd if=/dev/sda of=/dev/null bs=64k count=64 iflag=direct 2> /dev/null && echo "booted: read"
trigger
state changed
log booted
%s
apt /packages/newer/*.deb
state upgraded
echo "upgraded: $(modinfo -F version triage-iosched) $(triagectl --version)"
"""

#: tuned starts at this boot with the package's profile, and gives every disk triage. So this boot's
#: report does not show what udev's rule chooses. The report of the boot before does.
REMOVE = r"""
tries=0
until [ "$(cat /sys/block/[svn]*/queue/scheduler | grep -c '\[triage\]')" = 4 ] ||
	[ $((tries += 1)) -gt 300 ]; do
	sleep 1
done
state booted
echo "booted: record $(systemctl show -P Result triagectl-record)"
log booted
apt-get remove -y -q triage-dkms < /dev/null > /dev/null 2>&1
state removed
find /lib/modules /usr/src /var/lib/dkms /usr/lib /usr/bin -name '*triage*' | sed 's/^/left: /'
trigger
state changed
log removed
"""

AGAIN = r"""
state again
log again
"""

RULES = {
    "59-triage.rules": 'SUBSYSTEM=="block", KERNEL=="sda|nvme0n1", ENV{TRIAGE}="1"\n',
    "61-triage-tunables.rules": (PACKAGING / "examples/61-triage-tunables.rules").read_text(),
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


def system(folder: Path, *more: str) -> Path:
    """Return a folder with a stock system of this computer's release, and more packages."""
    packages = ",".join((PACKAGES, *more))
    root = folder / f"root-{hashlib.sha256(packages.encode()).hexdigest()[:8]}"
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
    # Run debootstrap in its own namespaces, so that its mounts are gone however it ends.
    debootstrap = ["debootstrap", "--variant=minbase", f"--include={packages}"]
    call(*APART, *debootstrap, release[1], part, mirror[1])
    part.rename(root)
    return root


def another_kernel(folder: Path) -> str:
    """Fetch the packages of the lab's kernel, with its headers; return its release."""
    release = kernels.find(kernels.DEFAULT_SERIES).release
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as state:
        apt = Apt(Path(state))
        headers = f"linux-headers-{release}"
        depends = apt.run("apt-cache", "depends", headers)
        parts = re.findall(r"^  Depends: (linux-(?:headers|kbuild)-\S+)$", depends, re.M)
        wanted = (f"linux-image-{release}", headers, *parts)
        apt.run("apt-get", "download", *wanted, cwd=folder)
    return release


class Guest:
    """A guest with the system's disk. `good` becomes false if a boot's report is unexpected."""

    def __init__(
        self,
        folder: Path,
        root: Path,
        image: Path,
        prepare: Callable[[Path], None] = lambda stage: None,
        options: str = OPTIONS,
    ) -> None:
        """Make the disk from the system, the packages and the rules, unless `image` exists.

        Before making the disk, call `prepare` with the folder of its files.
        """
        self._folder, self._image, self._options = folder, image, options
        self._boots = 0
        self.good = True
        if image.exists():
            return
        with tempfile.TemporaryDirectory(dir=folder) as made:
            stage = Path(made) / "root"
            call("cp", "--archive", "--link", root, stage)
            (stage / "etc/initramfs-tools/conf.d/small").write_text(INITRAMFS)
            units = stage / "etc/systemd/system"
            (units / "look.service").write_text(UNIT)
            (units / "multi-user.target.wants/look.service").symlink_to("../look.service")
            shutil.copytree(folder / "packages", stage / "packages")
            prepare(stage)
            call("mke2fs", "-q", "-t", "ext4", "-d", stage, image, "5G")

    def _of_boot(self, name: str) -> Path:
        """Copy the newest file NAME-VERSION from the disk's /boot, and return the copy's path."""
        listed = call("debugfs", "-R", "ls -p /boot", self._image)
        found = re.findall(rf"/({re.escape(name)}-[^/]+)/", listed)
        newest = max(found, key=kernels.version)
        target = self._folder / name
        call("debugfs", "-R", f"dump /boot/{newest} {target}", self._image)
        return target

    def boot(self, script: str) -> list[str]:
        """Boot the newest kernel of the disk, with a script; return its report."""
        look = self._folder / "look"
        look.write_text(TOOLS + script)
        self._boots += 1
        told, console = (self._folder / f"{name}-{self._boots}.log" for name in ("told", "console"))
        told.unlink(missing_ok=True)
        blank = []
        for name in ("a", "b", "n"):
            with (self._folder / f"{name}.img").open("wb") as file:
                file.truncate(64 << 20)
            image = f"file={self._folder}/{name}.img,format=raw,if=none,id={name}"
            blank += ["-drive", image]
        qemu = [
            *("qemu-system-x86_64", "-accel", ACCEL, "-cpu", f"max{NO_CMPXCHG16B}"),
            *("-m", "1536", "-smp", "2", "-nodefaults", "-display", "none", "-no-reboot"),
            *("-kernel", self._of_boot("vmlinuz"), "-initrd", self._of_boot("initrd.img")),
            *("-append", f"root=/dev/vda rw console=ttyS0 {self._options} systemd.show_status=no"),
            *("-serial", f"file:{console}", "-serial", f"file:{told}"),
            *("-fw_cfg", f"name=opt/look,file={look}"),
            *("-drive", f"file={self._image},format=raw,if=virtio,cache=unsafe", *blank),
            *("-device", "virtio-scsi-pci,num_queues=1"),
            *("-device", "scsi-hd,drive=a,lun=0", "-device", "scsi-hd,drive=b,lun=1"),
            *("-device", "nvme,drive=n,serial=1"),
        ]
        try:
            subprocess.run(
                tools.with_us("KILL", list(map(str, qemu))),
                stdin=subprocess.DEVNULL,
                timeout=LIMIT_S,
                check=True,
            )
        except subprocess.TimeoutExpired:
            raise SystemExit(f"error: a boot took more than {LIMIT_S} s: {console}") from None
        report = told.read_text().splitlines()
        if not report:
            end = "\n".join(console.read_text(errors="replace").splitlines()[-40:])
            raise SystemExit(f"error: a boot ended without a report:\n{end}")
        return report

    def expect(self, what: str, script: str, wanted: list[str]) -> None:
        """Boot, and print whether the report is as expected; if not, print the differences."""
        begin = time.monotonic()
        told = self.boot(script)
        took = f"{time.monotonic() - begin:.0f} s"
        if told == wanted:
            print(f"{what}: as it should be ({took})", flush=True)
            return
        self.good = False
        print(
            f"{what} ({took}):",
            *(f"\n  wanted  {line}" for line in wanted if line not in told),
            *(f"\n  told    {line}" for line in told if line not in wanted),
            *(["\n  in another order"] if sorted(told) == sorted(wanted) else []),
            flush=True,
        )


def state(when: str, sda: str, nvme: str, module: str) -> str:
    """Return the expected report of all disks if nothing chose a scheduler for sdb and vda."""
    return f"{when}: sda={sda} sdb=mq-deadline nvme0n1={nvme} vda=none module={module}"


def line_of(file: Path, text: str) -> int:
    """Return the number of the only line with a text."""
    (found,) = (n for n, line in enumerate(file.read_text().splitlines(), 1) if text in line)
    return found


def status(release: str, has: str) -> list[str]:
    """Return the expected report of the cases in STATUS."""
    line = line_of(PACKAGING / "60-triage.rules", 'ATTR{queue/scheduler}="triage"')
    rule = f"udev, /usr/lib/udev/rules.d/60-triage.rules:{line}"
    line = line_of(PACKAGING / "tuned/tuned.conf", "elevator=")
    profile = f"/usr/lib/tuned/profiles/triage/tuned.conf:{line}"
    hand = "a person, or a program that leaves no trace; the kernel's default would choose"
    cases = {
        "kernel": ("sdb mq-deadline by kernel: the kernel's default", "no sign of it"),
        "udev": (f"sda triage by udev: {rule}", "no sign of it"),
        "tuned": (
            "sdb kyber by tuned: tuned, /etc/tuned/mine/tuned.conf:5",
            "yes: at the boot it was mq-deadline",
        ),
        "profile": (
            f"sdb triage by tuned: tuned, {profile}",
            "yes: at the boot it was mq-deadline",
        ),
        "stopped": ("sdb mq-deadline by kernel: the kernel's default", "no sign of it"),
        "hand": (f"sdb none by hand: {hand} mq-deadline", "yes: at the boot it was mq-deadline"),
        "gone": (
            f"sda none by module gone: {rule} asks for triage, which this kernel does not have: "
            f"build it for {release}",
            "yes: at the boot it was triage",
        ),
    }
    return [
        "record: success 0 ",
        "apparmor: Y enforced",
        *(
            f"{case}: {line}"
            for case, (by, changed) in cases.items()
            for line in (by, f"changed {changed}")
        ),
        state("kept", "none", "none", "none"),
        state("back", "triage", "triage", has),
    ]


def write_rules(packages: Path) -> None:
    """Write udev's rules beside the packages."""
    (packages / "rules").mkdir()
    for name, text in RULES.items():
        (packages / "rules" / name).write_text(text)


def version(package: Path) -> str:
    """Return a package's version."""
    return call("dpkg-deb", "-f", package, "Version").strip()


def main(folder: Path) -> int:
    """Run the program; return its exit status."""
    tools.require([*tools.RUN, tools.MKE2FS, tools.Tool("debootstrap", "debootstrap")])
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("source", "next", "packages"):
        shutil.rmtree(folder / name, ignore_errors=True)
    root = system(folder)
    first = kernels.version(next((root / "boot").glob("vmlinuz-*")).name)
    (stock,) = (path.name.removeprefix("vmlinuz-") for path in (root / "boot").glob("vmlinuz-*"))
    packages = folder / "packages"
    make("deb", packages / "older")
    of_next_version("deb", folder).rename(packages / "newer")
    (older,), (newer,) = (list((packages / name).glob("*.deb")) for name in ("older", "newer"))
    has, will = version(older), version(newer)
    release = another_kernel(packages / "kernel")
    if kernels.version(release) <= first:
        raise SystemExit(f"error: {release} is no newer kernel than {stock}")
    write_rules(packages)
    image = folder / "disk.img"
    image.unlink(missing_ok=True)
    guest = Guest(folder, root, image)
    guest.expect(
        "installed and chosen, then a new kernel",
        INSTALL,
        [
            f"kernel {stock}",
            state("stock", "mq-deadline", "none", "none"),
            state("installed", "mq-deadline", "none", "none"),
            state("chosen", "triage", "triage", has),
            "chosen: exchange 16",
            "chosen: read",
            f"built: {stock} {has}",
            f"built: {release} {has}",
            state("kernel", "triage", "triage", has),
        ],
    )
    guest.expect(
        "the new kernel, status, and an upgrade",
        f"VERSION={has}\n{UPGRADE % STATUS}",
        [
            f"kernel {release}",
            state("booted", "triage", "triage", has),
            "booted: exchange 16",
            "booted: read",
            state("changed", "triage", "triage", has),
            *status(release, has),
            state("upgraded", "triage", "triage", has),
            f"upgraded: {will} triagectl {will}",
        ],
    )
    guest.expect(
        "the newer version, and its removal",
        REMOVE,
        [
            f"kernel {release}",
            f"booted: sda=triage sdb=triage nvme0n1=triage vda=triage module={will}",
            "booted: record success",
            state("removed", "mq-deadline", "none", "none"),
            state("changed", "mq-deadline", "none", "none"),
        ],
    )
    guest.expect(
        "after the removal",
        AGAIN,
        [f"kernel {release}", state("again", "mq-deadline", "none", "none")],
    )
    return 0 if guest.good else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).absolute()))
