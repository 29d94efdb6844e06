"""The contract of transforms, for a class of your own: ``check_transform(InDegree)`` in a test of yours."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphbench import registry
from graphbench.data.store import GraphStore
from graphbench.structures import GraphBatch
from graphbench.testing.checks import require, same
from graphbench.testing.examples import store_of
from graphbench.testing.graphs import Example, alone, example_batch, tensors_of
from graphbench.testing.suite import require_kind, run_checks
from graphbench.transforms.algorithms.cache import compute, describe, with_outputs
from graphbench.transforms.base import Transform

SIZES = (5, 1, 8, 5, 0)
"""Nodes of the graphs: two of one size, which may be worked on together, an empty one, one of a node."""

GRAPHS: Example = functools.partial(
    example_batch, node_dim=4, edge_types=(3,), connected=True, pairs=False, dtype=torch.float32
)
"""In one piece, since those of more have eigenvectors that no two computations agree about."""


def check_transform(
    component: type[Transform],
    /,
    *,
    example: Example | None = None,
    context: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> list[str]:
    """Checks of a transform, on random graphs.

    A dict of the declared outputs with a row for every node (edge, pair) and finite numbers; the encodings of a graph
    are the same alone, among others and in another place (a mean over all graphs would hand test graphs to training);
    two calls give the same; the graphs are left as they were; empty graphs, one node and no edges are fine.

    Args:
        component: the class, registered or not.
        example: makes the graphs in place of :data:`GRAPHS`, called with ``sizes`` and ``edges``, for a transform that
            reads other features.
        context: values that a configuration fills.
        arguments: of the constructor.

    Returns:
        Names of the checks.

    Raises:
        AssertionError: what fails, a line for each check.
        TypeError: no class of a transform.
    """
    require_kind("check_transform", component)
    transform = registry.construct(component, {**(context or {}), **arguments})
    graphs = example or GRAPHS
    checks = {
        "outputs": lambda: check_declared(transform, graphs(SIZES)),
        "graph_independence": lambda: check_graph_independence(transform, graphs(SIZES)),
        "determinism": lambda: check_repeated(transform, graphs(SIZES)),
        "untouched": lambda: check_untouched_store(transform, graphs(SIZES)),
        "corner_cases": lambda: check_small_graphs(transform, graphs),
    }
    return run_checks(component, checks)


def check_declared(transform: Transform, batch: GraphBatch) -> None:
    """Arguments that can be written down, and outputs where the level says, with a row for each."""
    described = describe(transform)  # reads every argument from the attribute of its name
    json.dumps(described["arguments"])
    there = _encode(transform, store_of(batch)).gather(range(batch.num_graphs))
    found = {
        "node": there.pe,
        "edge": there.edge_pe,
        "pair": there.pairs or there.pair_pe,
        "edge_set": there.edge_sets,
        "hops": there.hops,
    }
    levels = [level for level, values in found.items() if values]
    require(levels == [transform.level], f"level is {transform.level!r}, the outputs are of {' and '.join(levels)}")


def check_graph_independence(transform: Transform, batch: GraphBatch) -> None:
    """A graph's encodings are the same alone, among others and in another order."""
    store = store_of(batch)
    encoded, number = _encode(transform, store), store.num_graphs
    order = list(range(number))[::-1]
    turned = _encode(transform, store_of(store.gather(order)))
    for graph in range(number):
        try:
            expected = _encodings(_encode(transform, store_of(alone(batch, graph))), 0)
        except ValueError as error:
            raise AssertionError(f"graph {graph} cannot be encoded without the others: {error}") from error
        for found, what in (
            (_encodings(encoded, graph), "other graphs, those of validation and test included"),
            (_encodings(turned, order.index(graph)), "its place in the data set"),
        ):
            for name, value in expected.items():
                differs = _difference(found[name], value)
                require(differs is None, f"{name} of graph {graph} depends on {what}: {differs}")


def check_repeated(transform: Transform, batch: GraphBatch) -> None:
    """Two calls give the same, bit for bit."""
    first, second = (transform(store_of(batch)) for _ in range(2))
    changed = [name for name, value in first.items() if not same(value, second[name])]
    require(not changed, f"a second call gives another {' and '.join(changed)}")


def check_untouched_store(transform: Transform, batch: GraphBatch) -> None:
    """The graphs are left as they were."""
    store = store_of(batch)
    before = {name: value.clone() for name, value in store.tensors().items()}
    transform(store)
    changed = [name for name, value in store.tensors().items() if not same(value, before[name])]
    require(not changed, f"{' and '.join(changed)} of the graphs was modified")


def check_small_graphs(transform: Transform, example: Example) -> None:
    """No graphs, empty graphs, one node, no edges: as many rows, and finite where they have to be."""
    for sizes, edges in (((), True), ((0,), True), ((1, 0, 2), True), ((1,), False), ((4, 3), False)):
        try:
            encoded = _encode(transform, store_of(example(sizes, edges=edges)))
            encoded.gather(range(len(sizes)))
        except Exception as error:
            raise AssertionError(f"graphs of {sizes} nodes, edges={edges}: {type(error).__name__}: {error}") from error


def _encode(transform: Transform, store: GraphStore) -> GraphStore:
    name = type(transform).__name__
    return with_outputs(store, {name: transform}, compute(store, {name: transform}))


def _encodings(store: GraphStore, graph: int) -> dict[str, Tensor]:
    """Outputs of a transform for one graph, by name."""
    given = ("edge_index", "x", "edge_attr", "y", "ragged.ptr")
    return {name: value for name, value in tensors_of(store.gather([graph])) if name not in given}


def _difference(value: Tensor, expected: Tensor) -> str | None:
    """Difference beyond rounding; None where there is none. Columns that other graphs have more of may be zeros."""
    value, expected = value.double(), expected.double()
    if value.dim() > 1 and value.shape[-1] > expected.shape[-1] and not value[..., expected.shape[-1] :].any():
        value = value[..., : expected.shape[-1]]
    if value.shape != expected.shape:
        return f"shape {tuple(value.shape)}, not {tuple(expected.shape)}"
    if torch.allclose(value, expected, rtol=1e-4, atol=1e-5, equal_nan=True):
        return None
    return f"difference {(value - expected).abs().nan_to_num().max().item():.1e}"
