# SPDX-License-Identifier: GPL-2.0-only
"""Checks of a scheduler in guests: its properties, and interleavings that a seed decides."""
