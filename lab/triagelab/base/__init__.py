# SPDX-License-Identifier: GPL-2.0-only
"""Modules that every other folder may use: errors, files and locks, tools, settings, metrics."""
