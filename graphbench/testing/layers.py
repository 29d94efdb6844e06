"""The contract of layers, for a class of your own: ``check_layer(MyAttention)`` in a test of yours."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.layers.contract import Attention, GraphLayer
from graphbench.structures import GraphBatch
from graphbench.testing.checks import Subject, shaken
from graphbench.testing.graphs import Example, example_batch
from graphbench.testing.suite import check_module, module_checks, require_kind

DIM = 12
CONTEXT = {
    "dim": DIM,
    "heads": 3,
    "max_nodes": 12,
    "act": "gelu",
    "dropout": 0.0,
}
"""Context of layers in the checks, where arguments set nothing else."""


def layer_subject(
    component: type[GraphLayer], *, context: Mapping[str, Any] | None = None, **arguments: Any
) -> Subject:
    """A layer made as the model makes it, in float64, its parameters moved away from special values.

    Args:
        component: the class, registered or not.
        context: as of :func:`check_layer`.
        arguments: of its constructor; the others come from the context or are defaults.
    """
    torch.manual_seed(0)
    filled = _filled(context, arguments)
    module = shaken(registry.construct(component, {**filled, **arguments}).double())
    if issubclass(component, Attention):
        return Subject(module, _call_attention, {"h": "node"}, {"h": filled["dim"]})
    width = {"h": filled["dim_out"], "e": module.dim_edge_out or filled["dim_edge"]}
    return Subject(module, call_local, {"h": "node", "e": "edge"}, width)


def _filled(context: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of :data:`CONTEXT` and all widths, which are ``dim`` where nobody says another."""
    given = {**CONTEXT, **(arguments if context is None else context)}
    return {**dict.fromkeys(("dim_in", "dim_out", "dim_edge"), given["dim"]), **given}


def _call_attention(module: nn.Module, batch: GraphBatch) -> dict[str, Tensor]:
    h = module(batch.x, batch.edge_attr, batch)
    return {"h": h[0] if isinstance(h, tuple) else h}


def call_local(module: nn.Module, batch: GraphBatch) -> dict[str, Tensor]:
    """Outputs of a local layer or a block."""
    h, e, *_ = module(batch.x, batch.edge_attr, batch)
    return {"h": h, "e": e}


def layer_checks(component: type[GraphLayer]) -> list[str]:
    """Names of the checks of :func:`check_layer` that a class has to pass, from what it says of itself."""
    return module_checks(component, equivariant=component.permutation_equivariant)


def check_layer(
    component: type[GraphLayer],
    /,
    *,
    example: Example | None = None,
    context: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> list[str]:
    """Checks of an attention, a local layer or a block, on random graphs.

    Shapes; graphs of a batch do not change each other's outputs; node numbers do not matter (unless
    ``permutation_equivariant`` is False); gradients reach every parameter; the batch is left as it was; the state_dict
    has all state; one seed gives one result; no graphs, empty graphs, one node and no edges are fine; dropout acts in
    training only.

    Args:
        component: the class, registered or not.
        example: makes the graphs in place of :func:`~graphbench.testing.example_batch`, called as that with ``sizes``
            and ``edges``, for a layer that reads what those lack (``pair_pe``, ``edge_sets``).
        context: widths, heads and other values of a model, in place of :data:`CONTEXT`; None: those of the arguments
            count, so that ``dim=64`` is the width of the graphs, too.
        arguments: of the constructor.

    Returns:
        Names of the checks.

    Raises:
        AssertionError: what fails, a line for each check.
        TypeError: no class of a layer.
    """
    require_kind("check_layer", component)
    filled = _filled(context, arguments)
    graphs = example or functools.partial(example_batch, node_dim=filled["dim_in"], edge_dim=filled["dim_edge"])
    make = functools.partial(layer_subject, component, context=context)
    return check_module(component, lambda **random: make(**{**arguments, **random}), graphs)
