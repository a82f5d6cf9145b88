# SPDX-License-Identifier: GPL-2.0-only
"""What every other folder may use: errors, files and locks, tools, settings, metrics."""
