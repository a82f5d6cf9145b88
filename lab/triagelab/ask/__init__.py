# SPDX-License-Identifier: GPL-2.0-only
"""The question: experiments, job files, traces, applications, devices, the study."""
