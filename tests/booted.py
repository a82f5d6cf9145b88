# SPDX-License-Identifier: GPL-2.0-only
"""Boot a copy of this computer's system in namespaces, with systemd as its first process.

A boot takes a second, and leaves nothing behind. The copy shares this computer's kernel, /sys and
disks. At boot, systemd starts Triage's services and no others.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

#: The shell script that builds the copy and starts systemd in it. $1 is a folder for the test; $2
#: lists the layers of /usr, the uppermost first. The script runs in a control group and a cgroup
#: namespace of its own, so systemd sees this group as the root. No layer of an overlay may lie
#: inside another one. The layers of $2 lie inside /, so /usr is an overlay of its own.
_ENTER = """
set -e
mount --make-rprivate /
mount -t tmpfs none "$1/mount"
cd "$1/mount"
mkdir upper work root upper-usr work-usr
mount -t overlay none -o "lowerdir=/,upperdir=upper,workdir=work" root
mount -t overlay none -o "lowerdir=$2,upperdir=upper-usr,workdir=work-usr" root/usr
mount -t proc none root/proc
mount --rbind /sys root/sys
umount -l root/sys/fs/cgroup
mount -t cgroup2 none root/sys/fs/cgroup
mountpoint -q root/sys/kernel/tracing || mount -t tracefs none root/sys/kernel/tracing
mount --rbind /dev root/dev
mount -t tmpfs none root/run
mount -t tmpfs none root/tmp
rm -rf root/etc/systemd/system
mkdir -p root/etc/systemd/system
for target in sysinit basic multi-user; do
	printf '[Unit]\\nDefaultDependencies=no\\n' > root/etc/systemd/system/$target.target
	for wanted in root/usr/lib/systemd/system/$target.target.wants/*; do
		case $wanted in */triagectl*) ;; *) rm -f "$wanted" ;; esac
	done
done
: > root/etc/machine-id
exec chroot root env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \\
	/lib/systemd/systemd --system --unit=multi-user.target --log-target=null --show-status=no
"""
#: The shell script that kills the copy and removes its control group $2, with the groups below. $1
#: is the PID of unshare, which kills the copy's first process when it dies (--kill-child). rmdir
#: removes a group only after its last process has ended, which takes a moment, so the script tries
#: again.
_REMOVE = """
kill -KILL "$1"
for try in $(seq 600); do
	find "$2" -depth -type d -exec rmdir {} + 2> /dev/null
	[ -e "$2" ] || exit 0
	sleep 0.1
done
exit 1
"""
_LIMIT_S = 60.0


@dataclass(frozen=True)
class Booted:
    """A running copy of the system.

    pid    the PID that its systemd has outside the copy
    group  the control group of all its processes
    """

    pid: int
    group: Path

    def give(self, script: str, environment: Mapping[str, str] | None = None) -> str:
        """Run a shell script in the copy and return its output; fail if a command in it fails."""
        done = self.tried(script, environment)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def tried(
        self, script: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a shell script that may fail; `stdout` of the result has stderr's output too."""
        inside = ["nsenter", "-t", str(self.pid), "-m", "-p", "-C", "--root", "--wd"]
        return subprocess.run(
            # If the script were an argument, `pgrep -f` in it would find the script's own shell.
            [*inside, "sh", "-exc", 'eval "$SCRIPT"'],
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "LANG": "C.UTF-8",
                "SCRIPT": script,
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )


@contextmanager
def in_the_end(script: str, *arguments: str) -> Iterator[None]:
    """Run a shell script at the end of the `with` block, even if this process is killed inside it.

    A second process reads its standard input until the end, and then runs the script. The input
    ends when this process closes it or is killed. Fail if the script fails.
    """
    guard = subprocess.Popen(
        ["sh", "-c", f"cat > /dev/null\n{script}", "sh", *arguments],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert guard.stdin
    try:
        yield
    finally:
        guard.stdin.close()
        assert guard.wait() == 0, script


@contextmanager
def booted(folder: Path, layers: Sequence[Path]) -> Iterator[Booted]:
    """Boot a copy of the system, with the `usr` folder of each layer laid over its /usr.

    The first layer is the uppermost. At the end of the `with` block, the copy is killed. Only root
    can boot a copy.
    """
    (folder / "mount").mkdir(parents=True)
    group = unified() / f"triage-booted-{os.getpid()}"
    group.mkdir()
    enter = f'echo $$ > "{group}/cgroup.procs" && exec unshare -m -p -f -C --kill-child "$@"'
    inside = [
        "sh",
        "-c",
        _ENTER,
        "sh",
        str(folder),
        ":".join([*(f"{one}/usr" for one in layers), "/usr"]),
    ]
    said = folder / "boot.log"
    with said.open("w") as log:
        outer = subprocess.Popen(
            ["sh", "-c", enter, "sh", *inside],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        with in_the_end(_REMOVE, str(outer.pid), str(group)):
            yield _running(outer, group, said)
    finally:
        outer.wait()
        (folder / "mount").rmdir()


def _running(outer: "subprocess.Popen[bytes]", group: Path, said: Path) -> Booted:
    """Wait until systemd reports that the copy is running; return the copy. Fail after _LIMIT_S."""
    latest = time.monotonic() + _LIMIT_S
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    while time.monotonic() < latest and outer.poll() is None:
        found = children.read_text().split()
        if found:
            system = Booted(int(found[0]), group)
            if system.tried("systemctl is-system-running").stdout.endswith("running\n"):
                return system
        time.sleep(0.1)
    raise AssertionError(f"systemd did not start: {said.read_text()}")


def unified() -> Path:
    """Return the mount point of cgroup2; skip the test if there is none."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(where)
    pytest.skip("no cgroup2 is mounted here, which systemd would need")


@contextmanager
def loop_disk(folder: Path) -> Iterator[str]:
    """Make a loop device with a file system and yield its name; remove the device afterwards.

    Skip the test if this computer has no loop device.
    """
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(1 << 30)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", image], check=True)
    command = ["losetup", "-f", "--show", "--direct-io=on", str(image)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no loop device: {done.stderr.strip()}")
    name = done.stdout.strip().removeprefix("/dev/")
    with in_the_end('losetup -d "$1" && rm "$2"', f"/dev/{name}", str(image)):
        yield name


def layer(folder: Path, *unpacked: Path) -> Path:
    """Copy the files of unpacked packages to a layer in `folder`, and return this folder.

    Files of /lib go to usr/lib: booted() uses only `usr` of a layer, and /lib is a link to usr/lib.
    """
    for package in unpacked:
        for name in ("usr/bin", "usr/sbin", "usr/lib", "usr/share", "lib"):
            if (package / name).is_dir():
                target = folder / (name if name.startswith("usr") else f"usr/{name}")
                target.mkdir(parents=True, exist_ok=True)
                _copy(package / name, target)
    return folder


def _copy(source: Path, target: Path) -> None:
    """Copy a folder's content; make hard links instead if both folders are in one file system."""
    copy = ["cp", "--archive", "--no-clobber", f"{source}/.", str(target)]
    if subprocess.run([*copy, "--link"], capture_output=True).returncode:
        subprocess.run(copy, check=True, capture_output=True)
