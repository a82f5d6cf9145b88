# SPDX-License-Identifier: GPL-2.0-only
"""Make a copy of a kernel's headers that is configured for clang.

The configuration in the headers describes the compiler that built the kernel. For all of Debian's
kernels that is gcc. The lab compiles and links modules with clang only to see clang's warnings, and
never loads the result.
"""

import re
import shutil
from pathlib import Path

#: Option of the kernel's configuration -> its value for clang; empty: the option is not set.
CONFIG = {
    "CC_IS_GCC": "",
    "GCC_VERSION": "0",
    "CC_IS_CLANG": "y",
    "CLANG_VERSION": "190000",
    "CC_HAS_MIN_FUNCTION_ALIGNMENT": "",
    "CC_HAS_NAMED_AS": "",
    "CC_IMPLICIT_FALLTHROUGH": "-Wimplicit-fallthrough",
    "FTRACE_MCOUNT_USE_CC": "",
    "FTRACE_MCOUNT_USE_OBJTOOL": "y",
    "UBSAN_BOUNDS_STRICT": "",
    "USE_X86_SEG_SUPPORT": "",
}
#: The two files with the configuration: for make, and for the compiler.
_FOR_MAKE = "include/config/auto.conf"
_FOR_C = "include/generated/autoconf.h"


def configured(headers: Path, folder: Path) -> Path:
    """Make a copy of `headers` in `folder`, configured for clang; return the copy's folder.

    Earlier content of `folder` is deleted. The copy consists of links to the original headers, and
    of two files with the configuration.
    """
    shutil.rmtree(folder, ignore_errors=True)
    # Link the folders of all header packages: their files name each other by relative paths.
    for package in headers.parent.iterdir():
        _link(package, folder / package.name)
    made = folder / headers.name
    for name, form in ((_FOR_MAKE, for_make), (_FOR_C, for_c)):
        text = form((headers / name).read_text())
        _unlink(folder, f"{headers.name}/{name}")
        (made / name).write_text(text)
    return made


def for_make(text: str) -> str:
    """Return the text of auto.conf with clang's values from CONFIG in place of gcc's."""
    lines = [f"CONFIG_{name}={value}" for name, value in CONFIG.items() if value]
    return "\n".join([_without(r"CONFIG_(\w+)=.*\n", text), *lines, ""])


def for_c(text: str) -> str:
    """Return the text of autoconf.h with clang's values from CONFIG in place of gcc's."""
    values = {name: "1" if value == "y" else value for name, value in CONFIG.items() if value}
    lines = [f"#define CONFIG_{name} {value}" for name, value in values.items()]
    return "\n".join([_without(r"#define CONFIG_(\w+) .*\n", text), *lines, ""])


def _without(line: str, text: str) -> str:
    """Return `text` without the lines that match the regex `line` and set an option in CONFIG."""
    return re.sub(
        rf"^{line}", lambda found: "" if found[1] in CONFIG else found[0], text, flags=re.M
    )


def _link(target: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target.resolve())


def _unlink(folder: Path, name: str) -> None:
    """Remove the link at the path `name` in `folder`, so that a file can take its place.

    If a parent folder of `name` is a link, replace it by a folder with a link to each entry.
    """
    first, _, rest = name.partition("/")
    path = folder / first
    if path.is_symlink():
        target = path.resolve()
        path.unlink()
        if rest:
            for entry in target.iterdir():
                _link(entry, path / entry.name)
    if rest:
        _unlink(path, rest)
