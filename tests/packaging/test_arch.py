# SPDX-License-Identifier: GPL-2.0-only
"""Test the PKGBUILD without makepkg and pacman.

bash reads it, its checksum fits the archive, and package() fills a folder. In a copy of this
computer's system, bash also runs what pacman runs before a removal.
"""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from triagelab.base.version import version

from tests.packaging.system import PACKAGING, UNIT, WANTED, System, make
from triagectl import PYTHON


def test_its_package_fills_a_folder(tmp_path: Path) -> None:
    make("arch", tmp_path)
    folder = tmp_path / "arch"
    script = f"""
        set -eu
        bash -n triage-dkms.install
        . ./PKGBUILD
        echo "$pkgver ${{sha256sums[0]}} ${{source[0]}} $install"
        echo "${{depends[@]}}" | tr ' ' '\\n' | grep -E '>=|zstd'
        mkdir {tmp_path}/src {tmp_path}/pkg
        pkgdir={tmp_path}/pkg
        tar -xf "${{source[0]}}" -C {tmp_path}/src
        cd {tmp_path}/src
        package > /dev/null
    """
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    archive = f"triage-{version()}.tar.gz"
    digest = hashlib.sha256((folder / archive).read_bytes()).hexdigest()
    oldest = f"python>={'.'.join(map(str, PYTHON))}"
    assert done.stdout.split() == [
        version(),
        digest,
        archive,
        "triage-dkms.install",
        oldest,
        "zstd",
    ]
    made = {str(path.relative_to(tmp_path / "pkg")) for path in (tmp_path / "pkg").rglob("*")}
    assert {
        f"usr/src/triage-{version()}/dkms.conf",
        "usr/lib/triage/put-back",
        "usr/lib/udev/rules.d/60-triage.rules",
        "usr/share/licenses/triage-dkms/LICENSE",
        UNIT.lstrip("/"),
        WANTED.lstrip("/"),
    } <= made


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces")
def test_its_removal_spares_a_module_that_a_user_built(tmp_path: Path) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", "none mq-deadline kyber [triage]")
    system.give(
        f"""
        make -s -C {PACKAGING} install DESTDIR=/package
        cp -r /package/. /
        for folder in extra updates/dkms; do
            mkdir -p /lib/modules/1.0/$folder
            touch /lib/modules/1.0/$folder/triage-iosched.ko.zst
        done
        bash -c '. {PACKAGING}/arch/triage-dkms.install; pre_remove'
        find /lib/modules/1.0 -name 'triage*' > /out/left
        """,
        [PACKAGING.parent],
    )
    left = (tmp_path / "left").read_text().split()
    assert left == ["/lib/modules/1.0/extra/triage-iosched.ko.zst"]
    assert system.scheduler("sda") == "mq-deadline"
