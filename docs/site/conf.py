# SPDX-License-Identifier: GPL-2.0-only
"""The site of the documents, for Sphinx: `make docs` builds it in build/site.

The repository's root is the source folder, so that a link between two documents is the same
there, on the repository's own pages, and here.
"""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

project = "Triage"
copyright = "the authors of Triage, GPL-2.0-only"
extensions = ["myst_parser"]
root_doc = "docs/index"
# What git has, and not what else lies in a work tree: a built kernel has thousands of documents.
include_patterns = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
    cwd=ROOT, check=True, capture_output=True, text=True,
).stdout.split()  # fmt: skip

# Anchors as on the repository's own pages, for headings of all depths.
myst_heading_anchors = 6
# Fences have the kind of command that the tests look for; each is a shell's.
myst_enable_extensions: list[str] = []

html_theme = "furo"
html_title = "Triage"
html_copy_source = False
html_show_sphinx = False
