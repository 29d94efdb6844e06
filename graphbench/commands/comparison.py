"""Several configurations in one command: what has to hold before the first one is trained, and the table at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from graphbench.config import Config
from graphbench.errors import UserError
from graphbench.preflight import Checked, check
from graphbench.runs.summary import Compared, comparison_tables

WIDE = 160
"""Columns where the output is no terminal."""


def check_all(
    configs: Sequence[Config], *, repeat: int = 1, overwrite: bool = False, together: bool = False
) -> list[Checked]:
    """Checks all configurations of one command before the first one is trained.

    Raises:
        UserError: the input is wrong, two configurations share a run folder, or they need different numbers of
            processes (which are started once).
    """
    several: dict[Path, Checked] = {}
    for config in configs:
        pretrained = Path(config.tree.pretrained.dir)
        made_here = not several.keys().isdisjoint((pretrained, pretrained.parent))
        checked = check(config, repeat=repeat, overwrite=overwrite, together=together, starts=not made_here)
        if checked.folder in several:
            raise UserError(
                f"command line: two configurations share the run folder {checked.folder}, which is named after the "
                "file without its ending. Rename one of the files, or give one of them a name_tag."
            )
        several[checked.folder] = checked
    processes = {folder.name: checked.fabric.world_size for folder, checked in several.items()}
    if len(set(processes.values())) > 1:
        text = ", ".join(f"{count} in {name}" for name, count in processes.items())
        raise UserError(f"command line: configurations of one command need equally many devices, received {text}.")
    return list(several.values())


def compare(several: Sequence[Checked], failures: Sequence[str]) -> None:
    """Prints configurations side by side, on standard error.

    Args:
        several: configurations that were trained.
        failures: why a configuration has not all of its runs; empty where it has.
    """
    rows = []
    for checked, failure in zip(several, failures, strict=True):
        layers = " ".join(dict.fromkeys(checked.summary.layers))
        rows.append(Compared(checked.summary.dataset, layers, checked.result(), failure))
    terminal = Console(stderr=True)
    # A file or a pipe has no width of its own that a table would have to be folded into.
    console = terminal if terminal.is_terminal else Console(stderr=True, width=WIDE)
    for table in comparison_tables(rows):
        console.print(table)
