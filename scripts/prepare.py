"""Data and encodings ahead of time: see ``graphbench.commands.prepare``, or ``--help``."""

import sys

from graphbench.commands.prepare import main

if __name__ == "__main__":
    sys.exit(main())
