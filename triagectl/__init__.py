# SPDX-License-Identifier: GPL-2.0-only
"""A command for machines in production: see, explain and try I/O schedulers, and report bugs."""

#: The oldest Python that can run triagectl and build the kernel module. Packages require it, and
#: tests check that the documents and the code agree with it. This file and the launcher must run on
#: any Python 3, so that an older Python can report that it is too old.
PYTHON = (3, 10)
