"""Which numbers of test examples and runs can a printed accuracy be of?

``python -m study.findings.granularity TABLE DATASET (--examples N ... | --rest-of N) [--runs R ...]`` prints, for
every accuracy of a data set in ``results/published/TABLE.csv``, whether its mean and deviation can be those of R runs
on N test examples, and of which kind the deviation is then. Accuracies are whole numbers of right answers: their sum
over the runs is a whole number, too, and so is that of their squares (the granularity test of Brown and Heathers,
https://doi.org/10.1177/1948550616673876). *no* is a proof. The contrary is none: with two digits behind the point and
N R above 10,000 every mean is possible.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

from graphbench.command_line import CommandParser
from graphbench.errors import UserError
from graphbench.exit_codes import exit_codes
from graphbench.published.table import PublishedRow, read_published


def deviations(mean: str, std: str, examples: int, runs: int) -> list[str]:
    """Kinds of deviation, ``sample`` and ``population``, with which the printed percentages are possible.

    Args:
        mean: printed mean, with its digits.
        std: printed standard deviation; empty: none is printed, and both kinds are possible where the mean is.
        examples: test examples of a run.
        runs: number of runs.
    """
    low, high = _interval(mean)
    counts = Fraction(examples, 100)
    sums = range(ceil(low * counts * runs), floor(high * counts * runs) + 1)
    found = []
    for kind, degrees in (("sample", runs - 1), ("population", runs)):
        if any(not std or _some_squares(total, std, counts, runs, degrees) for total in sums):
            found.append(kind)
    return found


def _some_squares(total: int, std: str, counts: Fraction, runs: int, degrees: int) -> bool:
    """Whether whole numbers with a given sum can have a sum of squares that gives the printed deviation."""
    low, high = (max(bound, Fraction(0)) * counts for bound in _interval(std))
    each, more = divmod(total, runs)
    least = runs * each**2 + more * (2 * each + 1)  # the sum of squares of equal runs, or nearly equal ones
    first = max(ceil(low**2 * degrees + Fraction(total**2, runs)), least)
    first += (first - total) % 2  # a number is even where its square is
    return first <= floor(high**2 * degrees + Fraction(total**2, runs))


def _interval(printed: str) -> tuple[Fraction, Fraction]:
    """Smallest and largest number that is printed like this, whatever is done with halves."""
    half = Fraction(1, 2 * 10 ** len(printed.partition(".")[2]))
    return Fraction(printed) - half, Fraction(printed) + half


def rest(row: PublishedRow, examples: int) -> int:
    """Examples that neither train nor validate, sizes rounded down as programs do it."""
    shares = {key: Fraction(value) / 100 for key, value in re.findall(r"(train|val)_ratio=([\d.]+)%", row.setting)}
    if set(shares) != {"train", "val"}:
        raise UserError(
            f"--rest-of needs train_ratio and val_ratio, and {row.setting or 'the standard split'} has none"
        )
    return examples - sum(floor(share * examples) for share in shares.values())


@exit_codes
def main(argv: Sequence[str] | None = None) -> int:
    """Prints a line per cell, then one per model."""
    parser = CommandParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", help="e.g. sgformer_table7")
    parser.add_argument("dataset", help="as printed in the file, e.g. Chameleon")
    sizes = parser.add_mutually_exclusive_group(required=True)
    sizes.add_argument("--examples", type=int, nargs="+", help="test examples of a run")
    sizes.add_argument("--rest-of", type=int, help="examples of the data set; whatever is not train or val is tested")
    parser.add_argument("--runs", type=int, nargs="+", default=[5, 10], help="default: 5 10")
    arguments = parser.parse_args(argv)
    possible: dict[str, int] = {}
    rows = [
        row
        for row in read_published(arguments.table).rows
        if row.dataset == arguments.dataset and row.mean and row.metric == "accuracy_percent"
    ]
    if not rows:
        raise UserError(f"{arguments.table} has no accuracy of {arguments.dataset}")
    for row in rows:
        for examples in arguments.examples or [rest(row, arguments.rest_of)]:
            for runs in arguments.runs:
                kinds = deviations(row.mean, row.std, examples, runs)
                cell = f"{row.model}, {row.setting or row.dataset}: {row.mean} ± {row.std or 'none'}"
                print(f"{cell}: {runs} runs on {examples}: {' or '.join(kinds) if kinds else 'no'}")
                of = f"{row.model}, {runs} runs on {examples if arguments.examples else 'the rest'}"
                possible[of] = possible.get(of, 0) + bool(kinds)
    for of, number in possible.items():
        print(f"{of}: {number} of {sum(row.model == of.rpartition(', ')[0] for row in rows)} cells possible")
    return 0


if __name__ == "__main__":
    sys.exit(main())
