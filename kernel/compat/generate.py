#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Write the C headers that a scheduler needs and that a kernel's headers package lacks.

The block layer keeps the types of its schedulers ("elevators") in private
headers, which no headers package has. But a kernel's type information (BTF)
describes these types exactly as they were compiled. From it this program makes:

private.h   the private types, and prototypes of the functions exported to modules
features.h  macros that say which of several shapes an interface has in this kernel
made-from   the state of the input files. If none of them has changed since the last run, the
            program leaves both headers as they are

The program probes features and never compares versions, because some features
changed inside a stable series. iosched.h, blkdrv.h and timers.h explain each feature.

If something is missing, the program exits with status 2 and a message that says what to install.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import vmlinux as boot

#: Private types that every scheduler needs, in the order in which C needs them.
REQUIRED = (
    "elv_merge",
    "elevator_mq_ops",
    "elv_fs_entry",
    "elevator_type",
    "elevator_queue",
    "blk_flush_queue",
)
#: Private types that a kernel may lack, because of its configuration or its age.
OPTIONAL = (
    "blk_mq_debugfs_attr",
    "blk_mq_alloc_data",
    "blk_mq_ctx",
    "blkg_iostat",
    "blkg_iostat_set",
    "blkg_policy_data",
    "blkcg_policy_data",
    "blkcg_gq",
    "blkcg",
    "blkg_conf_ctx",
    "blkcg_policy",
)
#: The types of the functions in struct blkcg_policy; a kernel may lack some of them.
CALLBACKS = tuple(
    f"blkcg_pol_{name}_fn"
    for name in (
        "alloc_cpd",
        "init_cpd",
        "free_cpd",
        "bind_cpd",
        "alloc_pd",
        "init_pd",
        "online_pd",
        "offline_pd",
        "free_pd",
        "reset_pd_stats",
        "stat_pd",
    )
)
#: Public types. Their layouts show whether the headers and the BTF are of the same kernel.
PUBLIC = ("request", "request_queue", "blk_mq_hw_ctx", "blk_mq_ops", "bio")

