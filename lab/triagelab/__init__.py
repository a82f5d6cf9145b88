# SPDX-License-Identifier: GPL-2.0-only
"""The laboratory: it measures I/O schedulers on virtual or real machines, and compares them.

Each stage is a folder, and data flows from stage to stage. All stages use the folder `base`:

    ask -> provision -> plan -> run -> measure -> judge -> report

A module imports only from its own folder and from earlier ones. docs/lab.md has all folders in
their order.
"""
