#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Print a patch that adds triage to a kernel's source tree.

    kernelpatch.py TREE MAINTAINER

TREE is unpacked kernel source; it is not changed. The module's source supports many kernels,
but the patch has only the code for this tree. Apply the patch with `git am` or `patch -p1`. The
environment variable SOURCE_DATE_EPOCH must have the patch's date, in seconds since 1970.
Exit status 2, with a message, if no patch can be made, for example because the tree is unsuitable.
"""

import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = Path(__file__).resolve().parent / "kernel"
KERNEL = ROOT / "kernel"

#: For each macro that the module's source tests with #if: a file of the kernel's tree, and a
#: pattern. The macro is defined if the pattern is in the file.
FEATURES = {
    "IOSCHED_MUST_ALLOC": (
        "block/elevator.h",
        r"\(\*init_sched\)\(struct request_queue \*\w*, struct elevator_type",
    ),
    "IOSCHED_DEPTH_TAKES_HCTX": ("block/elevator.h", r"\(\*depth_updated\)\(struct blk_mq_hw_ctx"),
    "IOSCHED_INSERT_TAKES_FLAGS": ("block/elevator.h", r"\bblk_insert_t\b"),
    "IOSCHED_HAS_HRTIMER_SETUP": ("include/linux/hrtimer.h", r"\bhrtimer_setup\("),
    "IOSCHED_POLICY_TAKES_QUEUE": (
        "block/blk-cgroup.h",
        r"\bblkcg_activate_policy\(struct request_queue \*",
    ),
    "IOSCHED_ALLOC_PD_TAKES_QUEUE": (
        "block/blk-cgroup.h",
        r"\(blkcg_pol_alloc_pd_fn\)\(gfp_t \w+,\s*struct request_queue \*",
    ),
    "IOSCHED_CONF_HAS_INIT": ("block/blk-cgroup.h", r"\bblkg_conf_init\("),
    "IOSCHED_CONF_HAS_UNPREP": ("block/blk-cgroup.h", r"\bblkg_conf_unprep\("),
    "RQF_ELVPRIV": ("include/linux/blk-mq.h", r"\bRQF_ELVPRIV\b"),
    "blk_queue_rot": ("include/linux/blkdev.h", r"\bblk_queue_rot\("),
}
#: unifdef's options for macros that are defined in every tree, or in none.
FIXED = ("-D__KERNEL__", "-USTORM")

#: Macros of iosched.h that expand to a function. The patch has the function itself.
WRAPPERS = ("IOSCHED_INIT_SCHED", "IOSCHED_DEPTH_UPDATED", "IOSCHED_ALLOC_PD")

MESSAGE = """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: {maintainer}
Date: {date}
Subject: [PATCH] block: add the triage I/O scheduler

Triage {version}. On a disk that several processes share, a request that
a process waits for is served almost as on an idle device, no request
starves, and the device stays busy. It knows all levels of I/O priority,
and protects processes that ask for little without any. It works on flash
and on hard disks.

No disk has it by default.
---
{stat}
"""


class TreeError(Exception):
    """Raised if the patch does not fit the tree; the message says what to do."""


def read(path: Path) -> str:
    """Return a file's text. If it cannot be read, raise an error that names the right folder."""
    try:
        return path.read_text()
    except OSError as error:
        raise TreeError(
            f"{path}: {error.strerror}; give the folder of a kernel's full source, not of its "
            "headers (Debian: linux-source-…, unpacked)"
        ) from error


def definitions(tree: Path) -> list[str]:
    """Return unifdef's options for a tree."""
    found = [
        f"-{'D' if re.search(pattern, read(tree / name)) else 'U'}{macro}"
        for macro, (name, pattern) in FEATURES.items()
    ]
    return [*found, *FIXED]