#: Functions that only private headers declare. private.h declares those that the kernel exports.
FUNCTIONS = (
    "__blkg_prfill_u64",
    "blk_bio_list_merge",
    "blk_mq_sched_mark_restart_hctx",
    "blk_mq_sched_try_insert_merge",
    "blk_mq_sched_try_merge",
    "blkcg_activate_policy",
    "blkcg_deactivate_policy",
    "blkcg_policy_register",
    "blkcg_policy_unregister",
    "blkcg_print_blkgs",
    "blkg_conf_close_bdev",
    "blkg_conf_exit",
    "blkg_conf_finish",
    "blkg_conf_init",
    "blkg_conf_open_bdev",
    "blkg_conf_prep",
    "blkg_conf_unprep",
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

#: Operation of a scheduler -> its shapes (result and arguments) that iosched.h knows. A shape may
#: have a feature macro, which features.h defines if the kernel has that shape.
OPERATIONS: dict[str, dict[str, str | None]] = {
    "init_sched": {
        "int (struct request_queue *, struct elevator_queue *)": None,
        "int (struct request_queue *, struct elevator_type *)": "IOSCHED_MUST_ALLOC",
    },
    "exit_sched": {"void (struct elevator_queue *)": None},
    "init_hctx": {"int (struct blk_mq_hw_ctx *, unsigned int)": None},
    "exit_hctx": {"void (struct blk_mq_hw_ctx *, unsigned int)": None},
    "depth_updated": {
        "void (struct request_queue *)": None,
        "void (struct blk_mq_hw_ctx *)": "IOSCHED_DEPTH_TAKES_HCTX",
    },
    "allow_merge": {"bool (struct request_queue *, struct request *, struct bio *)": None},
    "bio_merge": {"bool (struct request_queue *, struct bio *, unsigned int)": None},
    "request_merge": {"int (struct request_queue *, struct request **, struct bio *)": None},
    "request_merged": {"void (struct request_queue *, struct request *, enum elv_merge)": None},
    "requests_merged": {
        "void (struct request_queue *, struct request *, struct request *)": None,
    },
    "limit_depth": {"void (blk_opf_t, struct blk_mq_alloc_data *)": None},
    "prepare_request": {"void (struct request *)": None},
    "finish_request": {"void (struct request *)": None},
    "insert_requests": {
        "void (struct blk_mq_hw_ctx *, struct list_head *, blk_insert_t)": (
            "IOSCHED_INSERT_TAKES_FLAGS"
        ),
        "void (struct blk_mq_hw_ctx *, struct list_head *, bool)": None,
    },
    "dispatch_request": {"struct request * (struct blk_mq_hw_ctx *)": None},
    "has_work": {"bool (struct blk_mq_hw_ctx *)": None},
    "completed_request": {"void (struct request *, u64)": None},
    "requeue_request": {"void (struct request *)": None},
    "former_request": {"struct request * (struct request_queue *, struct request *)": None},
    "next_request": {"struct request * (struct request_queue *, struct request *)": None},
    "init_icq": {"void (struct io_cq *)": None},
    "exit_icq": {"void (struct io_cq *)": None},
}

#: Feature macro -> an operation of drivers (blk_mq_ops), and the shape for which the macro stands.
DRIVER_FEATURES = {
    "IOSCHED_NODE_IS_UNSIGNED": (
        "init_request",
        "int (struct blk_mq_tag_set *, struct request *, unsigned int, unsigned int)",
    ),
}

#: Feature macro -> a function. features.h defines the macro if the kernel exports the function.
EXPORTED_FEATURES = {
    "IOSCHED_HAS_HRTIMER_SETUP": "hrtimer_setup",
    "IOSCHED_CONF_HAS_INIT": "blkg_conf_init",
    "IOSCHED_CONF_HAS_UNPREP": "blkg_conf_unprep",
}

#: Feature macro -> a function of block cgroups, and a pattern. features.h defines the macro if the
#: function's prototype or type matches the pattern.
GROUP_FEATURES = {
    "IOSCHED_POLICY_TAKES_QUEUE": ("blkcg_activate_policy", r"\(struct request_queue \*"),
    "IOSCHED_ALLOC_PD_TAKES_QUEUE": ("blkcg_pol_alloc_pd_fn", r"\(gfp_t, struct request_queue \*"),
}

#: The end of an error message: it says which file VMLINUX must name.
NEEDED = (
    "for block-layer schedulers. Needed is a file of a kernel built with "
    "CONFIG_DEBUG_INFO_BTF=y, as all of Debian's are: vmlinux in its headers package "
    "(6.12 and later), its boot image /boot/vmlinuz-RELEASE, or "
    "/sys/kernel/btf/vmlinux for the running kernel"
)

#: Matches one type in pahole's output.
DEFINITION = re.compile(r"^(?:struct|enum) (\w+) \{$.*?^\}[^;\n]*", re.MULTILINE | re.DOTALL)


class MissingError(Exception):
    """Raised if something that the generator needs is missing. The message says what to do."""


def types(vmlinux: str, names: Iterable[str]) -> dict[str, str]:
    """Return the C definition of each type in `names` that the BTF of `vmlinux` has."""
    output = _run("pahole", "-C", ",".join(names), vmlinux)
    return {match[1]: match[0] + ";" for match in DEFINITION.finditer(output)}


def prototype(vmlinux: str, function: str) -> str | None:
    """Return the C declaration of `function`, or None if the BTF of `vmlinux` has none."""
    return _run("pfunct", "--prototypes", "-f", function, vmlinux).strip() or None


def _run(program: str, *arguments: str) -> str:
    # An ELF file that also has debug information has every type twice: -F btf selects one.
    command = [program, "-F", "btf", *arguments]
    try:
        # pahole exits with 0 even if it found nothing, so the caller checks its output.
        return subprocess.run(command, capture_output=True, text=True).stdout
    except FileNotFoundError as error:
        raise MissingError(
            f"no {program} on this computer. On Debian: sudo apt-get install pahole"
        ) from error


def exported(headers: Path) -> set[str]:
    """Return the names of the functions that the kernel with these headers exports to modules.

    Raise MissingError if there are no kernel headers in the folder `headers`.
    """
    try:
        lines = (headers / "Module.symvers").read_text().splitlines()
    except OSError as error:
        raise MissingError(
            f"no kernel headers in {headers} ({error.filename}: {error.strerror}). "
            "On Debian: sudo apt-get install linux-headers-RELEASE, "
            "RELEASE as `uname -r` says it, or linux-headers-amd64 for the newest"
        ) from error
    return {line.split("\t")[1] for line in lines}


def callbacks(vmlinux: str) -> dict[str, str]:
    """Return the C declaration of each type in CALLBACKS that the BTF of `vmlinux` has."""
    # Asked for several typedefs at once, pahole prints only some of them.
    declared = {name: _run("pahole", "-C", name, vmlinux).strip() for name in CALLBACKS}
    return {name: text for name, text in declared.items() if text}


def private_header(found: dict[str, str], functions: dict[str, str]) -> str:
    """Return the text of private.h.

    `found` has the types (name -> definition), `functions` the declarations of CALLBACKS and of
    FUNCTIONS.
    """
    definitions = [_uncommented(found[name]) for name in (*REQUIRED, *OPTIONAL) if name in found]
    types_of_functions = [text for name, text in functions.items() if name in CALLBACKS]
    prototypes = [text for name, text in functions.items() if name not in CALLBACKS]
    body = "\n".join([*types_of_functions, *definitions, *prototypes])
    checks = [_same_layout(name, text) for name, text in found.items() if text.startswith("struct")]
    # In C, a struct that is first named inside a prototype is known only there. So declare each
    # struct before.
    structs = sorted(set(re.findall(r"\bstruct (\w+)", body)))
    return "\n".join(
        [
            *(f"struct {name};" for name in structs),
            body,
            "#ifndef __CHECKER__ /* sparse lays some structs out in its own way */",
            *checks,
            "#endif",
        ]
    )


def _uncommented(definition: str) -> str:
    """Return a definition without the comments, in which pahole notes offsets and holes."""
    lines = re.sub(r"\s*/\*.*?\*/", "", definition).split("\n")
    return "\n".join(line for line in lines if line.strip())


def _same_layout(name: str, definition: str) -> str:
    """Return static assertions that the compiler gives a struct the layout that the BTF has."""
    size = re.findall(r"^\t/\* size: (\d+)", definition, re.MULTILINE)[-1]
    checks = [f"sizeof(struct {name}) == {size}"]
    checks += [
        f"offsetof(struct {name}, {member}) == {at}" for member, at in offsets(definition).items()
    ]
    message = '"the kernel headers and VMLINUX are not of the same kernel"'
    return "\n".join(f"static_assert({check},\n\t{message});" for check in checks)


def offsets(definition: str) -> dict[str, int]:
    """Return the offset of each member that offsetof() accepts: name -> offset, as pahole notes it.

    A member of a named inner struct has the name outer.inner.
    """
    blocks: list[dict[str, int]] = [{}]
    for line in definition.splitlines()[1:]:
        text, _, note = line.strip().partition("/*")
        text = re.sub(r"__attribute__\(\(.*\)\)", "", text).strip()
        # Skip bit fields: offsetof() takes none, and pahole notes them in another form.
        at = re.match(r"\s*(\d+)\s+\d+ ", note)
        if text.endswith("{"):
            blocks.append({})
        elif text.startswith("}") and len(blocks) > 1:
            inner = blocks.pop()
            outer = text.strip("};\t ")
            if outer and at:
                blocks[-1][outer.partition("[")[0]] = int(at[1])
            if "[" not in outer:
                lead = f"{outer}." if outer else ""
                blocks[-1] |= {lead + member: offset for member, offset in inner.items()}
        elif at and (member := re.search(r"\(\*\s*(\w+)[^)]*\)\(|(\w+)(?:\[\d*\])*;$", text)):
            blocks[-1][member[1] or member[2]] = int(at[1])
    return blocks[0]


def shapes(operations: str) -> dict[str, str]:
    """Return the function pointers in a struct's definition: name -> shape (result, arguments)."""
    found = re.findall(r"^\t(.*?)\(\*(\w+)\)(\(.*?\));", operations, re.MULTILINE)
    return {
        name: re.sub(r"\s+", " ", f"{result.strip()} {arguments}").replace("* *", "**")
        for result, name, arguments in found
    }


def features_header(found: dict[str, str], functions: dict[str, str], symbols: set[str]) -> str:
    """Return the text of features.h.

    Raise MissingError if the kernel lacks one of OPERATIONS, or has it in an unknown shape.
    """
    here = shapes(found["elevator_mq_ops"])
    for name, known in OPERATIONS.items():
        if here.get(name) not in known:
            raise MissingError(
                f"this kernel's elevator_mq_ops has {name} as "
                f"{here.get(name, 'no function at all')}, which compat/iosched.h does not know"
            )
    macros = [known[here[name]] for name, known in OPERATIONS.items()]
    driver = shapes(found.get("blk_mq_ops", ""))
    macros += [
        macro for macro, (name, shape) in DRIVER_FEATURES.items() if driver.get(name) == shape
    ]
    macros += [macro for macro, name in EXPORTED_FEATURES.items() if name in symbols]
    macros += [
        macro
        for macro, (name, pattern) in GROUP_FEATURES.items()
        if re.search(pattern, functions.get(name, ""))
    ]
    return "\n".join(f"#define {macro} 1" for macro in macros if macro)


def write_if_changed(path: Path, text: str) -> None:
    """Write a generated header, with a guard added, if its text differs.

    make rebuilds all that uses a changed header.
    """
    guard = f"GENERATED_{path.stem.upper()}_H"
    text = (
        "/* SPDX-License-Identifier: GPL-2.0-only */\n"
        "/* Made by compat/generate.py from a kernel's BTF. */\n"
        f"#ifndef {guard}\n#define {guard}\n\n{text}\n\n#endif\n"
    )
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def with_btf(vmlinux: Path, folder: Path) -> Path:
    """Return a file with BTF: `vmlinux` itself or, if that is a boot image, its unpacked kernel.

    The unpacked kernel is a file in `folder`. Raise MissingError if `vmlinux` cannot be read.
    """
    try:
        with vmlinux.open("rb") as file:
            if not boot.is_image(file.read(boot.HEADER_END)):
                return vmlinux
        unpacked = folder / "vmlinux"
        unpacked.write_bytes(boot.uncompressed(vmlinux.read_bytes()))
    except (boot.ImageError, OSError) as error:
        raise MissingError(f"VMLINUX={vmlinux} cannot be read: {error}") from error
    return unpacked


def described(vmlinux: Path, symbols: set[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what the BTF has: types (name -> definition), and declarations (name -> text).

    The declarations are those of CALLBACKS, and of the FUNCTIONS in `symbols`. Raise MissingError
    if the BTF lacks a type of REQUIRED.
    """
    found = types(str(vmlinux), (*REQUIRED, *OPTIONAL, *PUBLIC))
    if not all(name in found for name in REQUIRED):
        raise MissingError(f"VMLINUX={vmlinux} has no type information (BTF) {NEEDED}")
    declared = {name: prototype(str(vmlinux), name) for name in FUNCTIONS if name in symbols}
    prototypes = {name: text for name, text in declared.items() if text is not None}
    return found, callbacks(str(vmlinux)) | prototypes


def inputs(headers: Path, vmlinux: str) -> str:
    """Return a line for each file from which the headers are made: path, size, time of change."""
    pahole = shutil.which("pahole") or "/no/pahole"
    here = Path(__file__)
    ours = [here, here.with_name("vmlinux.py"), Path(pahole)]
    states = [(path, path.stat()) for path in (*ours, headers / "Module.symvers", Path(vmlinux))]
    return "".join(f"{path} {state.st_size} {state.st_mtime_ns}\n" for path, state in states)


def generate(headers: Path, vmlinux: str, output: Path) -> None:
    """Write features.h and private.h for one kernel into the folder `output`."""
    symbols = exported(headers)
    if not vmlinux:
        raise MissingError(f"no VMLINUX given, and none found, that has type information {NEEDED}")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as folder:
        found, functions = described(with_btf(Path(vmlinux), Path(folder)), symbols)
    write_if_changed(output / "private.h", private_header(found, functions))
    write_if_changed(output / "features.h", features_header(found, functions, symbols))


def is_made(record: Path, made_from: str) -> bool:
    """Return whether the headers beside `record` were made from the inputs `made_from`."""
    files = [record, record.with_name("private.h"), record.with_name("features.h")]
    return all(path.exists() for path in files) and record.read_text() == made_from


def main() -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    add = parser.add_argument
    add("--headers", type=Path, required=True, help="the kernel's build folder (KDIR)")
    add("--vmlinux", required=True, help="that kernel, with BTF: ELF or vmlinuz")
    add("--output", type=Path, required=True, help="where private.h and features.h go")
    arguments = parser.parse_args()
    record = arguments.output / "made-from"
    try:
        made_from = inputs(arguments.headers, arguments.vmlinux)
    except OSError:  # generate() says which file is missing, and what to do
        made_from = ""
    if made_from and is_made(record, made_from):
        return 0
    try:
        generate(arguments.headers, arguments.vmlinux, arguments.output)
        record.write_text(made_from)
    except MissingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
