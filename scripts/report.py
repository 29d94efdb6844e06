"""One HTML page from run records: see ``graphbench.report.cli``, or ``--help``."""

import sys

from graphbench.report.cli import main

if __name__ == "__main__":
    sys.exit(main())
