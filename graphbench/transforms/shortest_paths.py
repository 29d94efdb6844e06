"""Hop distances of all pairs of nodes, by one breadth-first search from every node."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.structures.pairs import LONGEST
from graphbench.transforms.algorithms.bit_search import all_hops
from graphbench.transforms.base import Level, Transform


@register("ShortestPaths")
class ShortestPaths(Transform):
    r"""Length of a shortest path from every node to every node of its graph.

    .. math:: d_{ij} = \min \{ k : (A^k)_{ij} > 0 \}, \qquad d_{ii} = 0

    A: adjacency as stored; a directed edge is walked from source to target only.

    Args:
        cutoff: pairs further apart count as unreachable, 1 .. 253.

    Returns:
        ``distance`` (sum n_g^2,) uint8, row i and column j of a graph the hops from i to j, 255 = unreachable.

    Raises:
        ValueError: the cut-off is out of range.
        UserError: there are too many pairs, see :data:`graphbench.transforms.algorithms.all_pairs.LIMIT`.
    """

    version: ClassVar[int] = 2
    outputs: ClassVar[tuple[str, ...]] = ("distance",)
    level: Level = "pair"

    def __init__(self, cutoff: int = LONGEST) -> None:
        if not 1 <= cutoff <= LONGEST:
            raise ValueError(f"cutoff must lie in 1 .. {LONGEST}, received {cutoff}")
        self.cutoff = cutoff

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Measures all graphs of a store."""
        return {"distance": torch.from_numpy(all_hops(store, self.cutoff))}
