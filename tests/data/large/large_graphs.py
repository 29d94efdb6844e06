"""Small graphs that stand for large ones."""

from __future__ import annotations

import numpy as np
import torch

from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore


def one_graph(nodes: int = 60, edges: int = 400, *, attributes: bool = True, seed: int = 0) -> GraphStore:
    """One directed graph with hubs, self loops, double edges and isolated nodes; features name their node and edge."""
    rng = np.random.default_rng(seed)
    # Squares of uniform numbers: small numbers are hubs; the last five nodes have no edges.
    ends = ((nodes - 5) * rng.random((2, edges)) ** 2).astype(np.int64)
    ends[:, :3] = [[1, 1, 4], [2, 2, 4]]
    return GraphStore.from_arrays(
        [nodes],
        [edges],
        ends,
        x=np.stack([np.arange(nodes), rng.standard_normal(nodes)], axis=1).astype(np.float32),
        edge_attr=np.arange(edges, dtype=np.float32)[:, None] if attributes else None,
        y=np.arange(nodes) % 3,
        y_level="node",
    ).with_encodings(
        pe={"PE.values": torch.arange(nodes, dtype=torch.float32)[:, None] / 7},
        edge_pe={"EPE.values": torch.arange(edges, dtype=torch.float32)[:, None] / 7} if attributes else {},
    )


def split_of(store: GraphStore, seed: int = 0) -> Splits:
    """Half, a quarter, a quarter."""
    order = np.random.default_rng(seed).permutation(store.num_nodes)
    half, quarter = store.num_nodes // 2, store.num_nodes // 4
    return Splits.of(order[:half], order[half : half + quarter], order[half + quarter :])
