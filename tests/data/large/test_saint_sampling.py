"""GraphSAINT's draws against their probabilities, computed by enumeration; no bound below six standard deviations."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
import torch

from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.induced import InducedSubgraph
from graphbench.data.large.saint_sampling import Frequencies, RandomEdges, RandomNodes, RandomWalks

# A triangle with a tail, a pair apart, and a node without edges: undirected.
PAIRS = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (5, 6)]
NODES = 8
EDGES = sorted([*PAIRS, *((t, s) for s, t in PAIRS)])
NEIGHBOURS = {node: [t for s, t in EDGES if s == node] for node in range(NODES)}
SIZE, DRAWS = 2, 6_000


@pytest.fixture(scope="module")
def incoming():
    return IncomingEdges.of(torch.tensor(EDGES).T, NODES, numbered=False)


def _single_node():
    return {frozenset([node]): len(NEIGHBOURS[node]) / len(EDGES) for node in range(NODES) if NEIGHBOURS[node]}


def _single_edge():
    weight = {frozenset(pair): 1 / len(NEIGHBOURS[pair[0]]) + 1 / len(NEIGHBOURS[pair[1]]) for pair in PAIRS}
    return {pair: value / sum(weight.values()) for pair, value in weight.items()}


def _single_walk(length=2):
    walks = {(root,): 1 / NODES for root in range(NODES)}
    for _ in range(length):
        longer = defaultdict(float)
        for walk, probability in walks.items():
            for node in NEIGHBOURS[walk[-1]] or [walk[-1]]:
                longer[(*walk, node)] += probability / max(len(NEIGHBOURS[walk[-1]]), 1)
        walks = longer
    met = defaultdict(float)
    for walk, probability in walks.items():
        met[frozenset(walk)] += probability
    return met


CASES = pytest.mark.parametrize(
    ("make", "single"),
    [
        (lambda incoming: RandomNodes(incoming, SIZE), _single_node()),
        (lambda incoming: RandomEdges(incoming, SIZE), _single_edge()),
        (lambda incoming: RandomWalks(incoming, SIZE, 2), _single_walk()),
    ],
    ids=["saint_node", "saint_edge", "saint_rw"],
)


def _subsets(single):
    """Probability of every set of nodes after SIZE draws with replacement."""
    sets = defaultdict(float)
    for drawn in product(single.items(), repeat=SIZE):
        sets[frozenset().union(*(nodes for nodes, _ in drawn))] += float(np.prod([p for _, p in drawn]))
    return sets


@CASES
def test_sets_of_nodes_have_the_probabilities_of_the_paper(make, single, incoming):
    expected = _subsets(single)
    assert sum(expected.values()) == pytest.approx(1)
    draw, rng, found = make(incoming), np.random.default_rng(0), defaultdict(int)
    for _ in range(DRAWS):
        nodes = draw(rng)
        assert (np.diff(nodes) > 0).all()
        found[frozenset(nodes.tolist())] += 1
    assert set(found) <= set(expected)
    for nodes, probability in expected.items():
        deviation = (DRAWS * probability * (1 - probability)) ** 0.5
        assert abs(found[nodes] - DRAWS * probability) <= 6 * deviation + 6


@CASES
def test_counts_estimate_the_probabilities(make, single, incoming):
    """Of nodes, and of edges given their target; the relative error of a count C is of the order 1 / sqrt(C)."""
    sets = _subsets(single)
    coverage = 1000
    counted = Frequencies.counted(
        make(incoming), InducedSubgraph(incoming), len(EDGES), NODES, coverage, np.random.default_rng(1)
    )
    assert int(counted.node.sum()) >= coverage * NODES
    for node in range(NODES):
        probability = sum(p for nodes, p in sets.items() if node in nodes)
        if probability:
            weight = counted.node_weight(np.array([node]))[0]
            assert weight * probability == pytest.approx(1, abs=6 * counted.node[node] ** -0.5)
    for entry, source in enumerate(incoming.source.tolist()):
        target = int(torch.searchsorted(incoming.ptr, entry, right=True)) - 1
        both = sum(p for nodes, p in sets.items() if {source, target} <= nodes)
        given = both / sum(p for nodes, p in sets.items() if target in nodes)
        weight = counted.edge_weight(np.array([target]), np.array([entry]))[0]
        assert weight * given == pytest.approx(1, abs=6 * counted.edge[entry] ** -0.5)


def test_what_was_never_met_has_a_finite_weight():
    counted = Frequencies(3, np.array([2, 0], dtype=np.int32), np.array([0, 2], dtype=np.int32))
    assert counted.node_weight(np.array([0, 1])).tolist() == [4 / 3, 4]
    assert counted.edge_weight(np.array([0, 1]), np.array([0, 1])).tolist() == [3, 1 / 3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda incoming: RandomNodes(incoming, 0), "train.batch_size must be at least 1, received 0"),
        (lambda incoming: RandomWalks(incoming, 1, 0), "train.walk_length must be at least 1, received 0"),
    ],
)
def test_what_is_refused(make, message, incoming):
    with pytest.raises(ValueError, match=message):
        make(incoming)


def test_a_graph_without_edges_is_refused():
    empty = IncomingEdges.of(torch.empty(2, 0, dtype=torch.int64), 3, numbered=False)
    with pytest.raises(ValueError, match="GraphSAINT draws along edges; this graph has none"):
        RandomEdges(empty, 1)


def test_an_induced_subgraph_has_all_edges_inside(incoming):
    induced = InducedSubgraph(incoming)
    for nodes in ([2, 0, 1], [7], [4, 3, 2, 7, 5], []):
        cut = induced(np.array(nodes, dtype=np.int64))
        ends = sorted((nodes[s], nodes[t]) for s, t in cut.edge_index.T.tolist())
        assert ends == [(s, t) for s, t in EDGES if s in nodes and t in nodes]
        assert incoming.source[torch.from_numpy(cut.entries)].tolist() == [nodes[s] for s in cut.edge_index[0]]
