#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Write the C headers a scheduler needs and a kernel's headers package lacks.

The block layer keeps the types of its schedulers ("elevators") in private
headers, which no headers package has. The kernel itself describes them, exactly
as it was compiled, in its type information (BTF). From there come:

private.h   the private types, and prototypes of the functions exported to modules
features.h  macros saying which of several shapes an interface has in this kernel

Features are probed, versions are never compared: some of these changed inside a
stable series. What each means for a scheduler is in iosched.h.

Exit status 2, and a message that says what to install, where something is missing.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import vmlinux as boot

#: Private types in the order in which C needs them; without these there is no scheduler.
REQUIRED = ("elv_merge", "elevator_mq_ops", "elv_fs_entry", "elevator_type", "elevator_queue")
#: Types that a kernel may lack, by its configuration or its age.
OPTIONAL = ("blk_mq_debugfs_attr", "blk_mq_alloc_data", "blk_mq_ctx")
#: Public types whose size tells whether the headers and the BTF are of one kernel.
PUBLIC = ("request", "request_queue", "blk_mq_hw_ctx", "bio")

#: Functions declared in private headers only. Those this kernel exports get a prototype.
FUNCTIONS = (
    "blk_bio_list_merge",
    "blk_mq_sched_mark_restart_hctx",
    "blk_mq_sched_try_insert_merge",
    "blk_mq_sched_try_merge",
    "elevator_alloc",
    "elv_bio_merge_ok",
    "elv_rb_add",
    "elv_rb_del",
    "elv_rb_find",
    "elv_rb_former_request",
    "elv_rb_latter_request",
    "elv_register",
    "elv_rqhash_add",
    "elv_rqhash_del",
    "elv_unregister",
)

#: Feature macro, and what the definition of elevator_mq_ops must match for it to be defined.
FEATURES = {
    "IOSCHED_MUST_ALLOC": r"\(\*init_sched\)\([^)]*struct elevator_type \*",
    "IOSCHED_DEPTH_TAKES_HCTX": r"\(\*depth_updated\)\(struct blk_mq_hw_ctx \*",
    "IOSCHED_INSERT_TAKES_FLAGS": r"\(\*insert_requests\)\([^)]*blk_insert_t",
}

#: Feature macro, and the function that a kernel must export for it to be defined.
EXPORTED_FEATURES = {"IOSCHED_HAS_HRTIMER_SETUP": "hrtimer_setup"}

#: What VMLINUX is to be, for who has given something else.
NEEDED = (
    "for block-layer schedulers. Needed is a file of a kernel built with "
    "CONFIG_DEBUG_INFO_BTF=y, as all of Debian's are: vmlinux in its headers package "
    "(6.12 and later), its boot image /boot/vmlinuz-RELEASE, or "
    "/sys/kernel/btf/vmlinux for the running kernel"
)

#: One type in pahole's output.
DEFINITION = re.compile(r"^(?:struct|enum) (\w+) \{$.*?^\}[^;\n]*", re.MULTILINE | re.DOTALL)


class MissingError(Exception):
    """Something the generator needs is not there; the message says what to do."""


def types(vmlinux: str, names: Iterable[str]) -> dict[str, str]:
    """The C definition of each type in `names` that the BTF of `vmlinux` has."""
    output = _run("pahole", "-C", ",".join(names), vmlinux)
    return {match[1]: match[0] + ";" for match in DEFINITION.finditer(output)}


def prototype(vmlinux: str, function: str) -> str | None:
    """The C declaration of `function`, None if the BTF of `vmlinux` has none."""
    return _run("pfunct", "--prototypes", "-f", function, vmlinux).strip() or None


def _run(program: str, *arguments: str) -> str:
    # An ELF file with debug information too has every type twice: -F btf takes one.
    command = [program, "-F", "btf", *arguments]
    try:
        # Its exit status says little: it is 0 without an answer. The answer is judged.
        return subprocess.run(command, capture_output=True, text=True).stdout
    except FileNotFoundError as error:
        raise MissingError(
            f"no {program} on this computer. On Debian: sudo apt-get install pahole"
        ) from error


def exported(headers: Path) -> set[str]:
    """The names of the functions that the kernel with these headers exports to modules."""
    try:
        lines = (headers / "Module.symvers").read_text().splitlines()
    except OSError as error:
        raise MissingError(
            f"no kernel headers in {headers} ({error.filename}: {error.strerror}). "
            "On Debian: sudo apt-get install linux-headers-RELEASE, "
            "RELEASE as `uname -r` says it, or linux-headers-amd64 for the newest"
        ) from error
    return {line.split("\t")[1] for line in lines}


