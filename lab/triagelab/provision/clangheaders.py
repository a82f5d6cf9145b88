# SPDX-License-Identifier: GPL-2.0-only
"""A kernel's headers as they would be if it had been configured for clang.

A kernel that gcc has built says so in its configuration, and with it which options its compiler
has. Debian has no kernel built by clang. So the lab only compiles and links modules that clang
builds here; it does not load them.
"""

import re
import shutil
from pathlib import Path

#: clang's values in place of gcc's in the kernel's configuration; empty: unset.
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
#: The configuration's two forms, for make and for the compiler.
_FOR_MAKE = "include/config/auto.conf"
_FOR_C = "include/generated/autoconf.h"


def configured(headers: Path, folder: Path) -> Path:
    """The headers with that configuration, made anew in `folder`; the rest of them is linked."""
    shutil.rmtree(folder, ignore_errors=True)
    # Headers packages name each other by their place.
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
    """The text without the lines that set one of the configuration's options."""
    return re.sub(
        rf"^{line}", lambda found: "" if found[1] in CONFIG else found[0], text, flags=re.M
    )


def _link(target: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target.resolve())


def _unlink(folder: Path, name: str) -> None:
    """Make room for a file of our own: a linked folder on its way becomes one of links."""
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
