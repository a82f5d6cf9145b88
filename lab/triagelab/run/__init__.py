# SPDX-License-Identifier: GPL-2.0-only
"""Execution of a plan: machines, this computer's disks, clusters, run directories."""
