"""From configuration to model: encoders, layers, head."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from graphbench import registry
from graphbench.build.blame import blame
from graphbench.build.encoders import edge_encoder, node_encoder
from graphbench.config import Config
from graphbench.config.load import component_names
from graphbench.config.schema import GRAPH_LAYERS
from graphbench.errors import UserError
from graphbench.layers.gps import GPSBlock
from graphbench.structures import DataInfo

HEAD_OF_TASK = {"graph": "graph", "node": "node"}
"""Head that ``gnn.head: default`` stands for."""


def model(config: Config, info: DataInfo) -> nn.Module:
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
    where = config.where("model.type")
    kind = registry.lookup("models", tree.model.type, where)
    wanted = registry.parameters(kind)
    if tree.gt.dim_hidden != tree.gnn.dim_inner and {"block", "attention"} & set(wanted):
        raise UserError(
            f"{config.where('gt.dim_hidden')}: gt.dim_hidden and gnn.dim_inner are the same width and must be equal, "
            f"received {tree.gt.dim_hidden} and {tree.gnn.dim_inner} ({config.where('gnn.dim_inner')})."
        )
    dim, dim_edge = tree.gnn.dim_inner, tree.gnn.dim_edge or tree.gnn.dim_inner
    edges = edge_encoder(config, info, dim_edge)
    nodes, dim_encoded = node_encoder(config, info, dim)
    supplied = {
        "encoder": nodes,
        "dim_encoded": dim_encoded,
        "edge_encoder": edges,
        "dim": dim,
        "dim_edge": dim_edge,
        "layers": tree.gt.layers,
        "layers_pre_mp": tree.gnn.layers_pre_mp,
        "l2norm": tree.gnn.l2norm,
        "batchnorm": tree.gnn.batchnorm,
        "dropout": tree.gnn.dropout,
        "act": tree.gnn.act,
        "head": lambda dim_in: _head(config, info, dim_in),
    }
    if {"block", "local", "attention"} & set(wanted):
        local, attention = _layer_factories(config, edges is not None, dim_edge)
        supplied |= {"local": local, "attention": attention, "block": lambda: _block(config, local, attention)}
    with blame(config, f"gt.{tree.model.type}", "model.type"):
        built: nn.Module = registry.construct(kind, config.own("gt", tree.model.type), supplied)
    return built


def _layer_factories(
    config: Config, has_edges: bool, dim_edge: int
) -> tuple[Callable[[int, int], nn.Module] | None, Callable[[], nn.Module] | None]:
    """Makers of the local and the global part of ``gt.layer_type``; None for a part left out."""
    tree, key = config.tree, "gt.layer_type"
    where = config.where(key)
    parts = component_names(tree.gt.layer_type)
    local_names = [part for part in parts if part in registry.names("layers/local")]
    attention_names = [part for part in parts if part not in local_names]
    if len(local_names) > 1 or len(attention_names) > 1 or not parts:
        raise UserError(
            f"{where}: {key} is <local>+<global> with one of each at most (None leaves one out), "
            f"received '{tree.gt.layer_type}'."
        )

    def local(dim_in: int, dim_out: int) -> nn.Module:
        (name,) = local_names
        kind = registry.lookup("layers/local", name, where)
        if getattr(kind, "needs_edges", False) and not has_edges:
            raise UserError(
                f"{where}: {name} reads edge features; set dataset.edge_encoder to true "
                f"(DummyEdge where the data set has none)."
            )
        supplied = {
            "dim_in": dim_in,
            "dim_out": dim_out,
            "dim_edge": dim_edge,
            "heads": tree.gt.n_heads,
            "dropout": tree.gt.dropout,
            "act": tree.gnn.act,
        }
        with blame(config, f"gt.{name}", key):
            layer: nn.Module = registry.construct(kind, config.own("gt", name), supplied)
        return layer

    def attention() -> nn.Module:
        (name,) = attention_names
        kind = registry.lookup("layers/attention", name, where)
        supplied = {"dim": tree.gt.dim_hidden, "heads": tree.gt.n_heads, "dropout": tree.gt.attn_dropout}
        with blame(config, f"gt.{name}", "gt.n_heads", key):
            layer: nn.Module = registry.construct(kind, config.own("gt", name), supplied)
        return layer

    return (local if local_names else None), (attention if attention_names else None)


def _block(
    config: Config,
    local: Callable[[int, int], nn.Module] | None,
    attention: Callable[[], nn.Module] | None,
) -> nn.Module:
    tree = config.tree
    if tree.gt.layer_norm and tree.gt.batch_norm:
        raise UserError(
            f"{config.where('gt.layer_norm')}: gt.layer_norm and gt.batch_norm exclude each other; set one to false."
        )
    dim = tree.gt.dim_hidden
    with blame(config, "gt.layer_type"):
        return GPSBlock(
            dim,
            local=local(dim, dim) if local else None,
            attention=attention() if attention else None,
            dropout=tree.gt.dropout,
            act=tree.gnn.act,
            norm="layer" if tree.gt.layer_norm else "batch" if tree.gt.batch_norm else "none",
        )


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
    }
    with blame(config, "model.graph_pooling", "gnn.head"):
        head: nn.Module = registry.construct(kind, config.own("gnn", name), supplied)
    return head


def layer_names(model: nn.Module) -> list[str]:
    """The layers of a model in order: ``<local>+<global>`` for a block, the registered name for a single layer."""
    kinds = tuple(registry.lookup(room, name) for room in GRAPH_LAYERS for name in registry.names(room))
    found: list[str] = []
    inside: set[nn.Module] = set()
    for module in model.modules():
        if isinstance(module, GPSBlock):
            found.append("+".join(_name(part) for part in (module.local, module.attention)))
            inside.update(module.modules())
        elif isinstance(module, kinds) and module not in inside:
            found.append(_name(module))
    return found


def _name(layer: nn.Module | None) -> str:
    return "None" if layer is None else str(type(layer).registered_name)  # type: ignore[attr-defined]
