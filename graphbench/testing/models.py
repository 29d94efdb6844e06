"""The contract of models, for a class of your own: ``check_model(MyModel)`` in a test of yours."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.encoders.node.linear import LinearNode
from graphbench.heads.contract import Head
from graphbench.layers.contract import Attention, LocalLayer
from graphbench.layers.gps import GPSBlock, SubLayer
from graphbench.models.contract import Model
from graphbench.structures import GraphBatch
from graphbench.testing.checks import Subject, shaken
from graphbench.testing.examples import encoded, labelled
from graphbench.testing.graphs import Example, example_batch
from graphbench.testing.heads import LEVELS
from graphbench.testing.suite import check_module, of_one_output, require_kind

DIM, NODE_IN, EDGE_IN, OUT_DIM = 16, 4, 2, 3


def parts(
    head: str = "graph", local: str = "GINE", attention: str = "Transformer", *, edges: bool = True, dim_edge: int = DIM
) -> dict[str, Any]:
    """Parts of a small model of two layers, as :class:`~graphbench.models.contract.ModelContext` offers them.

    Args:
        head: name of the head.
        local: name of the local layer.
        attention: name of the attention.
        edges: whether an edge encoder supplies edge states.
        dim_edge: their width.
    """
    local_class, attention_class = (
        registry.lookup(registry.LOCAL_LAYERS, local),
        registry.lookup(registry.ATTENTIONS, attention),
    )

    def new_local(dim_in: int, dim_out: int) -> LocalLayer:
        return registry.construct(local_class, {"dim_in": dim_in, "dim_out": dim_out, "dim_edge": dim_edge})

    def new_attention() -> Attention:
        return registry.construct(attention_class, {"dim": DIM, "heads": 2})

    def new_head(width: int) -> Head:
        context = {"dim_in": width, "out_dim": OUT_DIM, "layers_post_mp": 1, "pooling": "mean"}
        return registry.construct(registry.lookup(registry.HEADS, head), context)

    return {
        "encoder": NodeEncoder(LinearNode(DIM, NODE_IN), {}, DIM, batch_norm=False),
        "dim_encoded": DIM,
        "edge_encoder": EdgeEncoder(LinearEdge(dim_edge, EDGE_IN), {}, dim_edge, batch_norm=False) if edges else None,
        "dim": DIM,
        "dim_edge": dim_edge,
        "layers": 2,
        "layers_pre_mp": 1,
        "block": lambda: GPSBlock(DIM, [new_local(DIM, DIM), new_attention()], norm="layer"),
        "local": new_local,
        "attention": new_attention,
        "head": new_head,
        "batchnorm": True,
        "dropout": 0.0,
        "act": "gelu",
    }


def check_model(
    component: type[Model],
    /,
    *,
    example: Example | None = None,
    context: Mapping[str, Any] | None = None,
    make: Callable[[], Model] | None = None,
    out_dim: int = OUT_DIM,
    **arguments: Any,
) -> list[str]:
    """Checks of a model, on random graphs.

    As of :func:`check_layer`, for predictions with a row for every graph, node or pair, as its head says. The order of
    nodes does not matter, unless a part of the model says that it does (``permutation_equivariant``); this is left out
    where edge sets have attributes, which may number nodes or edges.

    Args:
        component: the class, registered or not.
        example: makes the graphs in place of :func:`example_batch` with what ``required_transforms`` compute, called
            with ``sizes`` and ``edges``.
        context: parts of the model in place of :func:`parts`.
        make: makes the model, in place of the constructor with parts and arguments.
        out_dim: width of its predictions.
        arguments: of the constructor.

    Returns:
        Names of the checks.

    Raises:
        AssertionError: what fails, a line for each check.
        TypeError: no class of a model.
    """
    require_kind("check_model", component)
    graphs = example or example_of(component, **arguments)

    def new(**random: Any) -> Subject:
        changed = {**arguments, **random}
        return model_subject(make or functools.partial(new_model, component, context, **changed), graphs, out_dim)

    numbered = any(each.attr is not None for each in graphs().edge_sets.values())
    return check_module(component, new, graphs, numbered=numbered, finished=make is not None)


def new_model(component: type[Model], context: Mapping[str, Any] | None = None, **arguments: Any) -> Model:
    """A model of :func:`parts` and others."""
    return registry.construct(component, {**parts(), **(context or {}), **arguments})


def model_subject(make: Callable[[], Model], example: Example, out_dim: int = OUT_DIM) -> Subject:
    """A model in float64, its parameters moved away from special values.

    Args:
        make: makes the model.
        example: makes the graphs.
        out_dim: width of its predictions.
    """
    torch.manual_seed(0)
    model = shaken(make().double())
    head = next((each for each in model.modules() if isinstance(each, Head)), None)
    levels = LEVELS[head.predicts if head else None]
    subject = of_one_output("prediction", model, _call, example, out_dim, levels)
    left_out = [name for name, each in model.named_modules() if isinstance(each, SubLayer) and each.part is None]
    idle = (name for name, _ in model.named_parameters() if name.startswith(tuple(f"{each}." for each in left_out)))
    return dataclasses.replace(subject, idle=frozenset(idle))


def example_of(component: type[Model], **arguments: Any) -> Example:
    """Maker of graphs that have what a model requires."""
    declared = registry.parameters(component).values()
    defaults = {each.name: each.default for each in declared if each.default is not registry.UNSET}
    required = component.required_transforms({**defaults, **arguments})
    transforms = {
        name: registry.construct(registry.lookup(registry.TRANSFORMS, name), each) for name, each in required.items()
    }
    return encoded(
        labelled(functools.partial(example_batch, node_dim=NODE_IN, edge_dim=EDGE_IN, pairs=False)), transforms
    )


def _call(module: nn.Module, batch: GraphBatch) -> Tensor:
    prediction: Tensor = module(batch)
    return prediction
