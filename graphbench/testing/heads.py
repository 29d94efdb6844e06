"""The contract of heads, for a class of your own: ``check_head(MyHead)`` in a test of yours."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.heads.contract import Head, Row
from graphbench.structures import GraphBatch
from graphbench.testing.checks import Level, Subject, shaken
from graphbench.testing.examples import labelled
from graphbench.testing.graphs import Example, example_batch
from graphbench.testing.suite import check_module, of_one_output, require_kind

CONTEXT = {
    "dim_in": 12,
    "out_dim": 3,
    "layers_post_mp": 2,
    "pooling": "mean",
    "act": "gelu",
    "dropout": 0.0,
    "batchnorm": False,
    "decoding": "concat",
    "infer_link_label": "edge",
}
"""Context of heads in the checks, where arguments set nothing else."""

LEVELS: Mapping[Row | None, Sequence[Level]] = {
    "graph": ["graph"],
    "node": ["node"],
    "pair": ["label"],
    None: ["graph", "node", "label"],
}
"""Kinds of rows of a prediction, by what the head ``predicts``."""


def head_subject(
    component: type[Head],
    *,
    example: Example | None = None,
    context: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> Subject:
    """A head in float64 that is handed ``batch.x``, its parameters moved away from special values.

    Args:
        component: the class, registered or not.
        example: as of :func:`check_head`.
        context: as of :func:`check_head`.
        arguments: of its constructor; the others come from the context or are defaults.
    """
    torch.manual_seed(0)
    filled = _filled(context, arguments)
    module = shaken(registry.construct(component, {**filled, **arguments}).double())
    graphs, levels = example or _graphs(filled), LEVELS[component.predicts]
    return of_one_output("prediction", module, _call, graphs, filled["out_dim"], levels)


def check_head(
    component: type[Head],
    /,
    *,
    example: Example | None = None,
    context: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> list[str]:
    """Checks of a head, on random graphs with random node states.

    As of :func:`check_layer`, for predictions of what the head says that it ``predicts`` (a row for every graph, node
    or pair that is asked about, ``batch.edge_sets["label"]``), ``out_dim`` columns wide.

    Args:
        component: the class, registered or not.
        example: makes the graphs, called with ``sizes`` and ``edges``; ``x`` are the node states (N, dim_in).
        context: values of a model, in place of :data:`CONTEXT`.
        arguments: of the constructor.

    Returns:
        Names of the checks.

    Raises:
        AssertionError: what fails, a line for each check.
        TypeError: no class of a head.
    """
    require_kind("check_head", component)
    graphs = example or _graphs(_filled(context, arguments))
    make = functools.partial(head_subject, component, example=graphs, context=context)
    return check_module(component, lambda **random: make(**{**arguments, **random}), graphs)


def _filled(context: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {**CONTEXT, **(arguments if context is None else context)}


def _graphs(filled: Mapping[str, Any]) -> Example:
    return labelled(functools.partial(example_batch, node_dim=filled["dim_in"]))


def _call(module: nn.Module, batch: GraphBatch) -> Tensor:
    prediction: Tensor = module(batch.x, batch)
    return prediction
