# SPDX-License-Identifier: GPL-2.0-only
"""Write a text file for the textfile collector of Prometheus' node exporter."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from triagectl.errors import CtlError, RequestError

_DISK = {
    "iops": ("triagectl_disk_iops", "Requests a second."),
    "read_bytes_per_s": ("triagectl_disk_read_bytes_per_second", "Bytes read a second."),
    "written_bytes_per_s": ("triagectl_disk_written_bytes_per_second", "Bytes written a second."),
    "busy": ("triagectl_disk_busy_ratio", "Share of the time with a request in the disk."),
    "in_flight": ("triagectl_disk_in_flight", "Requests that are not done."),
}
_CLASS = {
    "iops": ("triagectl_class_iops", "Requests a second of a class."),
    "bytes_per_s": ("triagectl_class_bytes_per_second", "Bytes a second of a class."),
    "share": ("triagectl_class_share_ratio", "Share of the time that requests are in the disk."),
}
_TIMES = ("triagectl_class_seconds", "Time of a request in a part of its way.")


def check(path: Path) -> None:
    """Raise RequestError if the name does not end in .prom or its folder does not exist."""
    if path.suffix != ".prom":
        raise RequestError(f"{path}: the collector reads files that end in .prom only")
    if not path.parent.is_dir():
        raise RequestError(f"there is no folder {path.parent}")


def write(path: Path, views: Sequence[dict[str, Any]]) -> None:
    """Write the file, whole or not at all."""
    try:
        # The folder may be another user's: mkstemp takes a new name, and follows no link.
        fd, scratch = tempfile.mkstemp(".part", f".{path.name}.", path.parent)
        try:
            with os.fdopen(fd, "w") as file:
                os.fchmod(fd, 0o644)
                file.write("\n".join(lines(views)) + "\n")
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CtlError(f"cannot write {path}: {error.strerror}") from error


def lines(views: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the file. Processes are left out: each would be a new time series."""
    for key, (name, text) in _DISK.items():
        yield from _head(name, text)
        for view in views:
            yield f'{name}{{disk="{view["disk"]}"}} {view[key]:.6g}'
    for key, (name, text) in _CLASS.items():
        yield from _head(name, text)
        for view in views:
            for of in view["classes"]:
                yield f'{name}{{disk="{view["disk"]}",class="{of["class"]}"}} {of[key]:.6g}'
    yield from _head(*_TIMES)
    for view in views:
        for of in view["classes"]:
            for part in ("queue", "device"):
                for quantile, word in (("0.5", "p50"), ("0.99", "p99")):
                    value = of[f"{part}_{word}_ns"]
                    if value is not None:
                        yield (
                            f'{_TIMES[0]}{{disk="{view["disk"]}",class="{of["class"]}",'
                            f'part="{part}",quantile="{quantile}"}} {value / 1e9:.6g}'
                        )


def _head(name: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} gauge"
