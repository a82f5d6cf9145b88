# SPDX-License-Identifier: GPL-2.0-only
"""Find the lines of the kernel's log that concern disks and schedulers."""

import os
import re
from pathlib import Path

_WANTED = re.compile(
    r"triage|iosched|io scheduler|I/O error|blk_|block (device|layer)|buffer_head|"
    r"critical (medium|target)|"
    r"\bnvme|\bata\d|\bsd \d|\bscsi|virtio_blk|null_blk|mmc\d|hung_task|blocked for more|"
    r"BUG|WARNING|Oops|general protection|RIP:|Call Trace|^ +\S+\+0x|Tainted|lockdep|rcu:.*stall"
)
#: Lines to leave out, because they may name disks, hosts and keys: the kernel's command line, and
#: its words, which the kernel may log again one a line, as arguments of init.
_NOT = re.compile(r"command line|^\s+[^\s+]+$", re.I)
_MOST = 300


def lines(path: Path) -> list[str]:
    """Return the last _MOST wanted lines with their times; none if the log cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    found = []
    try:
        while True:
            try:
                record = os.read(fd, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # the record was overwritten before it was read: read the next one
            if not record:
                break
            found.append(record.decode(errors="replace"))
    finally:
        os.close(fd)
    return wanted(found)


def wanted(records: list[str]) -> list[str]:
    """Return the wanted records of /dev/kmsg, as `[seconds] text`; at most the last _MOST."""
    found = []
    for record in records:
        head, _, text = record.partition(";")
        text = text.split("\n")[0]
        words = head.split(",")
        if len(words) > 2 and _WANTED.search(text) and not _NOT.search(text):
            found.append(f"[{int(words[2]) / 1e6:.3f}] {text}")
    return found[-_MOST:]
