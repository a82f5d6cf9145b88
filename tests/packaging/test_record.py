# SPDX-License-Identifier: GPL-2.0-only
"""Tests of the unit that records the schedulers at each boot.

systemd accepts the unit, and a link starts it at boot. After the unit's command has run, `triagectl
status` reports a later change. tests/triagectl/test_systemd.py boots a system with the unit.
"""

import os
from pathlib import Path

import pytest
from triagelab.base import tools

from tests.packaging.system import UNIT, WANTED, System, make

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces")
SYSTEMD = tools.Tool("systemd-analyze", "systemd")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    make("install", folder, f"DESTDIR={folder}/root")
    return folder / "root"


def test_systemd_accepts_it(installed: Path, tmp_path: Path) -> None:
    tools.require([SYSTEMD])
    system = System.make(tmp_path)
    said = system.give(
        f"""
        cp -r {installed}/. /
        systemd-analyze verify --man=no {UNIT} 2>&1
        test {WANTED} -ef {UNIT}
        test "$(systemctl is-enabled triagectl-record.service)" = static
        systemctl mask -q triagectl-record.service
        test "$(systemctl is-enabled triagectl-record.service)" = masked
        """,
        [installed],
    )
    complaints = [line for line in said.splitlines() if "triagectl-record" in line]
    assert [line for line in complaints if not line.startswith(("+", "Created symlink"))] == []


def test_a_change_after_the_boot_is_told(installed: Path, tmp_path: Path) -> None:
    system = System.make(tmp_path)
    system.add_disk("sda", "[mq-deadline] none")
    said = system.give(
        f"""
        cp -r {installed}/. /
        unit() {{ sed -n "s/^$1=//p" {UNIT}; }}
        record=$(unit ConditionPathExists)
        test ! -e "${{record#!}}"
        sh -ec "$(unit ExecStart)"
        test -e "${{record#!}}"
        echo 'mq-deadline [none]' > /sys/block/sda/queue/scheduler
        triagectl status sda
        """,
        [installed],
    )
    assert "changed  since the boot: yes: at " in said
    assert "it was mq-deadline" in said
