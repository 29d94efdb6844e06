"""Trains the entries of a sweep file: see ``graphbench.sweeps.cli``, or ``--help``."""

import sys

from graphbench.sweeps.cli import main

if __name__ == "__main__":
    sys.exit(main())
