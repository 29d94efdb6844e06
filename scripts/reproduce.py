"""The tables of one paper: see ``graphbench.commands.reproduce``, or ``--help``."""

import sys

from graphbench.commands.reproduce import main

if __name__ == "__main__":
    sys.exit(main())
