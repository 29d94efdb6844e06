"""docs/results.md, what is measured of the papers' own systems; ``python -m study.coverage`` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # that module writes this page, too
    from study.coverage import Coverage

SYSTEMS: Mapping[str, str] = {
    "SGFormer": "SGFormer",
    "Gradformer": "Gradformer",
    "FFGT": "GRPE-FFGT",
    "GECO": "GECO",
    "SFi-Former": "SFi-Former",
}
"""Paper -> row of its tables that is its own system, where that is measured."""
NOTES: Mapping[str, str] = {
    "SGFormer": "Settings of its first release. Where that has several commands for a table, its sweep says which. It "
    "draws the training nodes of Cora and CiteSeer itself, where its paper speaks of the public split.",
    "Gradformer": "Ten seeds. Of these sets only NCI1 has a released script; its settings are assumed for the others. "
    "The release draws one split for all runs, whose test graphs on NCI1 are easier than others "
    "(`configs/sweeps/gradformer-tu-released.yaml`); `gradformer-tu.yaml` has a split per run, as the text says.",
    "FFGT": "No code was released for it.",
    "GECO": "None of its score tables is measured. Its layer, timed beside FlashAttention on an H100, is in "
    "[claims](claims.md); on medium graphs, for which the paper prints nothing, it is below GCN on Cora "
    "and Chameleon and above on Actor and Deezer-Europe ([geco-nodes](../results/measured/geco-nodes.md)).",
    "SFi-Former": "None of its score tables is measured. On small generated graphs it is within one to two deviations "
    "of GPS ([sfi-small](../results/measured/sfi-small.md)).",
}
"""Paper -> what a reader of its table has to know."""
INTRODUCTION = """\
# First results

Written by `python -m study.coverage` from results/published and results/measured. What the papers print for their
own systems and what their settings give here; ± is the sample deviation over runs, their number in parentheses.
*reproduced*: the two differ by at most one published deviation plus one point; *with* or *not with* another sweep:
there the same cell, with other settings or on another split, comes out the other way. Rows of other models, commands,
hardware, records: [results/measured](../results/measured/README.md). Which of the printed numbers a command makes,
which are measured, how much the word says, and what was tried for those that are not reproduced:
[coverage](coverage.md). Which of the papers' claims hold: [claims](claims.md).
"""


def page(cells: Sequence[Coverage]) -> str:
    """A section per system, in it a line per measured cell of its row."""
    return INTRODUCTION + "".join(_section(paper, cells) for paper in SYSTEMS)


def _section(paper: str, cells: Sequence[Coverage]) -> str:
    of_paper = [cell for cell in cells if cell.row.paper == paper]
    measured = [cell for cell in of_paper if cell.measured]
    lines = ["", f"## {paper}", "", NOTES[paper]]
    if measured:
        reproduced = sum(cell.status == "reproduced" for cell in measured)
        lines += [
            "",
            f"Of its {len(of_paper)} printed numbers, those of other models included, {len(measured)} are measured, "
            f"{reproduced} reproduced.",
            "",
            "| table | data set | setting in print | published | measured | split of the runs | status |",
            "|---|---|---|--:|--:|---|---|",
        ]
        own = [cell for cell in measured if cell.row.model == SYSTEMS[paper]]
        lines += [_line(cell, [other for other in own if other.table == cell.table]) for cell in own]
    return "\n".join(lines) + "\n"


def _line(cell: Coverage, table: Sequence[Coverage]) -> str:
    """One cell; of its settings those that are not the same in all shown cells of its table."""
    mean, row = cell.mean, cell.row
    assert mean is not None
    digits = len(row.printed.split()[0].partition(".")[2])
    deviation = f" ± {mean.std:.{digits}f}" if mean.std is not None else ""
    setting = [
        f"{key} {value}"
        for key, value in row.settings.items()
        if any(other.row.settings.get(key) != value for other in table)
    ]
    columns = (
        _link(f"Table {cell.table.rpartition('table')[2]}", cell.sweep),
        row.dataset,
        ", ".join(setting).replace("_", " "),
        row.printed,
        f"{mean.mean:.{digits}f}{deviation} ({mean.n})",
        cell.protocol,
        cell.status + _contrary(cell),
    )
    return f"| {' | '.join(columns)} |"


def _contrary(cell: Coverage) -> str:
    """Which other settings say the contrary."""
    if cell.variant is None:
        return ""
    column = f" ({cell.variant.column})" if cell.variant.sweep == cell.sweep else ""
    return f"; {'not ' if cell.reproduced else ''}with {_link(cell.variant.sweep, cell.variant.sweep)}{column}"


def _link(text: str, sweep: str) -> str:
    return f"[{text}](../results/measured/{sweep}.md)"
