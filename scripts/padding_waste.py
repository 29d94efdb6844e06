"""Nodes and edges that captured steps compute for nothing, measured on the data themselves.

    python -m scripts.padding_waste [configuration ...] [--batch_size 32 128] [--epochs 20] [--write]

Capacities are chosen as in training, from batches of the first epochs; the waste is that of the batches of others
(1: as many padding nodes as real ones). ``beyond`` are batches that fit no capacity and are trained step by step;
``evaluation`` is the waste of validation and test. ``--write`` writes docs/padding-waste.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphbench import atomic
from graphbench.command_line import CommandParser
from graphbench.config import load_config
from graphbench.data.loading.loader import GraphLoaders
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.store import GraphStore
from graphbench.factory.data import read_data
from graphbench.preflight import check
from graphbench.run_inputs import run_inputs
from graphbench.structures import BatchPlan

CONFIGURATIONS = ("gnnbench/gps-zinc", "lrgb/gps-peptides-func", "ogb/gps-molhiv", "tu/gradformer-nci1")
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "padding-waste.md"


@dataclass
class Waste:
    """What some batches hold, and what they have room for."""

    batches: int = 0
    beyond: int = 0
    nodes: int = 0
    edges: int = 0
    room_for_nodes: int = 0
    room_for_edges: int = 0

    def add(self, plans: Iterable[BatchPlan], store: GraphStore) -> Waste:
        """Counts some batches."""
        sizes, edges = store.sizes.numpy(), store.edge_counts.numpy()
        for plan in plans:
            assert plan.graphs is not None
            self.batches += 1
            if plan.capacity is None:
                self.beyond += 1
                continue
            self.nodes += int(sizes[plan.graphs].sum())
            self.edges += int(edges[plan.graphs].sum())
            self.room_for_nodes += plan.capacity.nodes
            self.room_for_edges += plan.capacity.edges
        return self

    @property
    def of_nodes(self) -> float:
        """Padding nodes per real node."""
        return self.room_for_nodes / self.nodes - 1 if self.nodes else 0.0

    @property
    def of_edges(self) -> float:
        """Padding edges per real edge."""
        return self.room_for_edges / self.edges - 1 if self.edges else 0.0


def measured(name: str, batch_sizes: Sequence[int], epochs: int) -> list[str]:
    """Rows of the table for one configuration."""
    with tempfile.TemporaryDirectory() as out_dir:
        config = load_config(ROOT / "configs" / f"{name}.yaml", ["out_dir", out_dir, "accelerator", "cpu"])
        checked = check(config)
        loaded = read_data(checked.config)
        splits = run_inputs(checked.config, loaded, checked.runs[0]).splits
    rows = []
    for batch_size in batch_sizes or [config.tree.train.batch_size]:
        loaders = GraphLoaders(loaded.store, splits, LoaderProcess(0), batch_size=batch_size, transductive=False)
        training, evaluation = Waste(), Waste()
        sampled = 1 + 2000 // loaders.num_train_batches  # epochs that capacities were chosen from
        for epoch in range(sampled, sampled + epochs):
            training.add(loaders.train_plans(epoch), loaded.store)
        for each in loaders.passes:
            if "train" not in each.rows and each.plans is not None:
                evaluation.add(each.plans(), loaded.store)
        rows.append(
            f"| {loaded.card.name} | {batch_size} | {training.of_nodes:.1%} | {training.of_edges:.1%} | "
            f"{training.beyond} of {training.batches} | {evaluation.of_nodes:.1%} |"
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measures, prints, and writes the page if asked to."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("configurations", nargs="*", metavar="configuration", help="relative to configs/")
    parser.add_argument("--batch_size", type=int, nargs="+", default=[32, 128], help="graphs per batch")
    parser.add_argument("--epochs", type=int, default=20, help="epochs whose batches are counted")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    names = arguments.configurations or CONFIGURATIONS
    rows = [row for name in names for row in measured(name, arguments.batch_size, arguments.epochs)]
    if arguments.write:
        atomic.write_text(PAGE, page(rows, names, arguments.batch_size, arguments.epochs))


def page(rows: Sequence[str], names: Sequence[str], batch_sizes: Sequence[int], epochs: int) -> str:
    """The page in docs/."""
    command = f"python -m scripts.padding_waste {' '.join(names)} --batch_size {' '.join(map(str, batch_sizes))}"
    return "\n".join(
        [
            "# Padding of captured steps",
            "",
            "Nodes and edges of padding per real one, with four capacities per split, counted on the data sets in the",
            f"batches of {epochs} epochs that the capacities were not chosen from. `beyond`: batches that fit none and",
            "are trained step by step. `evaluation`: nodes in validation and test.",
            "",
            "| data set | graphs per batch | nodes | edges | beyond | evaluation |",
            "|---|--:|--:|--:|--:|--:|",
            *rows,
            "",
            f"Written by `{command} --epochs {epochs} --write`.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
