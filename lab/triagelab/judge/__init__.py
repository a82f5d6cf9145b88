# SPDX-License-Identifier: GPL-2.0-only
"""Turn measurements into answers: verdicts, choices of a scheduler, and sentences."""
