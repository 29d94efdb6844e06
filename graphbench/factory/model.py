"""From configuration to model: encoders, layers, head."""

from __future__ import annotations

from typing import Any

from torch import nn

from graphbench import registry
from graphbench.config import Config
from graphbench.config.load import component_names, parts_of
from graphbench.config.model_keys import GRAPH_LAYERS
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.errors import UserError
from graphbench.factory.compat import variant
from graphbench.factory.config_errors import config_errors
from graphbench.factory.encoders import edge_encoder, node_encoder
from graphbench.factory.layers import LayerFactory
from graphbench.layers.gps import GPSBlock
from graphbench.layers.norm import BatchNorm
from graphbench.layers.single import SingleBlock
from graphbench.models.gnn import ConvLayer
from graphbench.models.stacked import PreLayer
from graphbench.structures import DataInfo

HEAD_OF_TASK = {"graph": "graph", "node": "node", "edge": "edge", "link_pred": "link_pred"}
"""Head that ``gnn.head: default`` stands for."""

_WITH_GRAPHGYM_NORM = (NodeEncoder, EdgeEncoder, PreLayer, ConvLayer)
"""Whose BatchNorm the group ``bn`` describes; GPS layers have their own, as in GraphGPS."""

_HEADS_OF_NODES = ("node", "inductive_node", "norm_mlp_node", "san_node", "edge", "inductive_edge", "link_pred")


def build_model(config: Config, info: DataInfo) -> nn.Module:
    """The model that the configuration describes, for data with the sizes in ``info``.

    Args:
        config: a loaded configuration.
        info: from the data set's card, or measured.

    Returns:
        A module that maps a :class:`~graphbench.structures.GraphBatch` to predictions, (G, out_dim) for graph tasks
        and (N, out_dim) for node tasks.

    Raises:
        UserError: unknown component, or values that do not fit each other.
    """
    tree = config.tree
    kind = registry.lookup("models", tree.model.type, config.where("model.type"))
    layers_from = getattr(kind, "layers_from", "gt")
    _check_widths(config, layers_from)
    _check_graphormer(config, layers_from)
    dim_edge = _dim_edge(config, layers_from)
    edges = edge_encoder(config, info, dim_edge)
    nodes, dim_encoded = node_encoder(config, info, tree.gnn.dim_inner)
    _check_token(config, nodes)
    factory = LayerFactory(
        config,
        info,
        dim_edge,
        edges is not None,
        layers_from,
        layer=getattr(kind, "layer", None),
        feed_forward=getattr(kind, "feed_forward", True),
    )
    supplied: dict[str, Any] = {
        "encoder": nodes,
        "dim_encoded": dim_encoded,
        "edge_encoder": edges,
        "dim": tree.gnn.dim_inner,
        "dim_edge": dim_edge,
        "layers": factory.number,
        "block": factory.block,
        "prepare": factory.prepare(),
        "layers_pre_mp": tree.gnn.layers_pre_mp,
        "stage_type": tree.gnn.stage_type,
        "l2norm": tree.gnn.l2norm,
        "batchnorm": tree.gnn.batchnorm,
        "dropout": tree.gnn.dropout,
        "act": tree.gnn.act,
        "head": lambda dim_in: _head(config, info, dim_in),
    }
    if {"local", "attention"} & set(registry.parameters(kind)):
        supplied |= {"local": factory.local(), "attention": factory.attention()}
    with config_errors(config, f"gt.{tree.model.type}", "model.type"):
        built: nn.Module = registry.construct(kind, config.own("gt", tree.model.type), supplied)
    for module in built.modules():
        if isinstance(module, _WITH_GRAPHGYM_NORM) and isinstance(module.norm, BatchNorm):
            module.norm.eps, module.norm.momentum = tree.bn.eps, tree.bn.mom
    return built


def _check_widths(config: Config, layers_from: str) -> None:
    """One width has several keys; all that this model reads must agree."""
    widths = {"gt": "gt.dim_hidden", "graphormer": "graphormer.embed_dim"}
    key = widths.get(layers_from, "gnn.dim_inner")
    if config.value(key) != config.tree.gnn.dim_inner:
        raise UserError(
            f"{config.where(key)}: {key} and gnn.dim_inner are the same width and must be equal, "
            f"received {config.value(key)} and {config.tree.gnn.dim_inner} ({config.where('gnn.dim_inner')})."
        )


