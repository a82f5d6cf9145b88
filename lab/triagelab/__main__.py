# SPDX-License-Identifier: GPL-2.0-only
"""Start the command line. The launcher `triage` calls `python -m triagelab`."""

import signal
import sys


def main() -> int:
    """Run the command line. During its import (a second), Ctrl-C ends the program silently."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # unless the parent process had Ctrl-C ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from triagelab import cli

    signal.signal(signal.SIGINT, handler)
    return cli.main()


sys.exit(main())
