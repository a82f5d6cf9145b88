# SPDX-License-Identifier: GPL-2.0-only
"""Provide the inputs of runs: packages, kernels, modules, programs and the guest's archives."""
