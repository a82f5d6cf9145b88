# SPDX-License-Identifier: GPL-2.0-only
"""A small command for machines in production: see, explain, try and report I/O schedulers."""
