# SPDX-License-Identifier: GPL-2.0-only
"""Parameters for models of drives, fitted to measurements with fio."""
