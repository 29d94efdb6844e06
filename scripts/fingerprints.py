"""Declares the data sets at hand: ``python -m scripts.fingerprints`` adds to ``graphbench/data/fingerprints.json``.

A fingerprint covers all graphs, features and targets as a builder reads them with its default arguments. One that is
declared is never changed here: that the same files give other graphs is a decision, to be made by hand.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from graphbench import atomic, shipped
from graphbench.config import load_config
from graphbench.data.files.download import no_downloads
from graphbench.errors import UserError
from graphbench.factory.data import fingerprint_key, read_data

FILE = Path(__file__).resolve().parents[1] / "graphbench/data/fingerprints.json"


def main(seconds: float) -> int:
    """Reads what the shipped configurations name and is at hand, until the time is over."""
    known = json.loads(FILE.read_text()) if FILE.is_file() else {}
    end, seen = time.monotonic() + seconds, set(known)
    small_first = sorted(shipped.configurations(), key=lambda path: (path.parent.name not in ("tu", "nodes"), path))
    for path in small_first:
        if time.monotonic() > end:
            break
        config = load_config(path, ["dataset.sparse_features", "never"])
        key = fingerprint_key(config)
        if key is None or key in seen:
            continue
        seen.add(key)
        try:
            with no_downloads():
                known[key] = read_data(config).store.fingerprint
        except UserError as error:
            print(f"{key}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
            continue
        print(f"{key}: {known[key]}", file=sys.stderr)
        atomic.write_text(FILE, json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1e9))
