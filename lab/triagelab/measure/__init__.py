# SPDX-License-Identifier: GPL-2.0-only
"""Build a table of samples from the files of all runs, and summarise the table."""
