"""Tables from run records: see ``graphbench.tables.cli``, or ``--help``."""

import sys

from graphbench.tables.cli import main

if __name__ == "__main__":
    sys.exit(main())
