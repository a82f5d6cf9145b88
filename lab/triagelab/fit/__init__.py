# SPDX-License-Identifier: GPL-2.0-only
"""Fit the parameters of drive models to measurements with fio."""
