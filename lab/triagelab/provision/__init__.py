# SPDX-License-Identifier: GPL-2.0-only
"""The inputs of runs: packages, kernels, modules, programs, the guest's archive."""
