"""From configuration to node and edge encoders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphbench import registry
from graphbench.config import Config
from graphbench.config.config import flat
from graphbench.config.layer_type import component_names
from graphbench.config.values import parse_range
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.contract import (
    BatchEncoder,
    FeatureContext,
    FeatureEncoder,
    PositionalContext,
    PositionalEncoder,
)
from graphbench.errors import UserError
from graphbench.factory.compat import variant
from graphbench.factory.config_errors import config_errors
from graphbench.structures import DataInfo


def node_encoder(config: Config, info: DataInfo, dim: int) -> tuple[NodeEncoder, int]:
    """The node encoder and the width of what it returns (``dim``, or the raw features' where nothing encodes them)."""
    dataset = config.tree.dataset
    if not dataset.node_encoder:
        if "node" in info.vocabularies:
            raise UserError(
                f"{config.where('dataset.node_encoder')}: the node features of {info.name} are categories and need an "
                "encoder: set dataset.node_encoder to true and dataset.node_encoder_name to TypeDictNode (or Atom)."
            )
        return NodeEncoder(None, {}, info.node_in, batch_norm=False), info.node_in
    key = "dataset.node_encoder_name"
    named = _named(config, key, "encoders/node", level="node", added=dataset.node_encoder_join == "add")
    encodings = {name: _encoding(config, info, key, name, named.width_before(name, dim)) for name in named.encodings}
    features: FeatureEncoder | None = None
    width = named.width_left(dim)
    if named.features or (info.node_in and width and named.concatenated):
        # An encoding on its own (GraphGPS: `LapPE`) keeps the node features through a linear map of them.
        features = _features(config, info, "node", key, named.features or "LinearNode", width)
    elif not named.concatenated:
        dim = info.node_in
    with config_errors(config, key):
        encoder = NodeEncoder(
            features,
            {name: encodings[name] for name in named.concatenated},
            dim,
            batch_norm=dataset.node_encoder_bn,
            contextual={name: encodings[name] for name in named.contextual},
            join=dataset.node_encoder_join,
            norm_eps=config.tree.bn.eps,
            norm_momentum=config.tree.bn.mom,
        )
    return encoder, dim


def edge_encoder(config: Config, info: DataInfo, dim_edge: int) -> EdgeEncoder | None:
    """The edge encoder, None where the configuration has none."""
    dataset = config.tree.dataset
    if not dataset.edge_encoder:
        return None
    key = "dataset.edge_encoder_name"
    named = _named(config, key, "encoders/edge", level="edge")
    features, width = None, named.width_left(dim_edge)
    if named.features:
        features = _features(config, info, "edge", key, named.features, width)
    with config_errors(config, key):
        return EdgeEncoder(
            features,
            {name: _encoding(config, info, key, name, dim_edge) for name in named.concatenated},
            dim_edge,
            batch_norm=dataset.edge_encoder_bn,
            norm_eps=config.tree.bn.eps,
            norm_momentum=config.tree.bn.mom,
        )


@dataclass(frozen=True)
class _Named:
    """The parts of an encoder's name: features, what stands beside them, what works on the result."""

    config: Config
    key: str
    features: str
    encodings: tuple[str, ...]
    contextual: tuple[str, ...]
    added: bool = False

    @property
    def concatenated(self) -> tuple[str, ...]:
        """Encodings that take columns of their own."""
        return tuple(name for name in self.encodings if name not in self.contextual)

    def width_before(self, name: str, dim: int) -> int:
        """Columns of ``dim`` that are there when it is the turn of ``name``: not those of what is named after it."""
        if self.added:
            return dim
        later = self.encodings[self.encodings.index(name) + 1 :]
        width: int = dim - sum(self.config.tree[f"posenc_{each}"].dim_pe for each in later if each in self.concatenated)
        return width

    def width_left(self, dim: int) -> int:
        """Columns of ``dim`` that the encodings leave to the features."""
        if self.added:
            return self._all_wide(dim)
        width: int = dim - sum(self.config.tree[f"posenc_{name}"].dim_pe for name in self.concatenated)
        if width < 0 or (self.features and width == 0):
            raise UserError(
                f"{self.config.where(self.key)}: the encodings take {dim - width} of {dim} columns and leave "
                f"{max(width, 0)} to the features; reduce posenc_*.dim_pe."
            )
        return width

    def _all_wide(self, dim: int) -> int:
        for name in self.concatenated:
            width = self.config.tree[f"posenc_{name}"].dim_pe
            if width != dim:
                raise UserError(
                    f"{self.config.where('dataset.node_encoder_join')}: with dataset.node_encoder_join add every "
                    f"encoding has the width of the model, {dim}; posenc_{name}.dim_pe is {width}."
                )
        return dim


def _named(config: Config, key: str, namespace: str, level: str, added: bool = False) -> _Named:
    where = config.where(key)
    names = component_names(config.value(key))
    features = [name for name in names if name in registry.names(namespace)]
    if len(features) > 1:
        raise UserError(
            f"{where}: {key} names {len(features)} feature encoders ({', '.join(features)}); one is allowed."
        )
    encodings: dict[str, type[PositionalEncoder]] = {
        name: registry.lookup("encoders/positional", name, where) for name in names if name not in features
    }
    for name, kind in encodings.items():
        if kind.level != level:
            raise UserError(f"{where}: {name} encodes {kind.level}s and cannot stand in {key}.")
    contextual = tuple(name for name, kind in encodings.items() if issubclass(kind, BatchEncoder))
    return _Named(config, key, features[0] if features else "", tuple(encodings), contextual, added)


def _features(config: Config, info: DataInfo, kind: str, key: str, name: str, width: int) -> FeatureEncoder:
    """A feature encoder of the namespace ``encoders/<kind>``."""
    namespace, types_key = f"encoders/{kind}", f"dataset.{kind}_encoder_num_types"
    vocabulary = info.vocabularies.get(kind, ())
    context = FeatureContext(
        dim=width,
        node_in=info.node_in,
        edge_in=info.edge_in,
        num_types=config.value(types_key) or (vocabulary[0] if vocabulary else 0),
        ogb_atom_vocabulary=config.tree.ogb_atom_vocabulary,
        **variant(config, namespace, name),
    )
    component = registry.lookup(namespace, name, config.where(key))
    with config_errors(config, f"dataset.{name}", types_key, key, filled={"num_types": types_key}):
        encoder: FeatureEncoder = registry.construct(component, config.component_args("dataset", name), context)
    return encoder


def _encoding(config: Config, info: DataInfo, key: str, name: str, dim: int) -> PositionalEncoder:
    group, where = f"posenc_{name}", config.where(key)
    component = registry.lookup("encoders/positional", name, where)
    if not config.tree[group].enable:
        raise UserError(f"{where}: {key} uses {name}, but {group}.enable is false; set it to true.")
    tree, vocabulary = config.tree, info.vocabularies.get("edge", ())
    context = PositionalContext(
        dim=dim,
        act=tree.gnn.act,
        max_nodes=info.max_nodes,
        heads=tree.graphormer.num_heads,
        input_dropout=tree.graphormer.input_dropout,
        use_graph_token=tree.graphormer.use_graph_token,
        edge_types=tree.dataset.edge_encoder_num_types or (vocabulary[0] if len(vocabulary) == 1 else 0),
    )
    with config_errors(config, group, filled={"act": "gnn.act", "heads": "graphormer.num_heads"}):
        encoder: PositionalEncoder = registry.construct(component, encoding_arguments(config, name), context)
    return encoder


def encoding_arguments(config: Config, name: str) -> dict[str, Any]:
    """The keys of ``posenc_<name>`` without their sub-groups, ``times_func`` parsed to ``times``."""
    group = f"posenc_{name}"
    arguments = {key.rpartition(".")[2]: value for key, value in flat(config.tree[group]).items()}
    if name == "EquivStableLapPE":
        # GraphGPS computes one Laplacian for both encodings, from this key; published numbers contain it.
        arguments["laplacian_norm"] = config.tree.posenc_LapPE.eigen.laplacian_norm
    if "times" in arguments:
        function = arguments.pop("times_func")
        if function:
            arguments["times"] = parse_range(
                function, f"{group}.kernel.times_func", config.where(f"{group}.kernel.times_func")
            )
        if not arguments["times"]:
            raise UserError(
                f"{config.where(group)}: {group} needs steps: set {group}.kernel.times (a list) or "
                f"{group}.kernel.times_func, e.g. range(1,17)."
            )
    return arguments
