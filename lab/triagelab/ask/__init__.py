# SPDX-License-Identifier: GPL-2.0-only
"""Read and check the input: experiments, job files, traces, applications, devices, the study."""
