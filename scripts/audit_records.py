"""Records that need a second look: see ``graphbench.runs.audit``, or ``--help``."""

import sys

from graphbench.runs.audit import main

if __name__ == "__main__":
    sys.exit(main())
