"""The tables of one paper: see ``graphbench.reproduce``, or ``--help``."""

import sys

from graphbench.reproduce import main

if __name__ == "__main__":
    sys.exit(main())
