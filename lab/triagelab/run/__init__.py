# SPDX-License-Identifier: GPL-2.0-only
"""Execute a plan: run its jobs on machines, disks or a cluster, and keep run directories."""
