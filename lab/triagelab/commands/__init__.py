# SPDX-License-Identifier: GPL-2.0-only
"""Define the commands of the command line: one module for each, with its arguments and action."""
