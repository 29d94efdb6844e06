"""From configuration to node and edge encoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from graphbench import registry
from graphbench.config import Config
from graphbench.config.config import flat
from graphbench.config.layer_type import component_names
from graphbench.config.values import parse_range
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.contract import (
    BatchEncoder,
    ColumnEncoder,
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
    """The node encoder and its output width: ``dim``, or the number of raw features where nothing encodes them."""
    dataset = config.tree.dataset
    if not dataset.node_encoder:
        if "node" in info.vocabularies:
            raise UserError(
                f"{config.where('dataset.node_encoder')}: the node features of {info.name} are categories and need an "
                "encoder: set dataset.node_encoder to true and dataset.node_encoder_name to TypeDictNode (or Atom)."
            )
        return NodeEncoder(None, {}, info.node_in, batch_norm=False), info.node_in
    key = "dataset.node_encoder_name"
    parts = _parse(config, key, "node", added=dataset.node_encoder_join == "add")
    if not parts.features and not parts.columns:
        dim = info.node_in  # the raw features are the states
    columns: dict[str, ColumnEncoder] = {}
    batch_encoders: dict[str, BatchEncoder] = {}
    for name in parts.encodings:
        encoding = _encoding(config, info, key, name, parts.width_before(name, dim))
        if isinstance(encoding, BatchEncoder):
            batch_encoders[name] = encoding
        else:
            columns[name] = encoding
    features: FeatureEncoder | None = None
    width = parts.width_left(dim)
    if parts.features or (info.node_in and width and columns):
        # With an encoding and no feature encoder (GraphGPS: `LapPE`), a linear map keeps the node features.
        features = _features(config, info, "node", key, parts.features or "LinearNode", width)
    with config_errors(config, key):
        encoder = NodeEncoder(
            features,
            columns,
            dim,
            batch_norm=dataset.node_encoder_bn,
            batch_encoders=batch_encoders,
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
    parts = _parse(config, key, "edge")
    width = parts.width_left(dim_edge)
    features = _features(config, info, "edge", key, parts.features, width) if parts.features else None
    encodings = {name: _encoding(config, info, key, name, dim_edge) for name in parts.columns}
    with config_errors(config, key):
        return EdgeEncoder(
            features,
            {name: encoding for name, encoding in encodings.items() if isinstance(encoding, ColumnEncoder)},
            dim_edge,
            batch_norm=dataset.edge_encoder_bn,
            norm_eps=config.tree.bn.eps,
            norm_momentum=config.tree.bn.mom,
        )


@dataclass(frozen=True)
class _Parts:
    """Parts of an encoder, named in one key as ``<features>+<encoding>+...``.

    Attributes:
        config: a loaded configuration.
        key: the key.
        features: name of the feature encoder; empty for none.
        encodings: classes of the positional encoders by name, in order.
        added: whether the parts are added instead of concatenated.
    """

    config: Config
    key: str
    features: str
    encodings: Mapping[str, type[PositionalEncoder]]
    added: bool

    @property
    def columns(self) -> list[str]:
        """Names of the encodings that add columns."""
        return [name for name, encoder in self.encodings.items() if not issubclass(encoder, BatchEncoder)]

    def width_before(self, name: str, dim: int) -> int:
        """Columns of ``dim`` without those of the encodings named after ``name``."""
        if self.added:
            return dim
        names = list(self.encodings)
        later = names[names.index(name) + 1 :]
        return dim - sum(self._dim_pe(column) for column in self.columns if column in later)

    def width_left(self, dim: int) -> int:
        """Columns of ``dim`` without those of the encodings.

        Raises:
            UserError: too few columns are left, or parts that are added have another width than ``dim``.
        """
        if self.added:
            self._check_equal_widths(dim)
            return dim
        width = dim - sum(self._dim_pe(name) for name in self.columns)
        if width < 0 or (self.features and width == 0):
            raise UserError(
                f"{self.config.where(self.key)}: the encodings take {dim - width} of {dim} columns and leave "
                f"{max(width, 0)} to the features; reduce posenc_*.dim_pe."
            )
        return width

    def _check_equal_widths(self, dim: int) -> None:
        for name in self.columns:
            width = self._dim_pe(name)
            if width != dim:
                raise UserError(
                    f"{self.config.where('dataset.node_encoder_join')}: with dataset.node_encoder_join add every "
                    f"encoding has the width of the model, {dim}; posenc_{name}.dim_pe is {width}."
                )

    def _dim_pe(self, name: str) -> int:
        return self.config.value(f"posenc_{name}.dim_pe")


def _parse(config: Config, key: str, level: str, *, added: bool = False) -> _Parts:
    """The parts that a key names.

    Args:
        config: a loaded configuration.
        key: names the encoder.
        level: ``node`` or ``edge``.
        added: see :class:`_Parts`.

    Raises:
        UserError: unknown names, several feature encoders, or an encoding of another level or kind.
    """
    where = config.where(key)
    names = component_names(config.value(key))
    features = [name for name in names if name in registry.names(f"encoders/{level}")]
    if len(features) > 1:
        raise UserError(
            f"{where}: {key} names {len(features)} feature encoders ({', '.join(features)}); one is allowed."
        )
    encodings: dict[str, type[PositionalEncoder]] = {}
    for name in names:
        if name not in features:
            encodings[name] = registry.lookup(registry.POSITIONAL_ENCODERS, name, where)
            if encodings[name].level != level:
                raise UserError(f"{where}: {name} encodes {encodings[name].level}s and cannot be named in {key}.")
            kinds = (ColumnEncoder, BatchEncoder) if level == "node" else (ColumnEncoder,)
            if not issubclass(encodings[name], kinds):
                allowed = " or ".join(kind.__name__ for kind in kinds)
                raise UserError(f"{where}: {key} takes encoders of {level}s derived from {allowed}; {name} is none.")
    return _Parts(config, key, features[0] if features else "", encodings, added)


def _features(config: Config, info: DataInfo, level: str, key: str, name: str, width: int) -> FeatureEncoder:
    """A feature encoder of the namespace ``encoders/<level>``."""
    namespace = registry.NODE_ENCODERS if level == "node" else registry.EDGE_ENCODERS
    types_key = f"dataset.{level}_encoder_num_types"
    vocabulary = info.vocabularies.get(level, ())
    context = FeatureContext(
        dim=width,
        node_in=info.node_in,
        edge_in=info.edge_in,
        num_types=config.value(types_key) or (vocabulary[0] if vocabulary else 0),
        ogb_atom_vocabulary=config.tree.ogb_atom_vocabulary,
        **variant(config, namespace, name),
    )
    component = registry.lookup(namespace, name, config.where(key))
    present = info.node_in if level == "node" else info.edge_in
    if component.columns not in (None, present):
        raise UserError(
            f"{config.where(key)}: {name} reads {component.columns} columns of {level} features, {info.name} has "
            f"{present}. Linear{level.title()} reads any number."
        )
    with config_errors(config, f"dataset.{name}", types_key, key, filled={"num_types": types_key}):
        return registry.construct(component, config.component_args("dataset", name), context)


def _encoding(config: Config, info: DataInfo, key: str, name: str, dim: int) -> ColumnEncoder | BatchEncoder:
    """The positional encoder called ``name``; ``dim`` is the number of columns before its own."""
    tree = config.tree
    group = f"posenc_{name}"
    where = config.where(key)
    component = registry.lookup(registry.POSITIONAL_ENCODERS, name, where)
    if not config.value(f"{group}.enable"):
        raise UserError(f"{where}: {key} uses {name}, but {group}.enable is false; set it to true.")
    vocabulary = info.vocabularies.get("edge", ())
    context = PositionalContext(
        dim=dim,
        act=tree.gnn.act,
        max_nodes=info.largest_graph,
        heads=tree.graphormer.num_heads,
        input_dropout=tree.graphormer.input_dropout,
        use_graph_token=tree.graphormer.use_graph_token,
        edge_types=tree.dataset.edge_encoder_num_types or (vocabulary[0] if len(vocabulary) == 1 else 0),
    )
    with config_errors(config, group, filled={"act": "gnn.act", "heads": "graphormer.num_heads"}):
        encoder = registry.construct(component, encoding_arguments(config, name), context)
    return cast(ColumnEncoder | BatchEncoder, encoder)  # every positional encoder is one of the two


def encoding_arguments(config: Config, name: str) -> dict[str, Any]:
    """The keys of ``posenc_<name>`` without their sub-groups, ``times_func`` parsed to ``times``."""
    group = f"posenc_{name}"
    arguments = {key.rpartition(".")[2]: value for key, value in flat(config.value(group)).items()}
    if name == "EquivStableLapPE":
        # GraphGPS computes one Laplacian for both encodings, from this key; published numbers contain it.
        arguments["laplacian_norm"] = config.value("posenc_LapPE.eigen.laplacian_norm")
    if "times_func" in arguments:
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
