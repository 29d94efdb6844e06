"""One Erdos-Renyi graph of any size, for measuring how time and memory grow with the number of nodes."""

from __future__ import annotations

import numpy as np
import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.roots import Roots
from graphbench.data.generators import erdos_renyi
from graphbench.data.single_graph import RANDOM_MODES, NodeFacts, node_card, node_store
from graphbench.data.splits import Splits
from graphbench.errors import check_at_least
from graphbench.registry import FromContext, register

_EDGES, _FEATURES, _CLASSES, _SPLIT = range(4)
_PIECE = 2**20


@register("ErdosRenyi")
class ErdosRenyi(DatasetBuilder):
    """Random graph G(N, degree / N) with normal features and uniform classes, for measurements of time and memory.

    Paper: A Scalable and Effective Alternative to Graph Transformers (GECO), https://arxiv.org/abs/2406.12059, Table
    10: N = 512, 1024, ... up to 2,097,152 (``nodes``), p = 10 / N and 108 features, which are the defaults. A graph of
    2,097,152 nodes has 21 million directed edges; drawing them takes seconds and 1 GiB, features 0.9 GiB.

    Args:
        name: ``none``: there is one such graph.
        nodes: N.
        degree: N p, the mean degree is (N - 1) p.
        features: columns, independent standard normal numbers.
        classes: number of classes, each equally likely at every node.
        seed: seed of the data set; independent of the seed of the run, so that repeats see the same graph.
    """

    names = ("none", "ErdosRenyi")
    published_files = False

    def __init__(
        self,
        name: FromContext[str] = "none",
        *,
        nodes: int = 512,
        degree: float = 10.0,
        features: int = 108,
        classes: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__(name)
        if nodes < 4 or nodes >= 2**31:
            raise ValueError(f"nodes must lie in 4 .. 2^31 - 1, received {nodes}")
        if not 0 <= degree <= nodes:
            raise ValueError(f"degree must lie in 0 .. {nodes} (N), received {degree}")
        check_at_least(1, features=features)
        check_at_least(2, classes=classes)
        check_at_least(0, seed=seed)
        self.nodes = nodes
        self.degree = degree
        self.features = features
        self.classes = classes
        self.seed = seed

    @property
    def card(self) -> DatasetCard:
        """Declared facts; the number of edges is random and therefore not stated."""
        return node_card(
            f"ErdosRenyi-{self.nodes}",
            NodeFacts(self.nodes, 0, self.features, self.classes),
            split_modes=("standard", *RANDOM_MODES),
            split_counts={"standard": 1},
            statistics={"graphs": 1, "nodes": self.nodes},
            licence="generated, none needed",
            source="https://arxiv.org/abs/2406.12059",
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Draws the graph; nothing is read or written. ``standard`` is one split of 50/25/25 %, drawn with it."""
        edge_index = torch.from_numpy(erdos_renyi(self.nodes, self.degree / self.nodes, self._stream(_EDGES)))
        x = np.empty((self.nodes, self.features), dtype=np.float32)
        rng = self._stream(_FEATURES)
        for first in range(0, self.nodes, _PIECE):
            rng.standard_normal(out=x[first : first + _PIECE], dtype=np.float32)
        y = self._stream(_CLASSES).integers(0, self.classes, self.nodes)
        store = node_store(x, edge_index, y)
        card = self.card
        card.check(store)
        order = self._stream(_SPLIT).permutation(self.nodes)
        half, three_quarters = self.nodes // 2, self.nodes // 2 + self.nodes // 4
        split = Splits.of(order[:half], order[half:three_quarters], order[three_quarters:])
        return LoadedDataset(store, card, {"standard": (split,)})

    def _stream(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, purpose])
