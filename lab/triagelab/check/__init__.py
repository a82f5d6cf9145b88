# SPDX-License-Identifier: GPL-2.0-only
"""Checks of a scheduler in guests: of its properties (verify), and under random load (storm)."""
