"""Links of a graph as targets, and pairs of nodes that are none, drawn at random."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.data.stored_pairs import StoredEdges
from graphbench.errors import UserError

_SEED = 0
"""The pairs are those of the data set: the same in every run."""


def with_links_as_targets(store: GraphStore) -> GraphStore:
    """The graph whose targets are its own links (1), and as many pairs of nodes that are not linked (0).

    An edge that has its reverse is one link; a self loop is none. No pair is asked about twice, in either direction:
    one half could train, the other test. Neither the order of two linked nodes, where both directions are there, nor
    that of the pairs tells anything.

    Args:
        store: one graph.

    Raises:
        ValueError: several graphs, no link, or no pair that is none.
    """
    if store.num_graphs != 1:
        raise ValueError(
            f"{store.num_graphs} graphs ask about no pairs of nodes ('edge_label_index', with targets 'edge_label'); "
            "the links of one graph are its targets where it names none"
        )
    nodes, edge_index, rng = store.num_nodes, store.edge_index.numpy().astype(np.int64), np.random.default_rng(_SEED)
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    given = np.unique(source * nodes + target)
    once = given[(given < _turned(given, nodes)) | ~np.isin(_turned(given, nodes), given)]
    both = np.isin(_turned(once, nodes), given)
    unlinked = _unlinked_once(np.minimum(once, _turned(once, nodes)), nodes, len(once), rng)
    if not len(once) or not len(unlinked):
        raise ValueError("the graph has no links to predict" if not len(once) else "the graph links all pairs of nodes")
    code = np.concatenate([once, unlinked])
    may_turn = np.concatenate([both, np.ones(len(unlinked), dtype=bool)])
    code = np.where(may_turn & (rng.random(len(code)) < 0.5), _turned(code, nodes), code)
    order = rng.permutation(len(code))
    index = torch.from_numpy(np.stack([code // nodes, code % nodes])[:, order].astype(np.int32))
    return store.replace(
        y=torch.from_numpy((order < len(once)).astype(np.int64)),
        y_level="pair",
        edge_sets={"label": StoredEdges(torch.tensor([0, len(code)]), index)},
    )


def _turned(code: np.ndarray, nodes: int) -> np.ndarray:
    """Pairs u * nodes + v with their ends exchanged, v * nodes + u."""
    return code % nodes * nodes + code // nodes


def _unlinked_once(linked: np.ndarray, nodes: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """(at most count,) pairs u * nodes + v, u < v, that are not linked, each once, uniformly; all, if there are fewer.

    Args:
        linked: pairs in the same form, each once.
        nodes: number of nodes.
        count: number of pairs wanted.
        rng: source of randomness.
    """
    available = nodes * (nodes - 1) // 2 - len(linked)
    if available <= 2 * count:  # a graph so dense that listing all of its pairs is no more than its edges
        first, second = np.triu_indices(nodes, 1)
        return rng.permutation(np.setdiff1d(first * nodes + second, linked))[:count]
    found = np.zeros(0, dtype=np.int64)
    while len(found) < count:
        ends = rng.integers(nodes, size=(2, 2 * (count - len(found)) + 8))
        code = ends.min(0) * nodes + ends.max(0)
        code = code[(ends[0] != ends[1]) & ~np.isin(code, linked)]
        _, first = np.unique(np.concatenate([found, code]), return_index=True)
        found = np.concatenate([found, code])[np.sort(first)]
    return found[:count]


def other_targets(edge_index: Tensor, num_nodes: int, source: Tensor, rng: np.random.Generator) -> Tensor:
    """(P,) for every source a uniform node that is neither itself nor one that it has an edge to.

    Args:
        edge_index: (2, E) edges.
        num_nodes: nodes of the graph.
        source: (P,) nodes.
        rng: source of randomness.

    Raises:
        UserError: a node has an edge to every other one.
    """
    linked = np.sort((edge_index[0] * num_nodes + edge_index[1]).numpy())
    out_degree = torch.bincount(edge_index[0], minlength=num_nodes)
    if len(source) and int(out_degree[source].max()) >= num_nodes - 1:
        raise UserError("a node is linked with every other one: there is no other target to draw for it.")
    source_node = source.numpy()
    drawn = np.empty_like(source_node)
    missing = np.arange(len(source_node))
    while len(missing):
        drawn[missing] = rng.integers(num_nodes, size=len(missing))
        code = source_node[missing] * num_nodes + drawn[missing]
        taken = drawn[missing] == source_node[missing]
        if len(linked):
            taken |= linked[np.searchsorted(linked, code).clip(max=len(linked) - 1)] == code
        missing = missing[taken]
    return torch.from_numpy(drawn)


def unlinked_pairs(edge_index: Tensor, num_nodes: int, count: int, rng: np.random.Generator) -> Tensor:
    """(2, count) pairs of different nodes, uniform over the pairs with no edge between them, repetitions possible.

    Args:
        edge_index: (2, E) edges; no pair is drawn that is one, in this direction.
        num_nodes: nodes of the graph.
        count: number of pairs.
        rng: source of randomness.

    Raises:
        UserError: the graph has an edge between any two nodes.
    """
    linked = np.unique((edge_index[0] * num_nodes + edge_index[1]).numpy())
    if len(linked) >= num_nodes * (num_nodes - 1):
        raise UserError(f"all {num_nodes} nodes are linked with each other: there are no unlinked pairs to draw.")
    kept: list[np.ndarray] = []
    missing = count
    while missing:
        code = rng.integers(num_nodes * num_nodes, size=missing)
        position = np.searchsorted(linked, code).clip(max=max(len(linked) - 1, 0))
        free = code // num_nodes != code % num_nodes
        if len(linked):
            free &= linked[position] != code
        kept.append(code[free])
        missing -= int(free.sum())
    pairs = np.concatenate(kept) if kept else np.empty(0, dtype=np.int64)
    return torch.from_numpy(np.stack([pairs // num_nodes, pairs % num_nodes]))