def resolved(text: str, options: list[str]) -> str:
    """Return a source file without the #if branches that do not apply."""
    done = subprocess.run(["unifdef", *options], input=text, capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: changed
        raise TreeError(f"unifdef failed: {done.stderr.strip()}")
    return done.stdout


def replaced(pattern: str, by: str, text: str) -> str:
    """Replace the only match of a pattern; raise an error if there is none, or several."""
    found, count = re.subn(pattern, lambda _: by, text, flags=re.MULTILINE | re.DOTALL)
    if count != 1:
        raise TreeError(
            f"packaging/kernelpatch.py looks for one {pattern!r} and finds {count}: adapt it"
        )
    return found


def in_tree_header(text: str, options: list[str]) -> str:
    """Return iosched.h for the tree, with the tree's headers in place of those made from BTF."""
    if "-DIOSCHED_INSERT_TAKES_FLAGS" in options:  # block/blk-mq.h has blk_insert_t
        text = replaced(r"^/\*\n \* insert_requests\(\).*?^#endif\n\n", "", text)
    text = resolved(text, options)
    text = replaced(
        r"^/\*\n \* The header that a scheduler includes.*?\*/\n",
        "/* What the scheduler's parts take from the block layer */\n",
        text,
    )
    text = replaced(r'^#include "features\.h"\n', "", text)
    text = replaced(
        r'^#include "private\.h"\n',
        '#include "../elevator.h"\n#include "../blk-mq.h"\n'
        '#include "../blk-cgroup.h"\n#include "../blk-mq-debugfs.h"\n'
        '#include "../blk-mq-sched.h"\n#include "../blk.h"\n',
        text,
    )
    for name in WRAPPERS:
        text = replaced(rf"^/\*\n \* {name}\(op,.*?\*/\n", "", text)
        text = replaced(rf"^#define {name}\(.*?[^\\]\n", "", text)
    return re.sub(r"\n{3,}", "\n\n", text)


def wrapper(header: str, name: str) -> tuple[list[str], str]:
    """Return the parameters and the body of a macro that expands to a function."""
    found = re.search(rf"^#define {name}\(([^)]*)\)\s*\\\n(.*?[^\\])\n", header, re.M | re.S)
    if found is None:
        raise TreeError(f"compat/iosched.h has no macro {name} any more: adapt kernelpatch.py")
    body = re.sub(r"[ \t]*\\$", "", found[2], flags=re.MULTILINE)
    return [word.strip() for word in found[1].split(",")], body


def expanded(text: str, header: str) -> str:
    """Return a source file with functions in place of the macros that expand to them."""
    for name in WRAPPERS:
        parameters, body = wrapper(header, name)

        def function(
            match: re.Match[str], parameters: list[str] = parameters, body: str = body
        ) -> str:
            for parameter, word in zip(parameters, match[1].split(","), strict=True):
                body = re.sub(rf"\b{parameter}\b", word.strip(), body)
            return body

        text = re.sub(rf"^{name}\(([^)]*)\);$", function, text, flags=re.MULTILINE)
    return text


def in_tree(text: str, options: list[str], header: str) -> str:
    """Return a file of the module as the patch adds it to the kernel's tree."""
    text = expanded(resolved(text, options), header)
    text = re.sub(r'^(#include "yield\.h"|\t+yield_point\(\);)\n', "", text, flags=re.MULTILINE)
    text = re.sub(r'^#include "features\.h"\n\n?', "", text, flags=re.MULTILINE)
    text = text.replace("docs/triage.md", "triage-iosched.rst")
    # The patch does not have tests/proof, so leave out the comment that refers to it.
    return re.sub(r"\n \*\n \* tests/proof/core\.pml.*?(?=\n \*/)", "", text, flags=re.DOTALL)


def table(markdown: str) -> str:
    """Return the table of tunables in docs/triage.md as reStructuredText."""
    part = re.search(r"^## Tunables$(.*?)^## ", markdown, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (.*?) \|$", part[1] if part else "", re.MULTILINE)
    if len(rows) < 2:
        raise TreeError("docs/triage.md has no table of tunables any more: adapt kernelpatch.py")
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in ["name" + rows[0].removeprefix("|"), *rows[1:]]:
        row = re.sub(r" \(\[[^]]*\]\([^)]*\)\)|\[([^]]*)\]\([^)]*\)", r"\1", row)
        cells = [cell.strip() for cell in row.replace("`", "``").split(" | ")]
        lines += [f"   {'*' if not index else ' '} - {cell}" for index, cell in enumerate(cells)]
    return "\n".join(lines)


def write(path: Path, text: str) -> None:
    """Write a file of the new tree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def add_files(tree: Path, new: Path) -> None:
    """Write the module's sources, Makefile, Kconfig and document into the folder `new`."""
    options = definitions(tree)
    full = resolved((KERNEL / "compat/iosched.h").read_text(), options)
    folder = new / "block/triage"
    write(folder / "iosched.h", in_tree_header((KERNEL / "compat/iosched.h").read_text(), options))
    copied = [KERNEL / "compat/timers.h", KERNEL / "include/prio-class.h"]
    for path in [*copied, *sorted((KERNEL / "triage").glob("*.[ch]"))]:
        write(folder / path.name, in_tree(path.read_text(), options, full))
    objects = re.findall(
        r"^triage-iosched-y \+?:?= (.*)$", (KERNEL / "triage/Kbuild").read_text(), re.M
    )
    makefile = (PARTS / "Makefile").read_text()
    write(
        folder / "Makefile",
        makefile.replace("@OBJECTS@", "\ntriage-iosched-y += ".join(objects)),
    )
    write(folder / "Kconfig", (PARTS / "Kconfig").read_text())
    tunables = table((ROOT / "docs/triage.md").read_text())
    document = (PARTS / "triage-iosched.rst").read_text().replace("@TUNABLES@", tunables)
    write(new / "Documentation/block/triage-iosched.rst", document)


def change_files(tree: Path, old: Path, new: Path) -> None:
    """Write each file that the patch changes: the original to `old`, the changed one to `new`."""
    changes = {
        "block/Kconfig.iosched": (r"^endmenu$", 'source "block/triage/Kconfig"\n\nendmenu'),
        "block/Makefile": (
            r"^obj-\$\(CONFIG_MQ_IOSCHED_KYBER\).*?$",
            "obj-$(CONFIG_MQ_IOSCHED_KYBER)\t+= kyber-iosched.o\n"
            "obj-$(CONFIG_MQ_IOSCHED_TRIAGE)\t+= triage/",
        ),
        "Documentation/block/index.rst": (
            r"^   switching-sched$",
            "   switching-sched\n   triage-iosched",
        ),
    }
    for name, (pattern, by) in changes.items():
        text = read(tree / name)
        write(old / name, text)
        write(new / name, replaced(pattern, by, text))


def git(folder: Path, *arguments: str, given: str = "") -> str:
    """Run git without the user's settings; return its output."""
    environment = os.environ | {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode not in (0, 1):  # 1: there is a difference
        raise TreeError(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


def patch(tree: Path, maintainer: str, seconds: int) -> str:
    """Return the whole patch."""
    header = (KERNEL / "triage/version.h").read_text()
    (version,) = re.findall(r'^#define TRIAGE_VERSION "(.+)"$', header, re.MULTILINE)
    day = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        add_files(tree, folder / "b")
        change_files(tree, folder / "a", folder / "b")
        changes = git(folder, "diff", "--no-index", "--no-prefix", "--full-index", "a", "b")
        stat = git(folder, "apply", "--stat", "-", given=changes).rstrip()
        message = MESSAGE.format(
            maintainer=maintainer,
            date=day.strftime("%a, %d %b %Y %H:%M:%S %z"),
            version=version,
            stat=stat,
        )
        return message + "\n" + changes


def main(arguments: list[str]) -> int:
    """Run the program; return its exit status."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    for program, package in {"unifdef": "unifdef", "git": "git"}.items():
        if not shutil.which(program):
            print(f"error: no {program}. On Debian: apt-get install {package}", file=sys.stderr)
            return 2
    date = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not date.isdecimal():
        print(
            f"error: SOURCE_DATE_EPOCH is '{date}': set it to the patch's date, "
            "in seconds since 1970",
            file=sys.stderr,
        )
        return 2
    try:
        tree, maintainer = Path(arguments[0]), arguments[1]
        print(patch(tree, maintainer, int(date)), end="")
    except (TreeError, OverflowError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
