"""docs/coverage.md, the counts of printed, named and measured cells; ``python -m study.coverage`` writes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import yaml

from graphbench.tables.significance import compare

if TYPE_CHECKING:  # that module writes this page, too
    from study.coverage import Coverage

ROOT = Path(__file__).resolve().parents[1]
NOT_NAMED = ROOT / "study/not_named.yaml"
NOT_REPRODUCED = ROOT / "study/not_reproduced.yaml"
MANY_CELLS = 5
"""With fewer cells the distances of a row from validation and test scores say nothing."""


def page(cells: Sequence[Coverage]) -> str:
    """The counts per table and paper as Markdown."""
    lines = [
        "# The printed tables, cell by cell",
        "",
        "Written by `python -m study.coverage` from results/published, configs/sweeps and results/measured.",
        "A cell is a printed number. *Named*: one command trains it and compares (a sweep), or measures it (a",
        "benchmark, for times and memory), and its model builds, which tests check. *Measured*: all runs are in",
        "results/measured at the paper's size; then it is *reproduced* (within one published deviation plus one",
        "point), *below* or *above*. *By a variant*: how many of these last two a sweep of the same table with other",
        "settings reproduces, the text's protocol where the table follows the release, or the other way round; *not by",
        "one*: how many of those that are reproduced such a sweep does not. `--list` prints every cell.",
        "",
        "| table | printed | named | measured | reproduced | below | above | by a variant | not by one | not named |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    papers: dict[str, list[Coverage]] = {}
    for cell in cells:
        papers.setdefault(cell.row.paper, []).append(cell)
    for paper, of_paper in papers.items():
        for table in dict.fromkeys(cell.table for cell in of_paper):
            lines.append(_line(table, [cell for cell in of_paper if cell.table == table]))
        lines.append(_line(f"**{paper}**", of_paper, rows=False))
    lines.append(_line("**all**", cells, rows=False))
    lines += ["", "## How much *reproduced* says", "", *_strictness(cells)]
    lines += [
        "",
        "## What was measured and not reproduced",
        "",
        "† marks what no command of the repository repeats.",
        "",
    ]
    lines += _with_reasons([cell for cell in cells if cell.status in ("below", "above")], NOT_REPRODUCED)
    lines += ["", "## Rows in print that are nearer to validation scores", ""]
    lines += _nearer_to_validation(cells)
    lines += ["", "## What is missing for the rows not named", ""]
    lines += _with_reasons([cell for cell in cells if cell.status == "not named"], NOT_NAMED)
    return "\n".join(lines) + "\n"


def reasons(path: Path) -> dict[tuple[str, str], str]:
    """(table, row as printed) -> what is missing or what was tried, from a file of the study."""
    read = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {(table, model): reason for table, models in read.items() for model, reason in models.items()}


def _with_reasons(cells: Iterable[Coverage], path: Path) -> list[str]:
    """A line per reason: the rows that it holds for, with the number of their cells."""
    stated = reasons(path)
    rows: dict[str, list[str]] = {}
    for (table, model), count in Counter((cell.table, cell.row.model) for cell in cells).items():
        reason = stated.get((table, model), f"no reason is stated in {path.relative_to(ROOT)}")
        rows.setdefault(reason, []).append(f"{model} ({table}, {count})")
    return [f"- {', '.join(named)}: {reason.rstrip('.')}." for reason, named in rows.items()]


def _nearer_to_validation(cells: Iterable[Coverage]) -> list[str]:
    """A table of the rows whose printed numbers are nearer to our validation scores than to our test scores."""
    distances: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for cell in cells:
        if cell.measured and cell.mean is not None and cell.validation is not None:
            printed = float(cell.row.mean)
            of_row = distances.setdefault((cell.table, cell.row.model), [])
            of_row.append((abs(printed - cell.mean.mean), abs(printed - cell.validation)))
    lines = []
    judged = {row: pairs for row, pairs in distances.items() if len(pairs) >= MANY_CELLS}
    for (table, model), pairs in judged.items():
        from_test, from_validation = (fmean(each) for each in zip(*pairs, strict=True))
        if from_validation < from_test:
            lines.append(f"| {table} | {model} | {len(pairs)} | {from_test:.2f} | {from_validation:.2f} |")
    return [
        f"Of the {len(judged)} rows with at least {MANY_CELLS} measured cells these {len(lines)}: mean distance of the",
        "printed numbers from our scores on test and on validation data, same runs.",
        "",
        "| table | row | cells | from test | from validation |",
        "|---|---|--:|--:|--:|",
        *lines,
    ]


def _strictness(cells: Sequence[Coverage]) -> list[str]:
    """A table of how often the criterion would be met by less, and by the wrong numbers."""
    measured = [cell for cell in cells if cell.measured]
    configurations = len({cell.config for cell in measured})
    lines = [
        f"The {len(measured)} measured cells are of {configurations} configurations: print has some numbers in several",
        "tables, and each counts there. Runs of uncommitted or of several commits' code are named below their tables.",
        "",
        "Deviations in print are wide in some tables. *Within a point*: cells that are reproduced whatever the",
        "published deviation. *Another row's*: how often the measured mean of another row of the same column would",
        "have been called reproduced. Where that is as often as for a row's own, the word says nothing about a model.",
        "",
        "| table | measured | reproduced | within a point | another row's |",
        "|---|--:|--:|--:|--:|",
    ]
    for table in dict.fromkeys(cell.table for cell in measured):
        lines.append(_strict_line(table, [cell for cell in measured if cell.table == table]))
    return [*lines, _strict_line("**all**", measured)]


def _strict_line(title: str, cells: Sequence[Coverage]) -> str:
    pairs = [(a, b) for a in cells for b in cells if a.row != b.row and _share_column(a, b)]
    near = sum(_would_pass(cell, cell, deviation=False) for cell in cells)
    shares = [(sum(cell.reproduced for cell in cells), len(cells)), (near, len(cells))]
    shares.append((sum(_would_pass(of, printed) for of, printed in pairs), len(pairs)))
    shown = [f"{count / total:.0%}" if total else "-" for count, total in shares]
    return f"| {title} | {len(cells)} | {' | '.join(shown)} |"


def _share_column(a: Coverage, b: Coverage) -> bool:
    """Whether two cells stand in one column, of print or of the sweep, which may have several for one in print."""
    printed = (a.row.dataset, a.row.setting) == (b.row.dataset, b.row.setting)
    return a.table == b.table and (printed or a.column == b.column)


def _would_pass(of: Coverage, printed: Coverage, *, deviation: bool = True) -> bool:
    """Whether the measured mean of one cell would be called reproduced beside the printed number of another."""
    assert of.mean is not None
    row = printed.row
    std = float(row.std) if row.std and deviation else None
    return compare(row.scale, of.mean.mean, float(row.mean), std).status == "reproduced"


def _line(title: str, cells: Sequence[Coverage], rows: bool = True) -> str:
    count = Counter(cell.status for cell in cells)
    measured = sum(cell.measured for cell in cells)
    named = len(cells) - count["not named"]
    missing = Counter(cell.row.model for cell in cells if cell.status == "not named") if rows else {}
    shown = ", ".join(f"{model} {number}" for model, number in missing.items())
    numbers = [len(cells), named, measured, count["reproduced"], count["below"], count["above"]]
    numbers += [sum(cell.variant is not None and cell.reproduced == which for cell in cells) for which in (False, True)]
    return f"| {title} | {' | '.join(map(str, numbers))} | {shown} |"
