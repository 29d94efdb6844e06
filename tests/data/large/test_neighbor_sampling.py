"""Sampled neighbourhoods against the definition, one node at a time."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from math import prod

import numpy as np
import pytest
import torch

from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.neighbor_sampling import NeighborSampler, _choose
from tests.data.large.large_graphs import one_graph


@pytest.fixture(scope="module")
def graph():
    store = one_graph()
    incoming = IncomingEdges.of(store.edge_index, store.num_nodes, numbered=True)
    return store.edge_index.T.tolist(), incoming


@pytest.mark.parametrize("sizes", [[], [3], [4, 2], [-1, 2, 3], [-1, -1], [1000]])
def test_a_sample_obeys_its_definition(graph, sizes):
    edges, incoming = graph
    seeds = np.array([7, 0, 59, 30])
    sampler = NeighborSampler(incoming, sizes)
    sample = sampler(seeds, np.random.default_rng(0))
    nodes = sample.nodes.tolist()
    assert nodes[:4] == seeds.tolist()
    assert len(set(nodes)) == len(nodes)
    # Every sampled edge is that edge of the graph, and none is taken twice.
    numbers = incoming.edge.numpy()[sample.entries].tolist()
    assert len(set(numbers)) == len(numbers)
    ends = [[nodes[s], nodes[t]] for s, t in sample.edge_index.T.tolist()]
    assert ends == [edges[number] for number in numbers]
    # Hop by hop: what was reached last has min(size, degree) in-edges, and what they add is reached next.
    by_target = Counter(t for _, t in ends)
    reached, frontier, order = set(nodes[:4]), nodes[:4], nodes[:4]
    for size in sizes:
        for node in frontier:
            degree = sum(t == node for _, t in edges)
            assert by_target.pop(node, 0) == (degree if size < 0 else min(size, degree))
        frontier = sorted({s for s, t in ends if t in set(frontier)} - reached)
        reached |= set(frontier)
        order = order + frontier
    assert not by_target
    assert order == nodes


def test_a_sampler_forgets_the_sample_before(graph):
    sampler = NeighborSampler(graph[1], [5, 5])
    first, _, again = (sampler(np.array([seed]), np.random.default_rng(seed)) for seed in (3, 0, 3))
    assert np.array_equal(first.nodes, again.nodes)
    assert np.array_equal(first.edge_index, again.edge_index)
    other = sampler(np.array([3]), np.random.default_rng(8))
    assert not np.array_equal(first.entries, other.entries)


def test_all_subsets_are_equally_likely():
    counts = np.repeat([5, 4], 40_000)
    chosen = np.sort(_choose(counts, 3, np.random.default_rng(0)), axis=1)
    for count, rows in ((5, chosen[:40_000]), (4, chosen[40_000:])):
        found = Counter(map(tuple, rows.tolist()))
        subsets = list(combinations(range(count), 3))
        assert set(found) == set(subsets)
        expected = 40_000 / len(subsets)
        assert max(abs(found[subset] - expected) for subset in subsets) < 5 * expected**0.5


def test_seeds_without_neighbours(graph):
    sample = NeighborSampler(graph[1], [3, 3])(np.array([58, 59]), np.random.default_rng(0))
    assert sample.nodes.tolist() == [58, 59]
    assert sample.edge_index.shape == (2, 0)


@pytest.mark.parametrize("sizes", [[3, 0], [-2]])
def test_bad_sizes(graph, sizes):
    with pytest.raises(ValueError, match=r"train.neighbor_sizes must list numbers of neighbours, 1 or more, or -1"):
        NeighborSampler(graph[1], sizes)


def _all_samples(neighbours, frontier, sizes, reached):
    """Sets of sampled edges of all hops with their probabilities, by the definition of PyG's NeighborLoader.

    Without replacement, not disjoint: a node is expanded once, by the size of the hop after the one that met it first.
    """
    if not sizes or not frontier:
        return {frozenset(): 1.0}
    choices = [list(combinations(neighbours[node], min(sizes[0], len(neighbours[node])))) for node in frontier]
    found = Counter()
    for drawn in product(*choices):
        edges = frozenset((s, t) for t, sources in zip(frontier, drawn) for s in sources)
        new = sorted({s for s, _ in edges} - reached)
        share = 1 / prod(map(len, choices))
        for rest, probability in _all_samples(neighbours, new, sizes[1:], reached | set(new)).items():
            found[edges | rest] += share * probability
    return found


def test_samples_have_the_distribution_of_pygs_loader():
    """Chi-square over all possible samples of two hops; ten standard deviations above its mean at a fixed seed."""
    neighbours = {0: [1, 2, 3], 1: [0, 2], 2: [0, 3, 4, 5], 3: [2], 4: [0, 1, 5], 5: []}
    edges = torch.tensor([(s, t) for t, sources in neighbours.items() for s in sources]).T
    sampler = NeighborSampler(IncomingEdges.of(edges, 6, numbered=False), [2, 2])
    expected = _all_samples(neighbours, [0, 4], [2, 2], {0, 4})
    assert sum(expected.values()) == pytest.approx(1)
    draws, rng, found = 4_000, np.random.default_rng(0), Counter()
    for _ in range(draws):
        sample = sampler(np.array([0, 4]), rng)
        nodes = sample.nodes.tolist()
        found[frozenset((nodes[s], nodes[t]) for s, t in sample.edge_index.T.tolist())] += 1
    assert set(found) <= set(expected)
    chi_square = sum((found[edges] - draws * p) ** 2 / (draws * p) for edges, p in expected.items())
    freedom = len(expected) - 1
    assert min(expected.values()) * draws > 5
    assert chi_square < freedom + 10 * (2 * freedom) ** 0.5
