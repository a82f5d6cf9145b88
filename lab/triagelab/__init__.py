# SPDX-License-Identifier: GPL-2.0-only
"""The laboratory: runs I/O schedulers on machines and says what they are worth.

Data flows one way, a module a stage:

    experiments -> plan -> execute (machines, guest) -> samples -> statistics -> report
"""
