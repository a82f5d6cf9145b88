# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts, choices and findings, in words."""
