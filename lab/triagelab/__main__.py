# SPDX-License-Identifier: GPL-2.0-only
"""`python -m triagelab`: the `triage` launcher starts it."""

import signal
import sys


def main() -> int:
    """Run the command line. Its import takes a second; Ctrl-C during it ends it silently."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from triagelab import cli

    signal.signal(signal.SIGINT, handler)
    return cli.main()


sys.exit(main())
