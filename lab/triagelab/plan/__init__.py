# SPDX-License-Identifier: GPL-2.0-only
"""The runs that an experiment needs, and the interface of machines that carry them out."""
