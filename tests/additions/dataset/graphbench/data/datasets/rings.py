"""Rings: cycles of random lengths, to be told apart by parity."""

from __future__ import annotations

import numpy as np
import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.roots import Roots
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.registry import FromContext, register


@register("Rings")
class Rings(DatasetBuilder):
    """Cycles of 3 to ``longest`` nodes; the class is the parity of the length.

    Splits: ``standard``, 60/20/20 % of the graphs.

    Args:
        name: ``none``: there is one such set.
        graphs: number of cycles.
        longest: largest length.
        seed: of the data set.
    """

    names = ("none",)

    def __init__(self, name: FromContext[str] = "none", *, graphs: int = 100, longest: int = 12, seed: int = 0) -> None:
        super().__init__(name)
        self.graphs = graphs
        self.longest = longest
        self.seed = seed

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        return DatasetCard(
            name="Rings",
            task="graph",
            task_type="classification",
            metric="accuracy",
            maximize=True,
            node_in=1,
            edge_in=0,
            out_dim=1,
            split_modes=("standard", "random"),
            statistics={"graphs": self.graphs},
            licence="generated here",
            source="tests/additions",
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Draws the lengths; nothing is read or written."""
        sizes = np.random.default_rng(self.seed).integers(3, self.longest + 1, self.graphs)
        edges = [np.stack([np.arange(size), (np.arange(size) + 1) % size]) for size in sizes]
        both = np.concatenate([np.concatenate([edge, edge[::-1]], axis=1) for edge in edges], axis=1)
        x = torch.ones(int(sizes.sum()), 1)
        store = GraphStore.from_arrays(sizes, 2 * sizes, both, x=x, y=torch.from_numpy(sizes % 2))
        self.card.check(store)
        train, val = int(0.6 * self.graphs), int(0.2 * self.graphs)
        return LoadedDataset(
            store, self.card, {"standard": (Splits.consecutive((train, val, self.graphs - train - val)),)}
        )
