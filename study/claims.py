"""Writes docs/claims.md: verdicts of our runs on the claims of the five papers.

``python -m study.claims [--records DIR] [--claims FILE] [--out FILE]`` (or ``python -m scripts.regenerate``)

Claims and the rules that decide about them are data (study/claims.yaml); numbers come from run records, recorded
measurements and the published tables only.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from graphbench import atomic
from graphbench.command_line import CommandParser
from graphbench.errors import UserError
from graphbench.runs.record_index import indexed
from study.judging.document import document
from study.judging.verdicts import ROOT, VERDICTS, decide, read_claims

CLAIMS = ROOT / "study" / "claims.yaml"
RECORDS = ROOT / "results" / "measured" / "records"


def page(claims: Path = CLAIMS, records: Path = RECORDS) -> str:
    """The whole page.

    Raises:
        UserError: the claims cannot be read.
    """
    return document([decide(claim, records) for claim in read_claims(claims)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads claims and records, writes the page."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--claims", type=Path, default=CLAIMS, metavar="FILE")
    parser.add_argument("--records", type=Path, default=RECORDS, metavar="DIR")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "claims.md", metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        with indexed([options.records]):
            verdicts = [decide(claim, options.records) for claim in read_claims(options.claims)]
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return UserError.exit_code
    text = document(verdicts)
    count = Counter(verdict.word for verdict in verdicts)
    print(f"{len(verdicts)} claims: " + ", ".join(f"{count[word]} {word}" for word in VERDICTS if count[word]))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(options.out, text)
    print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
