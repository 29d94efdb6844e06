"""``python -m graphbench``: the same as the command ``graphbench``."""

import sys

from graphbench.console import main

if __name__ == "__main__":
    sys.exit(main())
