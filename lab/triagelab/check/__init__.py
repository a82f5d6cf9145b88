# SPDX-License-Identifier: GPL-2.0-only
"""Check a scheduler in guests: its properties (verify), its reaction to random load (storm)."""
