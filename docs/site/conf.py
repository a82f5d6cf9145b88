# SPDX-License-Identifier: GPL-2.0-only
"""The site of the documents, for Sphinx: `make docs` builds it in build/site.

The repository's root is the source folder. So links between documents work the same in the
repository, on its own web pages and on this site.
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
# These folders may contain source trees of kernels, with thousands of documents.
exclude_patterns = ["build", "results"]

# Give headings of all levels the anchors that GitHub gives them.
myst_heading_anchors = 6

# A block without a language has commands or their output. Sphinx would take it for Python.
highlight_language = "text"

html_theme = "furo"
html_title = "Triage"
html_copy_source = False
