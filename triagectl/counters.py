# SPDX-License-Identifier: GPL-2.0-only
"""Read the kernel's exact counts of a disk's requests from the disk's sysfs file `stat`."""

from dataclasses import dataclass

from triagectl.requests import SECTOR
from triagectl.sysfs import Disk


@dataclass(frozen=True)
class Counts:
    """A disk's work since the machine started, or between two moments."""

    reads: int
    read_bytes: int
    read_ms: int
    writes: int
    written_bytes: int
    write_ms: int
    in_flight: int
    busy_ms: int

    def since(self, before: "Counts") -> "Counts":
        """Return the difference from earlier counts; `in_flight` keeps its present value.

        A disk that is gone has counts of 0, and a new disk of the same name begins at 0. So a
        negative difference counts as 0.
        """
        return Counts(
            max(0, self.reads - before.reads),
            max(0, self.read_bytes - before.read_bytes),
            max(0, self.read_ms - before.read_ms),
            max(0, self.writes - before.writes),
            max(0, self.written_bytes - before.written_bytes),
            max(0, self.write_ms - before.write_ms),
            self.in_flight,
            max(0, self.busy_ms - before.busy_ms),
        )

    @property
    def requests(self) -> int:
        """Return the number of reads and writes."""
        return self.reads + self.writes

    @property
    def bytes(self) -> int:
        """Return the number of bytes read and written."""
        return self.read_bytes + self.written_bytes


def of(disk: Disk) -> Counts:
    """Return a disk's counts. All are zero for a disk that is gone."""
    words = [int(word) for word in (disk.attribute("stat") or "").split()] or [0] * 11
    return Counts(
        reads=words[0],
        read_bytes=words[2] * SECTOR,
        read_ms=words[3],
        writes=words[4],
        written_bytes=words[6] * SECTOR,
        write_ms=words[7],
        in_flight=words[8],
        busy_ms=words[9],
    )
