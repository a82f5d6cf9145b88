# SPDX-License-Identifier: GPL-2.0-only
"""From the files of runs to a table of samples, and from that to a summary."""
