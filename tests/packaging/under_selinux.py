# SPDX-License-Identifier: GPL-2.0-only
"""Try the Debian package in a Debian that boots with SELinux enforcing.

    python -m tests.packaging.under_selinux FOLDER   (make packages-under-selinux)

This program makes a disk in FOLDER with a Debian of this computer's release and its targeted
policy, and labels each file. QEMU boots it twice, beside the disks of in_guest.py:

1. The package is installed, and udev's rule chooses triage.
2. udev chooses triage at the boot, and the boot's schedulers are recorded. The package is removed.

Each report has the domains of init and udev, and the denials by SELinux for the programs that TOOLS
names. The first report also has the labels of three of the package's files. All denials are on the
boot's console. Even in a stock Debian the policy denies something to other programs. So a boot
without any denial is an error: the denials were not recorded.
"""

import shutil
import sys
from pathlib import Path

from triagelab.base import tools

from tests.packaging.in_guest import (
    APART,
    OPTIONS,
    Guest,
    call,
    state,
    system,
    version,
    write_rules,
)
from tests.packaging.system import make

POLICY = ("selinux-policy-default", "policycoreutils", "selinux-utils")
CONTEXTS = "/etc/selinux/default/contexts/files/file_contexts"
CONFIG = "SELINUX=enforcing\nSELINUXTYPE=default\n"

#: look.service runs in the domain of init's scripts, so it installs the package in this domain. An
#: administrator would install the package in the domain unconfined_t.
TOOLS = r"""
domain() {
	echo "$1: $(tr -d '\0' < "/proc/$2/attr/current" | cut -d: -f3)"
}
denied() {
	journalctl -b --no-pager -o cat | grep 'avc: *denied' > /run/denied ||
		echo "$1: no denial of any program is recorded"
	programs='\(udev-worker\)|modprobe|rmmod|triagectl|python3[^"]*|put-back|udevadm|dkms'
	grep -E "comm=\"($programs)\"|triage" /run/denied | sed "s/^/$1: /"
	sed 's/^.*denied/denied/; s/ pid=[0-9]*//; s/ audit(.*)//' /run/denied > /dev/ttyS0
}
echo "selinux: $(getenforce) $(cat /sys/kernel/security/lsm | tr , '\n' | grep -x selinux)"
domain init 1
domain udevd "$(systemctl show -P MainPID systemd-udevd)"
"""

INSTALL = r"""
state stock
apt /packages/older/*.deb
cp /packages/rules/* /etc/udev/rules.d
udevadm control --reload
trigger
state chosen
for file in /lib/modules/*/updates/dkms/triage-iosched.ko* /usr/lib/udev/rules.d/60-triage.rules \
	/usr/lib/triagectl/triagectl; do
	echo "label: ${file##*/} $(stat -L -c %C "$file" | cut -d: -f3)"
done
log installed
denied installed
"""

REMOVE = r"""
state booted
echo "booted: record $(systemctl show -P Result -P ExecMainStatus triagectl-record | tr '\n' ' ')"
triagectl status sda --json | python3 -c '
import json, sys
(disk,) = json.load(sys.stdin)["disks"]
print("status:", disk["scheduler"], "by", disk["set_by"]["by"])
'
apt-get remove -y -q triage-dkms < /dev/null > /dev/null 2>&1
state removed
trigger
state changed
log removed
denied removed
"""


def label(stage: Path) -> None:
    """Turn SELinux on in the system, and label its files."""
    # The files are hard links to those of the cached system. So replace this file: a write to it
    # would change the cached system too. The labels go to both systems, which does no harm.
    (stage / "etc/selinux/config").unlink()
    (stage / "etc/selinux/config").write_text(CONFIG)
    # setfiles reaches each file through /proc.
    apart = (*APART, f"--mount-proc={stage / 'proc'}")
    call(*apart, "chroot", stage, "/sbin/setfiles", "-F", CONTEXTS, "/")


def main(folder: Path) -> int:
    """Run the program; return its exit status."""
    tools.require([*tools.RUN, tools.MKE2FS, tools.Tool("debootstrap", "debootstrap")])
    folder.mkdir(parents=True, exist_ok=True)
    packages = folder / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    root = system(folder, *POLICY)
    (stock,) = (path.name.removeprefix("vmlinuz-") for path in (root / "boot").glob("vmlinuz-*"))
    make("deb", packages / "older")
    (package,) = (packages / "older").glob("*.deb")
    has = version(package)
    write_rules(packages)
    image = folder / "disk.img"
    image.unlink(missing_ok=True)
    guest = Guest(folder, root, image, label, f"{OPTIONS} security=selinux")
    begin = [f"kernel {stock}", "selinux: Enforcing selinux", "init: init_t", "udevd: udev_t"]
    guest.expect(
        "installed and chosen",
        TOOLS + INSTALL,
        [
            *begin,
            state("stock", "mq-deadline", "none", "none"),
            state("chosen", "triage", "triage", has),
            "label: triage-iosched.ko modules_object_t",
            "label: 60-triage.rules udev_rules_t",
            "label: triagectl lib_t",
        ],
    )
    guest.expect(
        "booted and removed",
        TOOLS + REMOVE,
        [
            *begin,
            state("booted", "triage", "triage", has),
            "booted: record success 0 ",
            "status: triage by udev",
            state("removed", "mq-deadline", "none", "none"),
            state("changed", "mq-deadline", "none", "none"),
        ],
    )
    return 0 if guest.good else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).absolute()))
