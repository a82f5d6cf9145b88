# SPDX-License-Identifier: GPL-2.0-only
"""Compile and call a program that runs modeldisk's models in user space, in simulated time."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triagelab.base.sources import MODULES

_PROGRAM = MODULES.parent / "tests/modeldisk/simulate.c"


@dataclass(frozen=True)
class Simulator:
    """The compiled simulator. A call of the object runs jobs on a model."""

    program: Path

    @staticmethod
    def build(folder: Path, sanitize: bool = True) -> "Simulator":
        """Compile the simulator into `folder`; sanitizers find errors, but slow it down."""
        names = ("flash.c", "hdd.c", "profiles.c")
        sources = [_PROGRAM, *(MODULES / "modeldisk" / name for name in names)]
        warnings = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
        sanitizers = ["-fsanitize=undefined,address", "-fno-sanitize-recover=undefined"]
        sanitizers = sanitizers if sanitize else []
        program = folder / "simulate"
        subprocess.run(
            ["gcc", "-std=gnu11", "-O2", *warnings, *sanitizers, "-o", program, *sources, "-lm"],
            check=True,
        )
        return Simulator(program)

    def __call__(self, profile: str, *jobs: str, **settings: int) -> dict[str, Any]:
        """Run `jobs`; return results under each job's name, and under "stats" and "parameters"."""
        arguments = [f"{name}={value}" for name, value in settings.items()]
        done = subprocess.run(
            [self.program, profile, *arguments, *jobs], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        results: dict[str, Any] = json.loads(done.stdout)
        return {**results["jobs"], **{key: of for key, of in results.items() if key != "jobs"}}

    def parameters(self, profile: str, **changes: int) -> dict[str, int]:
        """Return the profile's parameters with the changes. Parameters of other models are 0."""
        found: dict[str, int] = self(profile, time_ms=0, **changes)["parameters"]
        return found
