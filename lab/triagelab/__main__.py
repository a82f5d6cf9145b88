# SPDX-License-Identifier: GPL-2.0-only
"""Start the command line. The launcher `triage` calls `python -m triagelab`."""

import signal
import sys


def main() -> int:
    """Run the command line. While its import runs (a second), Ctrl-C ends the program silently."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # else the parent process made this one ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from triagelab import cli

    signal.signal(signal.SIGINT, handler)
    return cli.main()


sys.exit(main())
