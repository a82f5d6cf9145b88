# SPDX-License-Identifier: GPL-2.0-only
"""Try a random sample of mutants of each module in pyproject.toml's list, and print the scores.

    mutants.py NUMBER [SEED]    called by `make mutants SAMPLE=NUMBER`, in its copy of the lab

A mutant is a copy of a module with one small error. mutmut makes the mutants and runs the tests. A
module's score is the share of its sample that the tests notice.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_MUTMUT = (sys.executable, "-m", "mutmut", "run", "--max-children", "1")
_SURVIVED, _UNTESTED = 0, 33  # mutmut's codes: all tests passed, or no test runs the changed code


def _modules() -> Iterator[tuple[str, dict[str, int | None]]]:
    """Yield each mutated module, with its mutants: name -> mutmut's code, None if not tried yet."""
    for path in sorted(Path("mutants").rglob("*.py.meta")):
        if codes := json.loads(path.read_text())["exit_code_by_key"]:
            yield path.name.removesuffix(".py.meta"), codes


def main(number: int, seed: int) -> None:
    """Choose the mutants, try them, and print the scores and the mutants that no test noticed."""
    # Make all mutants but test none: mutmut makes them before it looks for one with this name.
    subprocess.run([*_MUTMUT, "no-such-mutant*"], capture_output=True)
    chosen = {
        module: random.Random(seed).sample(sorted(codes), min(number, len(codes)))
        for module, codes in _modules()
    }
    if not chosen:
        sys.exit("mutmut made no mutants: `mutmut run` says why")
    subprocess.run([*_MUTMUT, *(name for names in chosen.values() for name in names)], check=True)
    for module, codes in _modules():
        left = [name for name in chosen[module] if codes[name] in (_SURVIVED, _UNTESTED)]
        seen = len(chosen[module]) - len(left)
        print(f"{module}: {seen} of {len(chosen[module])} ({seen / len(chosen[module]):.0%})")
        for name in left:
            print(f"  not noticed: {name}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 23)
