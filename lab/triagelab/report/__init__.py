# SPDX-License-Identifier: GPL-2.0-only
"""Draw charts, and build the HTML pages and the terminal output that show results."""
