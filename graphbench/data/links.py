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

    An edge that has its reverse is one link, asked about in one direction; a self loop is none.

    Args:
        store: one graph.

    Raises:
        ValueError: several graphs, or no link.
        UserError: the graph has an edge between any two nodes.
    """
    if store.num_graphs != 1:
        raise ValueError(
            f"{store.num_graphs} graphs ask about no pairs of nodes ('edge_label_index', with targets 'edge_label'); "
            "the links of one graph are its targets where it names none"
        )
    nodes, edge_index = store.num_nodes, store.edge_index.to(torch.int64)
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    code = (source * nodes + target).unique()
    reverse = code % nodes * nodes + code // nodes
    code = code[(code <= reverse) | ~torch.isin(reverse, code)]
    if not len(code):
        raise ValueError("the graph has no links to predict")
    taken = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    unlinked = unlinked_pairs(taken, nodes, len(code), np.random.default_rng(_SEED))
    index = torch.cat([torch.stack([code // nodes, code % nodes]), unlinked], dim=1)
    return store.replace(
        y=torch.tensor([1, 0]).repeat_interleave(len(code)),
        y_level="pair",
        edge_sets={"label": StoredEdges(torch.tensor([0, index.shape[1]]), index.to(torch.int32))},
    )


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
