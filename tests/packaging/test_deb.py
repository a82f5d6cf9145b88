# SPDX-License-Identifier: GPL-2.0-only
"""Test the Debian package: its content, and its installation, upgrade and removal.

dpkg and DKMS work in a copy of this computer's system. The same source makes the same bytes.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from triagelab.base import tools
from triagelab.base.version import version
from triagelab.provision import kernels

from tests.packaging import in_guest
from tests.packaging.system import (
    NEXT,
    PACKAGING,
    ROOT,
    UNIT,
    WANTED,
    System,
    copied,
    make,
    of_next_version,
)
from triagectl import PYTHON

DKMS = tools.Tool("dkms", "dkms")
UDEVADM = tools.Tool("udevadm", "udev")
OPENSSL = tools.Tool("openssl", "openssl")
#: The name of the key with which DKMS signs the module. The test makes it as docs/operate.md says.
SIGNER = "Key of mine"
SHELLCHECK = tools.Tool("shellcheck", "shellcheck")


@pytest.fixture(scope="module")
def deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("deb")
    make("deb", out)
    (package,) = out.glob("*.deb")
    return package


def test_it_holds_the_modules_source_and_nothing_of_the_laboratory(deb: Path) -> None:
    lines = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True).stdout
    entries = {line.split()[5]: line.split() for line in lines.splitlines()}
    assert {line[1] for line in entries.values()} == {"root/root"}
    files = {name: line[0] for name, line in entries.items() if not name.endswith("/")}
    source = f"./usr/src/triage-{version()}"
    assert set(files.values()) <= {"-rw-r--r--", "-rwxr-xr-x", "lrwxrwxrwx"}
    assert files[f"{source}/dkms.conf"] == "-rw-r--r--"
    assert files["./usr/lib/triage/put-back"] == "-rwxr-xr-x"
    assert files["./usr/lib/udev/rules.d/60-triage.rules"] == "-rw-r--r--"
    assert files[f".{UNIT}"] == "-rw-r--r--"
    assert files[f".{WANTED}"] == "lrwxrwxrwx"
    built = {Path(name).name for name in files if name.startswith(f"{source}/triage/")}
    assert built == {
        path.name for path in (ROOT / "kernel/triage").iterdir() if path.suffix != ".md"
    }
    assert not [name for name in files if name.startswith("./etc")], "a conffile outlives removal"
    assert not [name for name in files if re.search("gatedisk|modeldisk|prio-(basic|adap)", name)]


def test_it_asks_for_what_its_build_needs(deb: Path) -> None:
    command = ["dpkg-deb", "-f", str(deb), "Depends"]
    depends = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"python3 (>= {'.'.join(map(str, PYTHON))})" in depends
    assert "dkms (>= 2.8.7)" in depends, "the version of Ubuntu 22.04"
    assert "zstd" in depends.strip().split(", "), "kernel images may be packed with it"
    known = set(in_guest.PACKAGES.split(","))
    for any_of in depends.strip().split(", "):
        names = {re.sub(r" \(.*", "", name) for name in any_of.split(" | ")}
        assert names & known, "the guest that installs the package has no network"


def test_the_same_source_makes_the_same_bytes(deb: Path, tmp_path: Path) -> None:
    source = copied(tmp_path / "elsewhere")
    for path in source.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
    make("deb", tmp_path / "out", source=source)
    (other,) = (tmp_path / "out").glob("*.deb")
    assert other.name == deb.name
    assert other.read_bytes() == deb.read_bytes()


def test_the_maintainer_may_have_any_name(tmp_path: Path) -> None:
    maintainer = "Niamh O'Hara & \\|Sons <niamh@example.org>"
    make("deb", tmp_path, f"MAINTAINER={maintainer}")
    (package,) = tmp_path.glob("*.deb")
    done = subprocess.run(["dpkg-deb", "-f", package, "Maintainer"], capture_output=True, text=True)
    assert done.stdout.rstrip("\n") == maintainer


def test_scripts_are_sound() -> None:
    tools.require([SHELLCHECK])
    scripts = [
        PACKAGING / "put-back",
        PACKAGING / "remove-modules",
        *sorted(PACKAGING.glob("deb/p*")),
    ]
    done = subprocess.run(
        [tools.path(SHELLCHECK), *scripts, PACKAGING / "arch/PKGBUILD"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces")
def test_installed_upgraded_and_removed_nothing_is_left(deb: Path, tmp_path: Path) -> None:
    tools.require([DKMS, UDEVADM, OPENSSL, tools.PAHOLE])
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    system = System.make(tmp_path / "system")
    system.add_disk("sda", "none mq-deadline kyber [triage]")
    # For sdb, udev's database has a record of the former scheduler.
    system.add_disk("sdb", "none mq-deadline kyber [triage]")
    (newer,) = of_next_version("deb", tmp_path).glob("*.deb")
    modules = f"/lib/modules/{kernel.release}"
    assert kernel.headers is not None
    system.give(
        f"""
        # A user's own module, in the folder that docs/operate.md names. It must exist at the end.
        mkdir -p {modules} /lib/modules/1.0/extra /run/udev/data
        touch /lib/modules/1.0/extra/triage-iosched.ko
        cp -r {kernel.modules}/modules.* {modules}
        ln -s {kernel.headers} {modules}/build
        openssl req -new -x509 -nodes -subj '/CN={SIGNER}' -newkey rsa:2048 \
            -keyout /key.priv -outform DER -out /key.der
        printf 'mok_signing_key=/key.priv\nmok_certificate=/key.der\n' >> /etc/dkms/framework.conf
        # Otherwise DKMS would build only for the running kernel, if this has a folder in
        # /lib/modules.
        echo autoinstall_all_kernels=1 >> /etc/dkms/framework.conf
        printf 'E:TRIAGE_BEFORE=kyber\\n' > /run/udev/data/b8:16
        find /boot /etc /usr /var {modules} | sort > /out/before

        dpkg -i {deb}
        dkms status triage > /out/installed
        cp $(find {modules} -name 'triage-iosched.ko*') /out
        modinfo -F signer /out/triage-iosched.ko* >> /out/installed
        modinfo -F version /out/triage-iosched.ko* >> /out/installed
        triagectl --version >> /out/installed
        cat /sys/block/*/queue/scheduler > /out/schedulers

        dpkg -i {newer}
        dkms status triage > /out/upgraded
        modinfo -F version $(find {modules} -name 'triage-iosched.ko*') >> /out/upgraded
        triagectl --version >> /out/upgraded
        ls -d /usr/src/triage-* >> /out/upgraded
        cat /sys/block/*/queue/scheduler >> /out/schedulers

        # DKMS leaves this file, because its version is not that of DKMS's own copy.
        find {modules} -name 'triage-iosched.ko*' -delete
        cp /out/triage-iosched.ko* {modules}/updates/dkms
        dpkg -r triage-dkms
        dpkg -P triage-dkms
        find /boot /etc /usr /var {modules} | sort > /out/after
        """,
        [deb.parent, newer.parent, kernel.root],
    )
    told = {name: (system.folder / name).read_text() for name in ("installed", "upgraded")}
    assert f"triage/{version()}, {kernel.release}, x86_64: installed" in told["installed"]
    assert told["installed"].splitlines()[1:] == [SIGNER, version(), f"triagectl {version()}"]
    assert f"triage/{NEXT}, {kernel.release}, x86_64: installed" in told["upgraded"]
    sources = f"/usr/src/triage-{NEXT}"
    assert told["upgraded"].splitlines()[1:] == [NEXT, f"triagectl {NEXT}", sources]
    # An upgrade does not change the disks' schedulers. The removal restores the former ones.
    assert (system.folder / "schedulers").read_text().count("[triage]") == 4
    assert system.scheduler("sda") == "mq-deadline"
    assert system.scheduler("sdb") == "kyber"
    before, after = (
        set((system.folder / name).read_text().splitlines()) for name in ("before", "after")
    )
    # DKMS keeps its key, and dpkg keeps old copies of its lists. Programs outside of the copy may
    # create and remove files in /var/tmp meanwhile, as rpmbuild does in another test.
    kept = re.compile("/var/(lib/(dkms/mok|dpkg/)|cache/|log/|tmp/)")
    assert [path for path in after - before if not kept.match(path)] == []
    assert [path for path in before - after if not kept.match(path)] == []
