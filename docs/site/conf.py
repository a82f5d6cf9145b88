# SPDX-License-Identifier: GPL-2.0-only
"""The site of the documents, for Sphinx: `make docs` builds it in build/site.

The repository's root is the source folder, so that a link between two documents is the same
there, on the repository's own pages, and here.
"""

project = "Triage"
copyright = "the authors of Triage, GPL-2.0-only"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/recipes/*.md",
    "drives/*.md",
    "kernel/*.md",
    "kernel/**/*.md",
    "packaging/*.md",
    "tests/**/*.md",
]
# Trees of kernels lie in these, with thousands of documents.
exclude_patterns = ["build", "results"]

# Give headings of all levels the anchors that GitHub gives them.
myst_heading_anchors = 6

# A block without a language is a command or its output, not Python.
highlight_language = "text"

html_theme = "furo"
html_title = "Triage"
html_copy_source = False
