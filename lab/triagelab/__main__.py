# SPDX-License-Identifier: GPL-2.0-only
"""The start of the command line: the launcher `triage` calls `python -m triagelab`."""

import signal
import sys


def main() -> int:
    """Run the command line. Ctrl-C during its import, which takes a second, ends it silently."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # a parent may have set SIGINT to be ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from triagelab import cli

    signal.signal(signal.SIGINT, handler)
    return cli.main()


sys.exit(main())
