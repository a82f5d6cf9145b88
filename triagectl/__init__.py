# SPDX-License-Identifier: GPL-2.0-only
"""A small command for machines in production: see, explain, try and report I/O schedulers."""

#: The oldest Python that the command and the module's build run on. Packages require it, and the
#: tests hold the documents and the code to it. This file and the launcher must run on any Python 3.
PYTHON = (3, 10)
