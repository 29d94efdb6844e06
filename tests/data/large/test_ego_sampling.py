"""Ego graphs of ShaDow in distribution, against the definition of PyG's sampler (which needs torch-sparse)."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from math import prod

import numpy as np
import pytest
import torch

from graphbench.data.large.ego_sampling import EgoSampler
from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.neighbor_sampling import NeighborSampler

NEIGHBOURS = {0: [1, 2, 3], 1: [0, 2], 2: [0, 3, 4, 5], 3: [2], 4: [0, 1, 5], 5: []}


def _all_node_sets(frontier, sizes, reached):
    """Sets of nodes with their probabilities: hop by hop in-neighbours of what was new, without replacement."""
    if not sizes or not frontier:
        return {frozenset(reached): 1.0}
    choices = [list(combinations(NEIGHBOURS[node], min(sizes[0], len(NEIGHBOURS[node])))) for node in frontier]
    found = Counter()
    for drawn in product(*choices):
        new = set().union(*drawn) - reached
        for nodes, probability in _all_node_sets(sorted(new), sizes[1:], reached | new).items():
            found[nodes] += probability / prod(map(len, choices))
    return found


@pytest.mark.parametrize("roots", [(0,), (4, 0)])
def test_nodes_have_the_distribution_of_pygs_sampler(roots):
    """Chi-square over all node sets of two hops; ten standard deviations above its mean at a fixed seed."""
    edges = torch.tensor([(s, t) for t, sources in NEIGHBOURS.items() for s in sources]).T
    sampler = EgoSampler(NeighborSampler(IncomingEdges.of(edges, 6, numbered=False), [2, 2]))
    expected, draws = _all_node_sets(list(roots), [2, 2], set(roots)), 4_000
    assert sum(expected.values()) == pytest.approx(1)
    egos = sampler(np.tile(roots, (draws, 1)), np.random.default_rng(0))
    found = Counter(map(frozenset, np.split(egos.nodes, np.cumsum(egos.sizes)[:-1])))
    assert set(found) <= set(expected)
    chi_square = sum((found[nodes] - draws * p) ** 2 / (draws * p) for nodes, p in expected.items())
    freedom = len(expected) - 1
    assert chi_square < freedom + 10 * (2 * freedom) ** 0.5
    assert np.array_equal(egos.nodes[egos.roots], np.tile(roots, (draws, 1)))


def test_equal_roots_are_one_node():
    edges = torch.tensor([(s, t) for t, sources in NEIGHBOURS.items() for s in sources]).T
    sampler = EgoSampler(NeighborSampler(IncomingEdges.of(edges, 6, numbered=False), [-1]))
    egos = sampler(np.array([[3, 3], [5, 2]]), np.random.default_rng(0))
    assert egos.sizes.tolist() == [2, 5]
    assert egos.roots.tolist() == [[0, 0], [2, 3]]
    assert egos.nodes.tolist() == [3, 2, 5, 2, 0, 3, 4]
    assert egos.counts.tolist() == [2, 9]
