"""Runs that a configuration stands for: one per seed, or one per split."""

from __future__ import annotations

from dataclasses import dataclass

from graphbench.config import Config
from graphbench.errors import UserError

MOST_RUNS = 10_000
"""Runs of one command; each has a folder."""


@dataclass(frozen=True)
class Run:
    """One training: which folder, which seed, which of several splits."""

    run_id: int
    seed: int
    split_index: int


def planned_runs(config: Config, repeat: int) -> list[Run]:
    """The runs that a configuration and ``--repeat`` stand for.

    Raises:
        UserError: repeated less than once, or over splits and over seeds at once.
    """
    tree = config.tree
    if not 1 <= repeat <= MOST_RUNS:
        raise UserError(f"repeat must be at least 1 and at most {MOST_RUNS:,}, received {repeat:,}.")
    if not tree.run_multiple_splits:
        return [Run(seed, seed, tree.dataset.split_index) for seed in range(tree.seed, tree.seed + repeat)]
    if repeat != 1:
        raise UserError(
            f"{config.where('run_multiple_splits')}: run_multiple_splits and --repeat {repeat} exclude each other: "
            "the first repeats over splits, the second over seeds."
        )
    return [Run(index, tree.seed, index) for index in tree.run_multiple_splits]
