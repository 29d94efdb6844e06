"""Trains every entry of a sweep file: ``python scripts/sweep.py SWEEP.yaml [--jobs N] [--dry_run] [KEY VALUE ...]``.

All entries are checked before the first is trained. Finished runs are skipped, interrupted ones go on, a failed one
does not stop the others. docs/sweeps.md has the format and an example.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from graphbench.sweeps.cli import main

if __name__ == "__main__":
    sys.exit(main())
