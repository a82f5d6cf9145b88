# SPDX-License-Identifier: GPL-2.0-only
"""Tests that each command of each recipe works, with systemd and the recipe's own programs."""

import os
import re
from pathlib import Path

import pytest
from triagelab.provision import packages

from tests.booted import Booted, booted, layer, loop_disk
from tests.packaging.system import make
from tests.product.product import ROOT, blocks

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces")

RECIPES = ROOT / "docs/recipes"
PAGES = sorted(path.stem for path in RECIPES.glob("*.md") if path.stem != "README")
#: The same list as in applications/, so that the cache has one folder for both.
POSTGRES = ("postgresql-15", "postgresql-client-15")
OTHERS = (
    *("mariadb-server-core", "mariadb-client-core", "mariadb-client", "mariadb-backup"),
    *("etcd-server", "etcd-client", "skopeo", "umoci", "restic"),
)
#: Part of a recipe's command -> the part by which the test replaces it. The computer that runs the
#: tests has no triage, and 2 min are too long.
INSTEAD = {
    "triage >": "mq-deadline >",
    "--scheduler triage": "--scheduler none",
    "--for 2m": "--for 48s",
    # The test's system has a PID namespace of its own, so the id from pidof is not etcd's id in the
    # kernel's events.
    "--count 2 --pid $(pidof etcd)": "--count 99999",
}
PATH = {"PATH": "/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

#: Reads that keep the disk busy: on an idle disk triagectl has nothing to show or to try.
LOAD = """
(
	while sleep 0.01; do
		dd if=/dev/sdX of=/dev/null bs=64k count=8 iflag=direct 2> /dev/null
	done
) &
trap "kill $!" EXIT
"""
USERS = """
id=7000
for name in postgres mysql etcd; do
	id=$((id + 1))
	grep -q "^$name:" /etc/passwd || echo "$name:x:$id:$id::/srv:/bin/sh" >> /etc/passwd
	install -d -o $name /srv/$name
done
unit() {
	printf '[Service]\\nType=notify\\n%s\\n' "$2" > /etc/systemd/system/$1.service
}
"""
#: Page -> commands that set up the system which the page expects. The disk is already mounted on
#: /srv.
BEFORE = {
    "postgresql": """
        mv /srv/postgres /srv/postgresql
        runuser -u postgres -- initdb -A trust -N -D /srv/postgresql > /dev/null
        install -d -o postgres /srv/backup
        unit postgresql@15-main 'User=postgres
        RuntimeDirectory=postgresql
        ExecStart=/usr/lib/postgresql/15/bin/postgres -D /srv/postgresql'
        systemctl start postgresql@15-main
        runuser -u postgres -- psql -qc "create table filled as
            select repeat('x', 8000) from generate_series(1, 9000)" -c \
            'alter table filled alter column repeat set storage external' -c \
            "insert into filled select repeat('y', 8000) from generate_series(1, 9000)"
        echo secret > /etc/restic.password
        restic -q -r /srv/restic --password-file /etc/restic.password init
        """,
    "mysql": """
        mariadb-install-db --user=mysql --datadir=/srv/mysql --skip-test-db > /dev/null 2>&1
        install -d -o mysql /run/mysqld
        unit mariadb 'ExecStart=/usr/sbin/mariadbd --user=mysql --datadir=/srv/mysql \
            --skip-networking --socket=/run/mysqld/mysqld.sock'
        systemctl start mariadb
        """,
    "etcd": """
        unit etcd 'User=etcd
        Environment=ETCD_DATA_DIR=/srv/etcd
        ExecStart=/usr/bin/etcd'
        systemctl start etcd
        # An image with a layer of 200 MB in a registry that needs no network: a folder.
        mkdir /srv/layer /etc/containers
        for n in $(seq 50); do head -c 4M /dev/urandom > /srv/layer/$n; done
        umoci init --layout /srv/registry
        umoci new --image /srv/registry:big
        umoci insert --image /srv/registry:big /srv/layer /layer
        rm -r /srv/layer
        sync -f /srv
        # The same policy as in Debian's package of settings for skopeo.
        echo '{"default": [{"type": "insecureAcceptAnything"}]}' > /etc/containers/policy.json
        """,
    "slices": "",
    "desktop": "tar -C /usr -cf /srv/tree.tar include",
    "virtual-machines": """
        truncate -s 64M /srv/disk.img
        # With forking, systemd-run returns once QEMU has all the threads that it begins with.
        systemd-run -q --service-type=forking qemu-system-x86_64 -daemonize -name guest=batch \
            -S -display none -accel tcg \
            -drive file=/srv/disk.img,format=raw,cache=none,aio=native
        """,
    "sd-card": "",
}
#: Page -> patterns that must be in the output of its commands, in this order.
SAID = {
    "postgresql": [
        r"\d+ postgres  I/O priority be/1",
        r"\d+ postgres  I/O priority be/7",
        r"snapshot \w+ saved",
        r"Running as unit: check",
        r"IOPS",
    ],
    "mysql": [r"\d+ mariadbd  I/O priority be/1", r"completed OK!", r"IOPS"],
    "etcd": [
        r"\d+ etcd  I/O priority be/1",
        r"\d+ etcd  I/O priority be/1",
        r"\w+ \[mq-deadline\]: [1-9]\d* requests seen",
        r"^\d+\. .* write of \d+ KiB by etcd \(\d+\)",
        r"^pulled: 50 files$",
    ],
    "slices": [
        r"sh  I/O priority be/7",
        r"sh  I/O priority be/7",
        r"IOPS",
    ],
    "desktop": [r"\[mq-deadline\]", r"IOPS"],
    "virtual-machines": [r"qemu-system-x86  I/O priority be/7", r"IOPS"],
    "sd-card": [r"^[01]$", r"has mq-deadline again", r"requests seen"],
}


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return two layers for the booted system: triage after `make install`, and the programs."""
    folder = tmp_path_factory.mktemp("installed")
    make("install", folder, f"DESTDIR={folder}/root")
    fetched = (packages.fetched("postgres", POSTGRES), packages.fetched("recipes", OTHERS))
    return [folder / "root", layer(tmp_path_factory.mktemp("programs"), *fetched)]


def test_every_page_is_in_the_list_and_has_a_test() -> None:
    assert re.findall(r"\]\(([\w-]+)\.md\)", (RECIPES / "README.md").read_text()) != []
    listed = re.findall(
        r"\| \[[\w-]+\.md\]\(([\w-]+)\.md\) \|", (RECIPES / "README.md").read_text()
    )
    assert sorted(listed) == PAGES == sorted(BEFORE) == sorted(SAID)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_block_that_is_not_run(page: str) -> None:
    text = (RECIPES / f"{page}.md").read_text()
    for part in ("**Symptom.**", "**Commands.**", "**What to see.**", "**Figures.**"):
        assert part in text
    assert text.count("```") == 2 * len(blocks("sh recipe", text)) > 0
    assert not re.search(r"^(    |\t)\S", text, re.M)


def run(page: str, system: Booted, name: str) -> str:
    """Set up a page's system and run its code blocks, each in a new shell; return their output."""
    system.give(f"mount /dev/{name} /srv\n{USERS}{BEFORE[page]}", PATH)
    said = ""
    for block in blocks("sh recipe", (RECIPES / f"{page}.md").read_text()):
        for words, instead in INSTEAD.items():
            block = block.replace(words, instead)
        load = LOAD if re.search("triagectl (top|explain|try)", block) else ""
        said += system.give((load + block).replace("sdX", name), PATH)
    return said


@pytest.mark.parametrize("page", PAGES)
def test_every_command(page: str, layers: list[Path], tmp_path: Path) -> None:
    with loop_disk(tmp_path) as name, booted(tmp_path / "system", layers) as system:
        said = run(page, system, name)
    print(said)
    rest = said
    for wanted in SAID[page]:
        found = re.search(wanted, rest, re.M)
        assert found is not None, f"{wanted} is not in:\n{rest}"
        rest = rest[found.end() :]
