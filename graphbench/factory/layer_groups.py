"""Groups of the configuration that describe the layers of a model, and what their keys fill in these layers.

A model declares one in :attr:`~graphbench.models.contract.Model.layers_from`. What is true of one group alone stands
in its :class:`LayerGroup`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphbench.config import Config
from graphbench.config.layer_type import component_names
from graphbench.errors import UserError
from graphbench.models.contract import Model
from graphbench.registry import ATTENTIONS, BLOCKS


def _no_norm(config: Config, namespace: str) -> dict[str, str]:
    """No norm from the group: layers have their own defaults."""
    return {}


def _norm_of_gnn(config: Config, namespace: str) -> dict[str, str]:
    return {"norm": "batch" if config.tree.gnn.batchnorm else "none"}


def _norm_of_gt(config: Config, namespace: str) -> dict[str, str]:
    """Norm of complete layers; the one around sublayers is that of their block."""
    return {"norm": block_norm(config)} if namespace == BLOCKS else {}


@dataclass(frozen=True)
class LayerGroup:
    """Keys of one group of the configuration, by what they are for.

    Attributes:
        name: section whose subsections have the layers' own keys, e.g. ``gt.Exphormer``.
        layer_type: key that names the layers.
        number: key of the number of blocks.
        width: key of the width of the node states.
        own: last parts of the keys that models of this group read and no others.
        fills: key that fills a field of :class:`~graphbench.layers.contract.LayerContext`, by field.
        fills_in: further ones for the layers of one namespace.
        norm: the context's ``norm``, if the group chooses one, from a configuration and the namespace of a layer.
    """

    name: str
    layer_type: str
    number: str
    width: str
    own: tuple[str, ...]
    fills: Mapping[str, str]
    fills_in: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    norm: Callable[[Config, str], dict[str, str]] = _no_norm

    def keys(self, namespace: str) -> dict[str, str]:
        """Keys that fill the context of a namespace's layers, by field."""
        return {**self.fills, **self.fills_in.get(namespace, {})}

    def fields(self, config: Config, namespace: str) -> dict[str, Any]:
        """Values of this group's keys for the context of a namespace's layers, by field."""
        values = {name: config.value(key) for name, key in self.keys(namespace).items()}
        return {**values, **self.norm(config, namespace)}


_FILLS = {
    "heads": "gt.n_heads",
    "dropout": "gt.dropout",
    "attn_dropout": "gt.attn_dropout",
    "hidden_dropout": "gt.dropout",
    "act": "gnn.act",
    "hidden_act": "gnn.act",
}
"""Keys that fill fields in every group, unless the group has its own."""

GNN_FIELDS = ("residual", "ffn", "agg", "normalize_adj", "self_msg", "msg_direction")
"""Keys of ``gnn`` that fill the field of their own name."""

GT = LayerGroup(
    "gt",
    layer_type="gt.layer_type",
    number="gt.layers",
    width="gt.dim_hidden",
    own=("layer_type", "layers", "local_dropout", "residual", "layer_norm", "batch_norm", "full_graph"),
    fills=_FILLS,
    fills_in={
        ATTENTIONS: {"dropout": "gt.attn_dropout"},
        BLOCKS: {"residual": "gt.residual", "full_graph": "gt.full_graph", "gamma": "gt.gamma"},
    },
    norm=_norm_of_gt,
)

GNN = LayerGroup(
    "gnn",
    layer_type="gnn.layer_type",
    number="gnn.layers_mp",
    width="gnn.dim_inner",
    own=("layer_type", "layers_mp", *GNN_FIELDS),
    fills=_FILLS
    | {"dropout": "gnn.dropout", "batchnorm": "gnn.batchnorm"}
    | {name: f"gnn.{name}" for name in GNN_FIELDS},
    norm=_norm_of_gnn,
)

GRAPHORMER = LayerGroup(
    "graphormer",
    layer_type="graphormer",
    number="graphormer.num_layers",
    width="graphormer.embed_dim",
    own=("num_layers", "dropout", "attention_dropout", "mlp_dropout"),
    fills=_FILLS
    | {
        "heads": "graphormer.num_heads",
        "dropout": "graphormer.dropout",
        "attn_dropout": "graphormer.attention_dropout",
        "mlp_dropout": "graphormer.mlp_dropout",
    },
)

GROUPS: Mapping[str, LayerGroup] = {group.name: group for group in (GT, GNN, GRAPHORMER)}
"""Groups by name."""


def layer_group(model: type[Model]) -> LayerGroup:
    """Group that describes the layers of a model.

    Raises:
        UserError: ``layers_from`` names none.
    """
    if model.layers_from not in GROUPS:
        raise UserError(
            f"{model.__name__}.layers_from is one of {', '.join(GROUPS)}, received {model.layers_from!r} (model.type "
            f"{model.registered_name})."
        )
    return GROUPS[model.layers_from]


def block_norm(config: Config) -> str:
    """Name of the norm that ``gt`` chooses for blocks.

    Raises:
        UserError: two are chosen.
    """
    gt = config.tree.gt
    if gt.layer_norm and gt.batch_norm:
        raise UserError(
            f"{config.where('gt.layer_norm')}: gt.layer_norm and gt.batch_norm exclude each other; set one to false."
        )
    if gt.layer_norm and gt.layer_norm_scope == "node":
        return "node"
    if gt.layer_norm:
        return "graph" if config.tree.compat == "exphormer" else "layer"
    return "batch" if gt.batch_norm else "none"


def edge_width(config: Config, group: LayerGroup) -> int:
    """Width of the edge states; narrower for PNA, as in GraphGPS."""
    tree = config.tree
    width: int = tree.gnn.dim_inner
    if group is GT and "PNA" in component_names(tree.gt.layer_type):
        width = 16 if tree.compat == "exphormer" else min(128, width)
    return tree.gt.dim_edge or tree.gnn.dim_edge or width
