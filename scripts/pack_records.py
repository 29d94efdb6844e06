"""Run records in one file: see ``graphbench.runs.pack``, or ``--help``."""

import sys

from graphbench.runs.pack import main

if __name__ == "__main__":
    sys.exit(main())
