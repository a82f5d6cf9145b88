# SPDX-License-Identifier: GPL-2.0-only
"""Plan the runs of an experiment, and define the interface of machines that carry them out."""
