# SPDX-License-Identifier: GPL-2.0-only
"""`python -m triagelab`, what the `triage` launcher starts."""

import sys

from triagelab.cli import main

sys.exit(main())
