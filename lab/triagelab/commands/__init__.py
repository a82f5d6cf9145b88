# SPDX-License-Identifier: GPL-2.0-only
"""The command line's commands: a module each, with its arguments and what it does."""
