"""Graphormer's encodings of pairs of nodes: hop distances, and edge types along shortest paths.

Paper: Do Transformers Really Perform Badly for Graph Representation?, https://arxiv.org/abs/2106.05234; conventions:
GraphGPS, https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.errors import ArgumentError
from graphbench.registry import FromContext, register
from graphbench.structures.pairs import LONGEST
from graphbench.transforms.algorithms.path_search import breadth_first, unreached
from graphbench.transforms.base import Input, Level, Transform


@register("GraphormerPaths")
class GraphormerPaths(Transform):
    """Distances of all pairs and the edge types along one shortest path between them.

    Args:
        num_spatial_types: D; paths are recorded up to their first D - 1 edges, 1 .. 253.
        num_in_degrees: in-degrees must be smaller.
        num_out_degrees: out-degrees must be smaller.
        node_degrees_only: check degrees and compute nothing.
        edge_types: size of the table of edge types; larger types are an error, 0 leaves the edges out. None: unknown.

    Returns:
        ``distance`` (sum n_g^2,) uint8 as of :class:`~graphbench.transforms.shortest_paths.ShortestPaths`, with 253
        for 253 hops and more. Where edges have types (one column of integers): ``edge_types`` (sum n_g^2, K), column
        k the type of the (k+1)-th edge on the path from i to j, 0 beyond its end; K is D - 1, or the length of the
        longest path. Of several shortest paths the one that ``networkx.shortest_path`` chooses; with several edges
        between two nodes their first.

    Raises:
        ValueError: a size is missing or out of range, or a degree or an edge type is too large.

    Differences from GraphGPS:
        Edge features other than one integer per edge, which it cannot read, take no part.
    """

    version: ClassVar[int] = 2
    outputs: ClassVar[tuple[str, ...]] = ("distance", "edge_types")
    reads: ClassVar[tuple[Input, ...]] = ("edge_index", "edge_attr")
    level: Level = "pair"

    def __init__(
        self,
        num_spatial_types: int | None = None,
        num_in_degrees: int | None = None,
        num_out_degrees: int | None = None,
        node_degrees_only: bool = False,
        edge_types: FromContext[int | None] = None,
    ) -> None:
        if not node_degrees_only and not 1 <= (num_spatial_types or 0) <= LONGEST:
            raise ValueError(f"num_spatial_types must lie in 1 .. {LONGEST}, received {num_spatial_types}")
        self.num_spatial_types = num_spatial_types
        self.num_in_degrees, self.num_out_degrees = num_in_degrees, num_out_degrees
        self.node_degrees_only, self.edge_types = node_degrees_only, edge_types

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Measures all graphs of a store."""
        self._check_degrees(store)
        if self.node_degrees_only:
            return {}
        assert self.num_spatial_types is not None
        distance, kept = unreached(store), self.num_spatial_types - 1
        types = types_of_edges(store) if self.edge_types != 0 else None
        if types is not None and self.edge_types is not None and types.max(initial=0) >= self.edge_types:
            raise ValueError(
                f"the edges have types up to {types.max()}, but the table of GraphormerBias has {self.edge_types} "
                "(dataset.edge_encoder_num_types)"
            )
        along = None if types is None else np.zeros((len(distance), kept), dtype=types.dtype)
        longest = 0
        for step in breadth_first(store):
            distance[step.pair] = min(step.hops, LONGEST)
            if types is not None and along is not None and step.hops:
                along[step.pair] = along[step.before]
                if step.hops <= kept:
                    along[step.pair, step.hops - 1] = types[step.edge]
                longest = max(longest, step.hops)
        outputs = {"distance": torch.from_numpy(distance)}
        if along is not None:
            outputs["edge_types"] = torch.from_numpy(np.ascontiguousarray(along[:, : min(kept, longest)]))
        return outputs

    def _check_degrees(self, store: GraphStore) -> None:
        """Refuses degrees outside the tables here, once, instead of in the middle of training."""
        first = np.repeat(store.node_ptr.numpy()[:-1], store.edge_counts.numpy())
        source, target = store.edge_index.numpy().astype(np.int64) + first
        # edges that repeat count once, as in GraphormerBias
        distinct = np.unique(source * store.num_nodes + target)
        ends = np.divmod(distinct, max(store.num_nodes, 1))
        limits = {"num_out_degrees": self.num_out_degrees, "num_in_degrees": self.num_in_degrees}
        for nodes, (name, limit) in zip(ends, limits.items(), strict=True):
            largest = int(np.bincount(nodes, minlength=1).max())
            if limit is not None and largest >= limit:
                raise ArgumentError(
                    name, f"{name} must be larger than every degree, the largest is {largest}, received {limit}"
                )


def types_of_edges(store: GraphStore) -> np.ndarray | None:
    """(E,) the type of every edge in the narrowest integers, None where edges have no types."""
    values = store.edge_attr
    if values is None or values.is_floating_point() or values.dtype == torch.bool or values[0:1].numel() > 1:
        return None
    types = values.reshape(-1).numpy()
    if len(types) and int(types.min()) < 0:
        raise ValueError(f"edge types must not be negative, received {int(types.min())}")
    return types.astype(np.min_scalar_type(max(int(types.max(initial=0)), 1)))
