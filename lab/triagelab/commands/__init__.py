# SPDX-License-Identifier: GPL-2.0-only
"""The command line's commands: a module for each, with its arguments and its action."""
