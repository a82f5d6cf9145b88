# SPDX-License-Identifier: GPL-2.0-only
"""The laboratory: runs I/O schedulers on machines and says what they are worth.

Data flows one way, a folder a stage; `base` is for all of them:

    ask -> provision -> plan -> run -> measure -> judge -> report

A module imports only from its own folder and from earlier ones (docs/lab.md has their order).
"""
