# SPDX-License-Identifier: GPL-2.0-only
"""Print the drives of drives/*.toml as rows of C for drive.c, sorted by name.

If a drive sets a parameter that the models do not have, drive.c does not compile.
"""

import json
import tomllib
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "drives"


def row(path: Path) -> str:
    """Return the C initializer of one drive."""
    drive = tomllib.loads(path.read_text())
    settings = drive.get("settings", {})
    parameters = drive["parameters"]
    lines = [
        f"\t.name = {json.dumps(path.stem)},",
        f"\t.profile = {json.dumps(drive['profile'])},",
        *(f"\t.{name} = {settings[name]}," for name in ("hw_queues", "depth") if name in settings),
        "\t.set = {",
        *(f"\t\tSET({name}, {value})," for name, value in parameters.items()),
        "\t},",
        f"\t.nr_set = {len(parameters)},",
    ]
    return "\n".join(["{", *lines, "},"])


def main() -> None:
    """Print all drives."""
    print("/* SPDX-License-Identifier: GPL-2.0-only */")
    print("/* Made from the drives in drives/ by tests/kernel-unit/lib/drives.py. */")
    for path in sorted(FOLDER.glob("*.toml")):
        print(row(path))


if __name__ == "__main__":
    main()
