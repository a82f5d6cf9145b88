# SPDX-License-Identifier: GPL-2.0-only
"""Build a computer from files, which triagectl reads in place of /sys, /proc, /etc and so on."""

import os
import platform
from pathlib import Path

from triagectl.sysfs import Disk
from triagectl.system import System

DEADLINE = "[mq-deadline] kyber bfq none"


class Machine:
    """Writes files below a folder that triagectl takes for the computer's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.system = System(root)
        self.file(
            "proc/self/mounts",
            "debugfs /sys/kernel/debug debugfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
        )
        self.file("sys/kernel/debug/README", "")
        (self.root / "run").mkdir()
        self.modules()

    def file(self, name: str, text: str) -> Path:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def modules(self, *names: str) -> None:
        lines = [f"kernel/block/{name}.ko:\n" for name in names]
        self.file(f"lib/modules/{platform.release()}/modules.dep", "".join(lines))

    def disk(
        self,
        name: str = "sda",
        schedulers: str = DEADLINE,
        number: str = "8:0",
        queues: int = 1,
        rotational: bool = False,
        **tunables: object,
    ) -> Disk:
        """Add a disk with a partition, below a SCSI host in sysfs."""
        real = self.root / f"sys/devices/pci0/0000:00:1f.2/host0/{name}"
        real.mkdir(parents=True)
        block = self.root / "sys/block"
        block.mkdir(parents=True, exist_ok=True)
        (block / name).symlink_to(os.path.relpath(real, block))
        folder = f"sys/block/{name}"
        for file, text in {
            "dev": number,
            "size": "2048",
            "uevent": f"MAJOR=8\nMINOR=0\nDEVNAME={name}\nDEVTYPE=disk\n",
            "stat": " ".join(["0"] * 17),
            "queue/scheduler": schedulers,
            "queue/rotational": str(int(rotational)),
            "queue/nr_requests": "64",
            "device/model": "MODEL 1",
            f"{name}1/partition": "1",
            f"{name}1/dev": number.replace(":0", ":1"),
            **{f"queue/iosched/{key}": str(value) for key, value in tunables.items()},
            **{f"mq/{queue}/nr_tags": "64" for queue in range(queues)},
        }.items():
            self.file(f"{folder}/{file}", text + "\n")
        (real.parent / "driver").mkdir(exist_ok=True)
        return Disk(name, self.root / folder)

    def stacked(self, name: str, uuid: str, *below: str, number: str = "253:0") -> Disk:
        """Add a device-mapper device that is stacked on other devices."""
        folder = f"sys/block/{name}"
        self.file(f"{folder}/dev", number)
        self.file(f"{folder}/size", "2048")
        self.file(f"{folder}/queue/scheduler", "none")
        self.file(f"{folder}/dm/uuid", uuid)
        for one in below:
            self.file(f"{folder}/slaves/{one}/dev", "")
        return Disk(name, self.root / folder)
