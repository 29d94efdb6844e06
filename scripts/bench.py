"""Benchmarks against peers: see ``graphbench.benchmarks.cli``, or ``--help``."""

import sys

from graphbench.benchmarks.cli import main

if __name__ == "__main__":
    sys.exit(main())
