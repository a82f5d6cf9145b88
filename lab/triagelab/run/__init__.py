# SPDX-License-Identifier: GPL-2.0-only
"""Carrying out a plan: machines, this computer's disks, clusters, run directories."""