def private_header(found: dict[str, str], prototypes: Iterable[str]) -> str:
    """The text of private.h."""
    definitions = [_uncommented(found[name]) for name in (*REQUIRED, *OPTIONAL) if name in found]
    body = "\n".join([*definitions, *prototypes])
    # A struct first named inside a prototype would be another one than elsewhere.
    structs = sorted(set(re.findall(r"\bstruct (\w+)", body)))
    return "\n".join(
        [
            *(f"struct {name};" for name in structs),
            body,
            "#ifndef __CHECKER__ /* sparse lays some structs out in its own way */",
            *(_same_size(name, text) for name, text in found.items() if text.startswith("struct")),
            "#endif",
        ]
    )


def _uncommented(definition: str) -> str:
    """A definition without the offsets and holes that pahole notes in it."""
    lines = re.sub(r"\s*/\*.*?\*/", "", definition).split("\n")
    return "\n".join(line for line in lines if line.strip())


def _same_size(name: str, definition: str) -> str:
    """A check at compile time that the compiler and the BTF agree on the size of a struct."""
    size = re.findall(r"^\t/\* size: (\d+)", definition, re.MULTILINE)[-1]
    return (
        f"static_assert(sizeof(struct {name}) == {size},\n"
        '\t"the kernel headers and VMLINUX are not of the same kernel");'
    )


def features_header(found: dict[str, str], symbols: set[str]) -> str:
    """The text of features.h."""
    operations = found["elevator_mq_ops"]
    macros = [macro for macro, shape in FEATURES.items() if re.search(shape, operations)]
    macros += [macro for macro, name in EXPORTED_FEATURES.items() if name in symbols]
    return "\n".join(f"#define {macro} 1" for macro in macros)


def write_if_changed(path: Path, text: str) -> None:
    """Write a generated header, unless it is there already: its time tells make what to rebuild."""
    guard = f"GENERATED_{path.stem.upper()}_H"
    text = (
        "/* SPDX-License-Identifier: GPL-2.0-only */\n"
        "/* Made by compat/generate.py from a kernel's BTF. */\n"
        f"#ifndef {guard}\n#define {guard}\n\n{text}\n\n#endif\n"
    )
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def with_btf(vmlinux: Path, folder: Path) -> Path:
    """The file to read: `vmlinux`, or if it is a boot image what that holds, put into `folder`."""
    try:
        with vmlinux.open("rb") as file:
            if not boot.is_image(file.read(boot.HEADER_END)):
                return vmlinux
        elf = folder / "vmlinux"
        elf.write_bytes(boot.uncompressed(vmlinux.read_bytes()))
    except (boot.ImageError, OSError) as error:
        raise MissingError(f"VMLINUX={vmlinux} cannot be read: {error}") from error
    return elf


def described(vmlinux: Path, symbols: set[str]) -> tuple[dict[str, str], list[str]]:
    """From a kernel's BTF: the types there are, by name, and prototypes of FUNCTIONS exported."""
    found = types(str(vmlinux), (*REQUIRED, *OPTIONAL, *PUBLIC))
    if not all(name in found for name in REQUIRED):
        raise MissingError(f"VMLINUX={vmlinux} has no type information (BTF) {NEEDED}")
    declared = (prototype(str(vmlinux), name) for name in FUNCTIONS if name in symbols)
    return found, [text for text in declared if text is not None]


def generate(headers: Path, vmlinux: str, output: Path) -> None:
    """Write features.h and private.h for one kernel into the folder `output`."""
    symbols = exported(headers)
    if not vmlinux:
        raise MissingError(f"no VMLINUX given, and none found, that has type information {NEEDED}")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as folder:
        found, prototypes = described(with_btf(Path(vmlinux), Path(folder)), symbols)
    write_if_changed(output / "private.h", private_header(found, prototypes))
    write_if_changed(output / "features.h", features_header(found, symbols))


def main() -> int:
    """The program; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    add = parser.add_argument
    add("--headers", type=Path, required=True, help="the kernel's build folder (KDIR)")
    add("--vmlinux", required=True, help="that kernel, with BTF: ELF or vmlinuz")
    add("--output", type=Path, required=True, help="where private.h and features.h go")
    arguments = parser.parse_args()
    try:
        generate(arguments.headers, arguments.vmlinux, arguments.output)
    except MissingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
