# SPDX-License-Identifier: GPL-2.0-only
"""`python -m triagelab`, what the `triage` launcher starts."""

import signal
import sys


def main() -> int:
    """The command line. It takes a second to import, during which Ctrl-C ends it without a word."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from triagelab import cli

    signal.signal(signal.SIGINT, handler)
    return cli.main()


sys.exit(main())
