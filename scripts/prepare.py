"""Data and encodings ahead of time: see ``graphbench.prepare``, or ``--help``."""

import sys

from graphbench.prepare import main

if __name__ == "__main__":
    sys.exit(main())
