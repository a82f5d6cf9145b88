# SPDX-License-Identifier: GPL-2.0-only
"""Measurements: a table of samples from the files of all runs, and a summary of the table."""
