"""From configuration to node and edge encoders, and to the transforms that feed them."""

from __future__ import annotations

from typing import Any

from torch import nn
from yacs.config import CfgNode

from graphbench import registry
from graphbench.build.blame import blame
from graphbench.config import Config
from graphbench.config.load import component_names
from graphbench.config.values import parse_range
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.errors import UserError
from graphbench.structures import DataInfo


def node_encoder(config: Config, info: DataInfo, dim: int) -> tuple[nn.Module, int]:
    """The node encoder and the width of what it returns (``dim``, or the raw features' where nothing encodes them)."""
    tree = config.tree
    if not tree.dataset.node_encoder:
        if "node" in info.vocabularies:
            raise UserError(
                f"{config.where('dataset.node_encoder')}: the node features of {info.name} are categories and need an "
                "encoder: set dataset.node_encoder to true and dataset.node_encoder_name to TypeDictNode (or Atom)."
            )
        return NodeEncoder(None, {}, info.node_in, batch_norm=False), info.node_in
    key, where = "dataset.node_encoder_name", config.where("dataset.node_encoder_name")
    parts = component_names(tree.dataset.node_encoder_name)
    features = [part for part in parts if part in registry.names("encoders/node")]
    encodings = [part for part in parts if part not in features]
    if len(features) > 1:
        raise UserError(
            f"{where}: {key} names {len(features)} feature encoders ({', '.join(features)}); one is allowed."
        )
    positional = {name: _positional_encoder(config, name) for name in encodings}
    width = dim - sum(config.tree[f"posenc_{name}"].dim_pe for name in encodings)
    if width < 0 or (features and width == 0):
        raise UserError(
            f"{where}: the encodings take {dim - width} of gnn.dim_inner = {dim} columns and leave {max(width, 0)} to "
            "the node features; reduce posenc_*.dim_pe."
        )
    node: nn.Module | None = None
    if features or (info.node_in and width):
        # An encoding on its own (GraphGPS: `LapPE`) keeps the node features through a linear map of them.
        name = features[0] if features else "LinearNode"
        vocabulary = info.vocabularies.get("node", ())
        supplied = {
            "dim": width,
            "node_in": info.node_in,
            "num_types": tree.dataset.node_encoder_num_types or (vocabulary[0] if vocabulary else 0),
        }
        with blame(config, "dataset.node_encoder_num_types", key):
            node = registry.construct(
                registry.lookup("encoders/node", name, where), config.own("dataset", name), supplied
            )
    with blame(config, key):
        return NodeEncoder(node, positional, dim, batch_norm=tree.dataset.node_encoder_bn), dim


def _positional_encoder(config: Config, name: str) -> nn.Module:
    group = f"posenc_{name}"
    where = config.where("dataset.node_encoder_name")
    kind = registry.lookup("encoders/positional", name, where)
    if not config.tree[group].enable:
        raise UserError(f"{where}: dataset.node_encoder_name uses {name}, but {group}.enable is false; set it to true.")
    with blame(config, group):
        encoder: nn.Module = registry.construct(kind, encoding_arguments(config, name), {})
    return encoder


def edge_encoder(config: Config, info: DataInfo, dim_edge: int) -> nn.Module | None:
    """The edge encoder, None where the configuration has none."""
    tree = config.tree
    if not tree.dataset.edge_encoder:
        return None
    key, where = "dataset.edge_encoder_name", config.where("dataset.edge_encoder_name")
    name = tree.dataset.edge_encoder_name
    vocabulary = info.vocabularies.get("edge", ())
    supplied = {
        "dim": dim_edge,
        "edge_in": info.edge_in,
        "num_types": tree.dataset.edge_encoder_num_types or (vocabulary[0] if vocabulary else 0),
    }
    with blame(config, "dataset.edge_encoder_num_types", key):
        features = registry.construct(
            registry.lookup("encoders/edge", name, where), config.own("dataset", name), supplied
        )
        return EdgeEncoder(features, dim_edge, batch_norm=tree.dataset.edge_encoder_bn)


def encoding_arguments(config: Config, name: str) -> dict[str, Any]:
    """The keys of ``posenc_<name>`` without their sub-groups, ``times_func`` parsed to ``times``."""
    group = f"posenc_{name}"
    flat: dict[str, Any] = {}
    for key, value in config.tree[group].items():
        flat.update(value if isinstance(value, CfgNode) else {key: value})
    if "times" in flat:
        function = flat.pop("times_func")
        if function:
            flat["times"] = parse_range(
                function, f"{group}.kernel.times_func", config.where(f"{group}.kernel.times_func")
            )
        if not flat["times"]:
            raise UserError(
                f"{config.where(group)}: {group} needs steps: set {group}.kernel.times (a list) or "
                f"{group}.kernel.times_func, e.g. range(1,17)."
            )
    return flat


def transforms(config: Config) -> dict[str, Any]:
    """The transforms that precompute the encodings the model reads, by encoder name."""
    if not config.tree.dataset.node_encoder:
        return {}
    found = {}
    for name in component_names(config.tree.dataset.node_encoder_name):
        if name in registry.names("encoders/positional"):
            transform = registry.lookup("transforms", registry.lookup("encoders/positional", name).transform)
            with blame(config, f"posenc_{name}"):
                found[name] = registry.construct(transform, encoding_arguments(config, name), {})
    return found
