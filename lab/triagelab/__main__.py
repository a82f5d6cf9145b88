# SPDX-License-Identifier: GPL-2.0-only
"""Start the command line. The launcher `triage` calls `python -m triagelab`."""

import signal
import sys


def main() -> int:
    """Import and run the command line. Until it is imported, Ctrl-C ends the program silently."""
    handler = signal.getsignal(signal.SIGINT)
    # If the parent process made this one ignore Ctrl-C, go on ignoring it.
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from triagelab import cli

    signal.signal(signal.SIGINT, handler)
    return cli.main()


sys.exit(main())
