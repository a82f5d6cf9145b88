# SPDX-License-Identifier: GPL-2.0-only
"""A copy of a kernel's headers that is configured for clang.

The configuration in the headers names the compiler that built the kernel, and the options that
this compiler has. All of Debian's kernels are built by gcc. So the lab compiles and links modules
with clang only to see the warnings; it does not load them.
"""

import re
import shutil
from pathlib import Path

#: Options of the kernel's configuration, with their values for clang; empty: not set.
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
    """Return the headers configured for clang, made anew in `folder`.

    Their other files are links to the files in `headers`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    # Link all headers packages, because they name each other by relative paths.
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
    """Return the text without the lines that set an option in CONFIG."""
    return re.sub(
        rf"^{line}", lambda found: "" if found[1] in CONFIG else found[0], text, flags=re.M
    )


def _link(target: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target.resolve())


def _unlink(folder: Path, name: str) -> None:
    """Remove the link `name` in `folder`, so that a file can take its place.

    A linked folder on the way becomes a folder of links.
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
