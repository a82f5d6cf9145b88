# SPDX-License-Identifier: GPL-2.0-only
"""Collect triagectl, and a Python that runs it, as files for a guest."""

import py_compile
import subprocess
import sys
import sysconfig
from pathlib import Path

from triagelab.base import tools

PACKAGE = Path(__file__).resolve().parents[2] / "triagectl"
#: A program that prints the files of all modules that triagectl may need.
_LIST = """
import sys
sys.path.insert(0, sys.argv[1])
import encodings.utf_8, encodings.ascii, encodings.unicode_escape, encodings.latin_1
import contextlib, ctypes, subprocess, traceback, triagectl.command, runpy
print(*(m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)), sep="\\n")
"""
#: The shell command with which a guest runs in_guest.py.
COMMAND = (
    "LD_LIBRARY_PATH=/job/python/shared PYTHONHOME=/job/python "
    "/job/python/python -s -B /job/in_guest.py"
)


def files(scratch: Path) -> dict[str, Path]:
    """Return the files by their paths below /job. Compile modules here: the guest is slow."""
    python = Path(sys.executable).resolve()
    listed = subprocess.run(
        [python, "-I", "-c", _LIST, PACKAGE.parent], check=True, capture_output=True, text=True
    )
    stdlib = Path(sysconfig.get_path("stdlib"))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = {"python/python": python, "in_guest.py": Path(__file__).parent / "in_guest.py"}
    shared = tools.libraries(python)
    for path in map(Path, listed.stdout.split()):
        if path.is_relative_to(PACKAGE):
            name = f"triagectl/{path.relative_to(PACKAGE)}"
        elif path.is_relative_to(stdlib):
            name = f"python/lib/{version}/{path.relative_to(stdlib)}"
        else:
            continue
        found[name] = path
        if path.suffix == ".so":
            shared += tools.libraries(path)
        else:
            found |= _compiled(name, path, scratch)
    # Python finds its home by the folder lib-dynload and by os.py.
    marker = scratch / "lib-dynload"
    marker.touch()
    found[f"python/lib/{version}/lib-dynload/here"] = marker
    found[f"python/lib/{version}/os.py"] = stdlib / "os.py"
    return found | {f"python/shared/{path.name}": path.resolve() for path in shared}


def _compiled(name: str, path: Path, scratch: Path) -> dict[str, Path]:
    tag = sys.implementation.cache_tag
    place = Path(name)
    cached = place.parent / "__pycache__" / f"{place.stem}.{tag}.pyc"
    target = scratch / cached
    py_compile.compile(
        str(path),
        cfile=str(target),
        dfile=name,
        doraise=True,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    return {str(cached): target}
