# SPDX-License-Identifier: GPL-2.0-only
"""Test the packages for Fedora: Debian's rpm builds them, and installs one in a copy of the system.

They hold the same files as the Debian package, and the same source makes the same bytes.
"""

import os
import subprocess
from pathlib import Path

import pytest
from triagelab.base import tools
from triagelab.base.version import version
from triagelab.provision import kernels

from tests.packaging.system import NEXT, UNIT, WANTED, System, make, of_next_version
from triagectl import PYTHON

RPMBUILD = tools.Tool("rpmbuild", "rpm")
DKMS = tools.Tool("dkms", "dkms")
OPENSSL = tools.Tool("openssl", "openssl")
SIGNER = "Key of akmods"
RELEASE = f"{version()}-1"


@pytest.fixture(scope="module")
def rpms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tools.require([RPMBUILD])
    out = tmp_path_factory.mktemp("rpm")
    make("rpm", out)
    return out


def query(package: Path, *what: str) -> list[str]:
    done = subprocess.run(
        ["rpm", "-qp", "--nosignature", *what, package], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_it_holds_what_the_debian_package_holds(rpms: Path) -> None:
    files = query(rpms / f"triage-dkms-{RELEASE}.noarch.rpm", "-l")
    assert f"/usr/src/triage-{version()}/dkms.conf" in files
    assert {"/usr/lib/triage/put-back", "/usr/lib/udev/rules.d/60-triage.rules"} <= set(files)
    akmod = query(rpms / f"akmod-triage-{RELEASE}.noarch.rpm", "-l")
    assert f"/usr/src/akmods/triage-kmod-{RELEASE}.src.rpm" in akmod
    assert {UNIT, WANTED} <= set(files) & set(akmod)
    assert not [name for name in files + akmod if name.startswith("/etc")]


@pytest.mark.parametrize("name", ["triage-dkms", "akmod-triage"])
def test_it_asks_for_what_its_build_needs(name: str, rpms: Path) -> None:
    requires = query(rpms / f"{name}-{RELEASE}.noarch.rpm", "--requires")
    assert f"python3 >= {'.'.join(map(str, PYTHON))}" in requires
    assert "zstd" in requires, "kernel images may be packed with it"


def test_the_same_source_makes_the_same_bytes(rpms: Path, tmp_path: Path) -> None:
    make("rpm", tmp_path)
    first, second = (
        {path.name: path.read_bytes() for path in of.glob("*.rpm")} for of in (rpms, tmp_path)
    )
    assert len(first) == 4
    assert first == second


def make_key(folder: Path) -> None:
    """Make a key as `kmodgenca -a` would, but in `folder` in place of /etc/pki/akmods."""
    for name in ("private", "certs"):
        (folder / name).mkdir(parents=True)
    key, certificate = folder / "private/private_key.priv", folder / "certs/public_key.der"
    command = ["openssl", "req", "-new", "-x509", "-nodes", "-newkey", "rsa:2048"]
    command += ["-subj", f"/CN={SIGNER}", "-keyout", str(key)]
    command += ["-outform", "DER", "-out", str(certificate)]
    subprocess.run(command, capture_output=True, check=True)


@pytest.mark.parametrize("signer", ["", SIGNER], ids=["no key", "key"])
def test_akmods_build_the_module_for_a_kernel(signer: str, rpms: Path, tmp_path: Path) -> None:
    """The command that akmods run builds the module, here with Debian's headers.

    If akmods have a key, the module is signed with it.
    """
    tools.require([*tools.BUILD, OPENSSL])
    kernel = kernels.find(kernels.DEFAULT_SERIES)
    keys = tmp_path / "keys"
    if signer:
        make_key(keys)
    defined = {
        "kernels": kernel.release,
        "kdir": kernel.headers,
        "akmods_keys": keys,
        "_topdir": tmp_path,
    }
    done = subprocess.run(
        [
            "rpmbuild",
            "--rebuild",
            "--nodeps",
            *(word for name, value in defined.items() for word in ("--define", f"{name} {value}")),
            rpms / f"triage-kmod-{RELEASE}.src.rpm",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (package,) = (tmp_path / "RPMS").rglob("*.rpm")
    assert {"akmod-triage", f"kernel-uname-r = {kernel.release}"} <= set(
        query(package, "--requires")
    )
    module = f"/lib/modules/{kernel.release}/extra/triage/triage-iosched.ko"
    assert module in query(package, "-l")
    unpack = f"rpm2cpio {package} | cpio -idm --quiet && modinfo -F signer .{module}"
    done = subprocess.run(["sh", "-c", unpack], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, signer), done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces")
def test_installed_upgraded_and_removed(rpms: Path, tmp_path: Path) -> None:
    tools.require([DKMS])
    newer = of_next_version("rpm", tmp_path)
    system = System.make(tmp_path / "system")
    system.add_disk("sda", "none mq-deadline kyber [triage]")
    rpm = "rpm --dbpath /rpm --nodeps --nosignature"
    system.give(
        f"""
        mkdir -p /usr/share/licenses /lib/modules  # Fedora has these folders
        find /etc /usr /var | sort > /before
        {rpm} -i {rpms}/triage-dkms-{RELEASE}.noarch.rpm
        dkms status triage > /out/installed
        {rpm} -U {newer}/triage-dkms-{NEXT}-1.noarch.rpm
        dkms status triage > /out/upgraded
        ls -d /usr/src/triage-* >> /out/upgraded
        cat /sys/block/sda/queue/scheduler >> /out/upgraded
        # The removal must delete only the file in extra, which DKMS may have left. The file in
        # extra/triage belongs to the package of akmods, and the file in updates/dkms to a user.
        mkdir -p /lib/modules/1.0/extra/triage /lib/modules/1.0/updates/dkms
        touch /lib/modules/1.0/updates/dkms/triage-iosched.ko
        touch /lib/modules/1.0/extra/triage-iosched.ko.xz
        touch /lib/modules/1.0/extra/triage/triage-iosched.ko
        {rpm} -e triage-dkms
        find /lib/modules/1.0 -name 'triage*.ko*' | sort > /out/left
        rm -r /lib/modules/1.0
        dkms status triage > /out/removed
        find /etc /usr /var | grep -v /var/lib/dkms/mok | sort > /after
        comm -13 /before /after >> /out/removed
        """,
        [rpms, newer],
    )
    told = {
        path.name: path.read_text() for path in (tmp_path / "system").iterdir() if path.is_file()
    }
    assert told["installed"] == f"triage/{version()}: added\n"
    assert told["upgraded"].splitlines() == [
        f"triage/{NEXT}: added",
        f"/usr/src/triage-{NEXT}",
        "none mq-deadline kyber [triage]",
    ]
    assert told["removed"] == ""
    assert told["left"].split() == [
        "/lib/modules/1.0/extra/triage/triage-iosched.ko",
        "/lib/modules/1.0/updates/dkms/triage-iosched.ko",
    ]
    assert system.scheduler("sda") == "mq-deadline"
