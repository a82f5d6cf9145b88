# SPDX-License-Identifier: GPL-2.0-only
"""`triagectl doctor`: write one file for a bug report, with private data left out."""

import gzip
import json
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from triagectl import counters, debugfs, ioprio, kernellog, private, screen, status, sysfs, tuned
from triagectl.errors import CtlError, RequestError
from triagectl.sysfs import Disk
from triagectl.system import System, folders, names, read
from triagectl.version import version

_OPTIONS = re.compile(
    r"^CONFIG_\w*(IOSCHED|BLK_|BLOCK|DEBUG_INFO_BTF|MODULE_SIG|LOCKDOWN|PREEMPT|HZ|NR_CPUS|"
    r"HIST_TRIGGERS|EVENT_TRACING)\w*=.*$",
    re.M,
)
#: Words to keep of the kernel's command line. Other words may name disks, hosts and keys.
_WORDS = re.compile(r"(elevator|scsi_mod|nvme|blk|iosched|libata|lockdown|module\.sig|mitigations)")
#: The modules to report: schedulers and drivers of disks.
_MODULES = re.compile(r".*_iosched$|^(bfq|mq_deadline|null_blk|nvme|scsi_mod|dm_crypt)$")
_VM = ("dirty_ratio", "dirty_bytes", "dirty_background_ratio", "dirty_background_bytes")


@dataclass(frozen=True)
class Options:
    """The user's options. Without `file`, the file is in the current folder, named by the time."""

    file: Path | None = None
    json: bool = False


def run(system: System, options: Options) -> int:
    """Write the report to a file."""
    suffix = "json" if options.json else "txt"
    path = options.file or Path(time.strftime(f"triagectl-doctor-%Y%m%d-%H%M%S.{suffix}"))
    if path.exists():
        raise RequestError(f"{path} exists: name another file")
    if not path.parent.is_dir():
        raise RequestError(f"there is no folder {path.parent}")
    found = private.Scrubber(system).all(collected(system))
    text = json.dumps(found, indent=1) if options.json else rendered(found)
    try:
        # Others must not read the file before the user has checked it, so its mode is 0600.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode(errors="backslashreplace") + b"\n")
    except OSError as error:
        raise CtlError(f"cannot write {path}: {error.strerror}") from error
    print(f"wrote {path}: read it before you send it")
    if os.geteuid():
        print("not as root: debugfs, the kernel's log and other users' processes are missing")
    return 0


def collected(system: System) -> dict[str, Any]:
    """Return the report's sections by name."""
    sections: dict[str, Callable[[System], Any]] = {
        "machine": _machine,
        "kernel options": _config,
        "modules": _modules,
        "disks": _disks,
        "memory": _memory,
        "processes": _processes,
        "control groups": _groups,
        "kernel log": lambda of: kernellog.lines(of.path("dev/kmsg")),
    }
    return {name: _tried(section, system) for name, section in sections.items()}


def _tried(section: Callable[[System], Any], system: System) -> Any:
    try:
        return section(system)
    except Exception as error:
        # A report that lacks one section is better than no report.
        return f"triagectl could not collect this: {type(error).__name__}: {error}"


def _machine(system: System) -> dict[str, Any]:
    distribution = re.search(r'^PRETTY_NAME="?([^"\n]*)', system.read("etc/os-release") or "", re.M)
    words = (system.read("proc/cmdline") or "").split()
    kept = [word for word in words if _WORDS.match(word)]
    return {
        "time": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "distribution": distribution[1] if distribution else None,
        "kernel": platform.release(),
        "build": platform.version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "uptime s": (system.read("proc/uptime") or "").split(" ")[0],
        "tainted": system.read("proc/sys/kernel/tainted"),
        "lockdown": system.read("sys/kernel/security/lockdown"),
        "command line": f"{' '.join(kept)} ({len(words) - len(kept)} other words left out)",
        "virtualisation": system.read("sys/hypervisor/type")
        or ("yes" if " hypervisor" in (system.read("proc/cpuinfo") or "") else "none seen"),
        "tuned profile": _profile(system),
        "triagectl": version(),
        "python": platform.python_version(),
        "root": os.geteuid() == 0,
    }


def _profile(system: System) -> str | None:
    """Return the names of tuned's active profiles; None if there are none.

    Hide each name that is not one of the distribution's profiles.
    """
    folder = "usr/lib/tuned"
    known = [*names(system.path(folder)), *names(system.path(f"{folder}/profiles"))]
    words = [word if word in known else "<profile>" for word in tuned.profile(system).split()]
    return " ".join(words) or None


