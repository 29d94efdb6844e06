"""The contract of encoders, for a class of your own: ``check_encoder(DegreeSE)`` in a test of yours."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.encoders.contract import BatchEncoder, FeatureEncoder, PositionalEncoder
from graphbench.structures import GraphBatch
from graphbench.testing.checks import Level, Subject, number_of_rows, shaken
from graphbench.testing.examples import encoded
from graphbench.testing.graphs import SIZES, Example, example_batch
from graphbench.testing.suite import check_module, of_one_output, require_kind
from graphbench.transforms.base import Transform

DIM = 12
CONTEXT = {
    **{"dim": DIM, "dim_pe": DIM, "node_in": DIM, "edge_in": DIM, "num_types": 3, "edge_types": 0},
    **{"act": "gelu", "heads": 3, "max_nodes": 12, "input_dropout": 0.0, "use_graph_token": False},
}
"""Context of encoders in the checks, where arguments set nothing else."""

STATES = "states"
"""Name in ``batch.pe`` of the node states that a :class:`BatchEncoder` is handed."""

ROWS: tuple[Level, ...] = ("node", "edge", "pair")
"""Kinds of rows of the states that a :class:`BatchEncoder` leaves."""


def check_encoder(
    component: type[FeatureEncoder | PositionalEncoder],
    /,
    *,
    example: Example | None = None,
    context: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> list[str]:
    """Checks of a feature encoder or a positional encoder, on random graphs.

    As of :func:`check_layer`, for a row per node or edge, ``dim`` (``dim_pe``) columns wide; of a
    :class:`~graphbench.encoders.contract.BatchEncoder` also the state that it leaves for layers.

    Args:
        component: the class, registered or not.
        example: makes the graphs in place of :func:`example_batch`, called with ``sizes`` and ``edges``. Without it
            features are numbers, of an encoder that takes ``num_types`` categories, and encodings those of the
            encoder's ``transform``.
        context: values of a model, in place of :data:`CONTEXT`.
        arguments: of the constructor and of the transform.

    Returns:
        Names of the checks.

    Raises:
        AssertionError: what fails, a line for each check.
        TypeError: no class of an encoder.
    """
    require_kind("check_encoder", component)
    graphs = example or example_of(component, context=context, **arguments)
    if issubclass(component, BatchEncoder):
        graphs = with_states(graphs, _filled(context, arguments)["dim"])
    make = functools.partial(encoder_subject, component, example=graphs, context=context)
    return check_module(component, lambda **random: make(**{**arguments, **random}), graphs)


def encoder_subject(
    component: type[FeatureEncoder | PositionalEncoder],
    *,
    example: Example,
    context: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> Subject:
    """An encoder in float64, its parameters moved away from special values; arguments as of :func:`check_encoder`."""
    torch.manual_seed(0)
    filled = _filled(context, arguments)
    module = shaken(registry.construct(component, {**filled, **arguments}).double())
    if isinstance(module, BatchEncoder):
        return _of_states(module, example, filled["dim"])
    column = "dim" if issubclass(component, FeatureEncoder) else "dim_pe"
    width = {**filled, **arguments}[column] if column in registry.parameters(component) else None
    levels: Sequence[Level] = ("node", "edge") if issubclass(component, FeatureEncoder) else (component.level,)
    return of_one_output("encoding", module, lambda own, batch: own(batch), example, width, levels)


def example_of(
    component: type[FeatureEncoder | PositionalEncoder], *, context: Mapping[str, Any] | None = None, **arguments: Any
) -> Example:
    """Maker of graphs that have what an encoder reads, see :func:`check_encoder`."""
    filled = {**_filled(context, arguments), **arguments}
    types = (filled["num_types"],) if "num_types" in registry.parameters(component) else None
    edge_types = types or ((filled["edge_types"],) if filled["edge_types"] else None)
    graphs: Example = functools.partial(
        example_batch,
        node_dim=filled["node_in"],
        edge_dim=filled["edge_in"],
        node_types=types,
        edge_types=edge_types,
    )
    if issubclass(component, FeatureEncoder) or component.transform is None:
        return graphs
    transform: Transform = registry.construct(registry.lookup(registry.TRANSFORMS, component.transform), filled)
    return encoded(graphs, {component.registered_name or component.__name__: transform})


def _filled(context: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {**CONTEXT, **(arguments if context is None else context)}


def with_states(example: Example, dim: int) -> Example:
    """Maker of the graphs of another one with node states (N, dim), which :func:`_of_states` hands to the encoder."""

    def graphs(sizes: Iterable[int] = SIZES, *, edges: bool = True) -> GraphBatch:
        batch, generator = example(sizes, edges=edges), torch.Generator().manual_seed(0)
        states = torch.randn(batch.num_nodes, dim, generator=generator, dtype=torch.float64)
        return batch.replace(pe={**batch.pe, STATES: states})

    return graphs


def _call_on_states(module: nn.Module, batch: GraphBatch) -> dict[str, Tensor]:
    h, after = module(batch.pe[STATES], batch)
    return {"h": h, **dict(after.state.tensors())}


def _of_states(module: BatchEncoder, example: Example, dim: int) -> Subject:
    """The subject of an encoder that changes node states, and may leave states for layers or add a node to graphs."""
    batch, level = example(), dict[str, Level | None](h=None if module.adds_token else "node")
    with suppress(Exception):  # what cannot be called is told by the checks
        for name, value in _call_on_states(module, batch).items():
            rows = () if module.adds_token else ROWS
            level[name] = next((each for each in rows if number_of_rows(batch, each) == len(value)), level.get(name))
    return Subject(module, _call_on_states, level, {**dict.fromkeys(level), "h": (dim,)})
