# SPDX-License-Identifier: GPL-2.0-only
"""Make a copy of this computer's system, in which tests install packages, with simulated disks.

The copy is an overlay in a mount namespace, so a test leaves nothing behind.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from triagelab.base import tools

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"

#: A test's script runs as PID 1 of its namespace. Else put-back would take the copy for a chroot.
_ENTER = """
set -e
mkdir "$1/mount"
mount -t tmpfs none "$1/mount"
cd "$1/mount"
mkdir upper work root
mount -t overlay none -o lowerdir=/,upperdir=upper,workdir=work root
mkdir -p root/out root/proc root/sys root/run
# This file would make put-back take the copy for a container. The tests may run in a container.
rm -f root/.dockerenv
mount -t proc none root/proc
mount --rbind /dev root/dev
mount -t tmpfs none root/run
mount --bind "$1" root/out
mount --bind "$1/sys" root/sys
shift
for folder in "$@"; do
	mkdir -p "root$folder"
	mount --bind "$folder" "root$folder"
done
exec chroot root sh -exc "$SCRIPT"
"""


@dataclass(frozen=True)
class System:
    """A copy of the system. `folder` is /out in the copy, and contains the copy's /sys."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "System":
        """Return a system without any disk."""
        (folder / "sys/block").mkdir(parents=True)
        (folder / "sys/class/block").mkdir(parents=True)
        return cls(folder)

    def add_disk(self, name: str, schedulers: str, queues: int = 1, zoned: str = "none") -> None:
        """Add a disk, with the files of /sys that the packages and udev read."""
        sys = self.folder / "sys"
        number = len(list((sys / "block").iterdir())) * 16
        disk = sys / "devices/fake" / name
        for queue in range(queues):
            (disk / "mq" / str(queue)).mkdir(parents=True)
        (disk / "queue").mkdir()
        (disk / "queue/scheduler").write_text(f"{schedulers}\n")
        (disk / "queue/zoned").write_text(f"{zoned}\n")
        (disk / "dev").write_text(f"8:{number}\n")
        (disk / "uevent").write_text(f"MAJOR=8\nMINOR={number}\nDEVNAME={name}\nDEVTYPE=disk\n")
        (disk / "subsystem").symlink_to("../../../class/block")
        for place in ("block", "class/block"):
            (sys / place / name).symlink_to(f"{'../' * len(Path(place).parts)}devices/fake/{name}")

    def scheduler(self, name: str) -> str:
        """Return the text of a disk's scheduler file: the last choice as it was written."""
        return (self.folder / "sys/block" / name / "queue/scheduler").read_text().strip()

    def give(self, script: str, binds: Iterable[Path] = ()) -> str:
        """Run a script in the system; return its output, of both streams."""
        command = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", _ENTER, "sh"]
        # Under this lock no other test installs a program, which would appear in the copy.
        with tools.install_lock():
            done = subprocess.run(
                [*command, str(self.folder), *map(str, binds)],
                # By default udev refuses a /sys that is not a sysfs file system.
                env={
                    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                    "SYSTEMD_DEVICE_VERIFY_SYSFS": "0",
                    "DEBIAN_FRONTEND": "noninteractive",
                    "SCRIPT": script,
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        (self.folder / "mount").rmdir()
        assert done.returncode == 0, done.stdout
        return done.stdout


def make(target: str, out: Path, *arguments: str, source: Path = ROOT) -> str:
    """Make a target of packaging/ with its products in `out`; return make's output."""
    done = subprocess.run(
        ["make", "-C", str(source / "packaging"), target, f"OUT={out}", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


#: The unit that records schedulers at each boot, and the link that starts it.
UNIT = "/usr/lib/systemd/system/triagectl-record.service"
WANTED = "/usr/lib/systemd/system/multi-user.target.wants/triagectl-record.service"
#: A version that is newer than any real one.
NEXT = "99.0.0"


def copied(folder: Path) -> Path:
    """Copy everything that packages are made from into a folder; return the folder."""
    for name in ("kernel", "packaging", "docs", "triagectl"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, folder / name)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"):
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def of_next_version(target: str, folder: Path) -> Path:
    """Make a target's packages from the same source with a newer version; return their folder."""
    source = copied(folder / "source")
    header = source / "kernel/triage/version.h"
    header.write_text(re.sub('VERSION ".*"', f'VERSION "{NEXT}"', header.read_text()))
    changes = source / "CHANGELOG.md"
    begin, end = changes.read_text().split("\n## ", 1)
    changes.write_text(f"{begin}\n## {NEXT} – 2026-11-01\n\n- Later.\n\n## {end}")
    make(target, folder / "next", source=source)
    return folder / "next"