def _config(system: System) -> list[str]:
    text = system.read(f"boot/config-{platform.release()}")
    if text is None:
        try:
            text = gzip.decompress(system.path("proc/config.gz").read_bytes()).decode()
        except OSError:
            return ["the kernel's options cannot be read"]
    return [found[0] for found in _OPTIONS.finditer(text)]


def _modules(system: System) -> dict[str, Any]:
    folder = system.path("sys/module")
    return {
        name: {
            key: read(folder / name / key)
            for key in ("version", "srcversion", "taint", "refcnt", "initstate")
        }
        for name in names(folder)
        if _MODULES.match(name)
    }


def _disks(system: System) -> dict[str, Any]:
    return {disk.name: _disk(system, disk) for disk in sysfs.all_disks(system) if _shown(disk)}


def _shown(disk: Disk) -> bool:
    """Return whether to report a disk. A loop device that is not in use has no size: skip it."""
    return bool(disk.number("size"))


def _disk(system: System, disk: Disk) -> dict[str, Any]:
    driver = disk.folder / "device/driver"
    return {
        "status": status.about(system, disk),
        "size in sectors": disk.number("size"),
        "driver": driver.resolve().name if driver.exists() else None,
        # A model is a kind of drive. A serial number identifies one drive, so it is not read.
        "model": disk.attribute("device/model"),
        "firmware": disk.attribute("device/firmware_rev") or disk.attribute("device/rev"),
        "partitions": len(disk.partitions),
        "counts": asdict(counters.of(disk)),
        "queue": sysfs.settings(disk.folder / "queue"),
        "scheduler's files": debugfs.files(system, disk.name),
    }


def _memory(system: System) -> dict[str, Any]:
    wanted = re.compile(
        r"^(MemTotal|MemAvailable|Dirty|Writeback|SwapTotal|SwapFree):\s*(.*)$", re.M
    )
    found: dict[str, Any] = dict(wanted.findall(system.read("proc/meminfo") or ""))
    found |= {f"vm.{name}": system.read(f"proc/sys/vm/{name}") for name in _VM}
    found["pressure"] = system.read("proc/pressure/io")
    return found


def _processes(system: System) -> dict[str, Any]:
    """Return the number of threads with each I/O priority, without names and arguments."""
    tids = [
        int(tid)
        for pid in names(system.path("proc"))
        if pid.isdigit()
        for tid in names(system.path(f"proc/{pid}/task"))
    ]
    found = Counter(str(priority) for tid in tids if (priority := ioprio.of_thread(tid)))
    return {"threads": len(tids), "by I/O priority": dict(found.most_common())}


#: The files with a control group's I/O settings.
_GROUP_FILES = (
    "io.max",
    "io.latency",
    "io.bfq.weight",
    "io.triage.weight",
    "io.weight",
    "io.prio.class",
)


def _groups(system: System) -> dict[str, Any]:
    """Return the number of control groups with each setting, without names."""
    top = system.mounted("cgroup2")
    if top is None:
        return {"version 2": "not mounted"}
    found: Counter[str] = Counter()
    for folder in folders(top):
        found["groups"] += 1
        for name in _GROUP_FILES:
            text = read(folder / name)
            if text and text not in ("default 100", "no-change"):
                found[name] += 1
    return {
        **found,
        "controllers": read(top / "cgroup.controllers"),
        "io.cost.qos": read(top / "io.cost.qos"),
    }


def rendered(found: dict[str, Any]) -> str:
    """Return the sections as text."""
    lines = ["# triagectl doctor: read it before you send it"]
    for name, section in found.items():
        lines += ["", f"== {name}", *_lines(section, 0)]
    return "\n".join(lines)


def _lines(value: Any, depth: int) -> list[str]:
    indent = "  " * depth
    if isinstance(value, dict):
        found = []
        for key, one in value.items():
            if isinstance(one, dict | list) or "\n" in str(one):
                found += [f"{indent}{key}:", *_lines(one, depth + 1)]
            else:
                found += _lines(f"{key}: {one}", depth)
        return found
    if isinstance(value, list):
        return [line for one in value for line in _lines(one, depth)]
    return [indent + screen.plain(line.expandtabs()) for line in str(value).split("\n")]
