# SPDX-License-Identifier: GPL-2.0-only
"""Models of drives, fitted to what others measured."""
