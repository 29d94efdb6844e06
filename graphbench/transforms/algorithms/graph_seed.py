"""Seed of what is drawn for a graph: a function of the graph alone, so that its place in a list decides nothing."""

from __future__ import annotations

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def graph_seed(edges: np.ndarray, num_nodes: int) -> int:
    """A number below 2^63 that depends on the nodes and the edges of a graph, not on the order of the edges.

    Args:
        edges: (2, E), node numbers inside the graph.
        num_nodes: number of its nodes.
    """
    source, target = edges.astype(np.uint64)
    pairs = source << np.uint64(32) | target
    total = _mixed(pairs).sum(dtype=np.uint64) + np.uint64(num_nodes)
    return int(_mixed(np.array([total]))[0] >> np.uint64(1))


def _mixed(values: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser (Steele, Lea, Flood, 2014): a bijection of 64 bits without visible structure."""
    z = values + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = z ^ (z >> np.uint64(31))
    return mixed
