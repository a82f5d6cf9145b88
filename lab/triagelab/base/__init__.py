# SPDX-License-Identifier: GPL-2.0-only
"""Python modules that all other folders may use: errors, files, locks, tools, settings, metrics."""
