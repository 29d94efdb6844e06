"""Trains and evaluates configurations: ``main.py --cfg FILE [FILE ...] [--repeat N] [--dry_run] [KEY VALUE ...]``."""

import sys

from graphbench.commands.train import main

if __name__ == "__main__":
    sys.exit(main())
