"""Figures from finished runs: see ``graphbench.plots.cli``, or ``--help``."""

import sys

from graphbench.plots.cli import main

if __name__ == "__main__":
    sys.exit(main())