def _check_graphormer(config: Config, layers_from: str) -> None:
    """What the ``graphormer`` group says must fit the rest of the model."""
    tree = config.tree
    encodings = component_names(tree.dataset.node_encoder_name) if tree.dataset.node_encoder else []
    reads_bias = layers_from == "gt" and "BiasedTransformer" in component_names(tree.gt.layer_type)
    if "GraphormerBias" in encodings and reads_bias and tree.graphormer.num_heads != tree.gt.n_heads:
        raise UserError(
            f"{config.where('graphormer.num_heads')}: graphormer.num_heads sizes the bias that BiasedTransformer adds "
            f"and must equal gt.n_heads, received {tree.graphormer.num_heads} and {tree.gt.n_heads}."
        )


def _check_token(config: Config, encoder: nn.Module) -> None:
    """A graph token needs a head that has a use for it, and the other way round."""
    tree, key = config.tree, "dataset.node_encoder_name"
    contextual = getattr(encoder, "contextual", {})
    tokens = [name for name, each in contextual.items() if getattr(each, "token", None) is not None]
    bias = "graphormer.use_graph_token"
    if tree.model.graph_pooling == "graph_token" and not tokens:
        raise UserError(
            f"{config.where('model.graph_pooling')}: model.graph_pooling graph_token reads the token that GraphToken, "
            f"or GraphormerBias with {bias} true, adds; name one of them in {key}."
        )
    if len(tokens) > 1:
        raise UserError(
            f"{config.where(key)}: {' and '.join(tokens)} each add a graph token, and graphs have one; leave "
            f"GraphToken out of {key}, or set {bias} to false."
        )
    if tokens and tree.gnn.head in _HEADS_OF_NODES:
        place, advice = (key, f"leave {tokens[0]} out of {key}")
        if "GraphormerBias" in tokens:
            place, advice = bias, f"set {bias} to false"
        raise UserError(
            f"{config.where(place)}: the graph token is a further node of every graph, for which gnn.head "
            f"{tree.gnn.head} has no target; {advice}."
        )


def _dim_edge(config: Config, layers_from: str) -> int:
    """Width of the edge states; narrower for PNA, as in GraphGPS."""
    tree = config.tree
    width = tree.gnn.dim_inner
    if layers_from == "gt" and "PNA" in [part.name for part in parts_of(tree.gt.layer_type)]:
        width = 16 if tree.compat == "exphormer" else min(128, width)
    chosen: int = tree.gt.dim_edge or tree.gnn.dim_edge or width
    return chosen


def _head(config: Config, info: DataInfo, dim_in: int) -> nn.Module:
    tree = config.tree
    name = tree.gnn.head
    if name == "default":
        if info.task not in HEAD_OF_TASK:
            raise UserError(
                f"{config.where('dataset.task')}: no default head for dataset.task {info.task}; set gnn.head."
            )
        name = HEAD_OF_TASK[info.task]
    kind = registry.lookup("heads", name, config.where("gnn.head"))
    supplied = {
        "dim_in": dim_in,
        "out_dim": info.out_dim,
        "layers_post_mp": max(tree.gnn.layers_post_mp, 1),  # GraphGym: 0 stands for 1
        "pooling": tree.model.graph_pooling,
        "act": tree.gnn.act,
        "dropout": tree.gnn.dropout,
        "batchnorm": tree.gnn.batchnorm,
        "decoding": tree.model.edge_decoding,
        "infer_link_label": tree.dataset.infer_link_label,
    }
    with config_errors(config, "model.graph_pooling", "gnn.head"):
        head: nn.Module = registry.construct(
            kind, config.own("gnn", name), {**supplied, **variant(config, "heads", name)}
        )
    return head


def layer_names(model: nn.Module) -> list[str]:
    """The layers of a model in order: ``<local>+<global>`` for a block, the registered name for a single layer."""
    kinds = tuple(registry.lookup(room, name) for room in GRAPH_LAYERS for name in registry.names(room))
    found: list[str] = []
    inside: set[nn.Module] = set()
    for module in model.modules():
        if isinstance(module, (GPSBlock, SingleBlock)):
            found.append("+".join(_name(part) for part in module.parts))
            inside.update(module.modules())
        elif isinstance(module, kinds) and module not in inside:
            found.append(_name(module))
            inside.update(module.modules())
    return found


def _name(layer: nn.Module | None) -> str:
    return "None" if layer is None else str(type(layer).registered_name)  # type: ignore[attr-defined]
