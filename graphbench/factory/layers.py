"""From configuration to the layers of a model: what the names of ``layer_type`` stand for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from graphbench import registry
from graphbench.config import Config
from graphbench.config.layer_type import LayerSpec, component_names
from graphbench.config.model_keys import GRAPH_LAYERS
from graphbench.encoders.expander import ExpanderEdges
from graphbench.errors import UserError
from graphbench.factory.compat import variant
from graphbench.factory.config_errors import config_errors
from graphbench.layers.contract import Block, GlobalAttention, GraphLayer, LayerContext, LocalLayer
from graphbench.layers.gps import GPSBlock
from graphbench.layers.single import SingleBlock
from graphbench.models.contract import Model
from graphbench.structures import DataInfo

LOCAL, ATTENTION, BLOCKS = "layers/local", "layers/attention", "layers/blocks"

_SOURCES = {
    "gt": ("gt.layer_type", "gt.layers"),
    "gnn": ("gnn.layer_type", "gnn.layers_mp"),
    "graphormer": ("graphormer", "graphormer.num_layers"),
}
"""Keys that name and count the blocks, by the ``layers_from`` of a model."""

_EDGE_SETS = {"edge_index": None, "expander_edge_index": "exp"}
"""Names of edge sets in Exphormer's code that are called otherwise here."""

_FILLED = {
    "gt": {"heads": "gt.n_heads", "dropout": "gt.dropout", "attn_dropout": "gt.attn_dropout", "act": "gnn.act"},
    "gnn": {"heads": "gt.n_heads", "dropout": "gnn.dropout", "act": "gnn.act", "agg": "gnn.agg"},
    "graphormer": {
        "heads": "graphormer.num_heads",
        "dropout": "graphormer.dropout",
        "attn_dropout": "graphormer.attention_dropout",
        "mlp_dropout": "graphormer.mlp_dropout",
    },
}
"""Keys behind the context's fields that layers check, for messages."""


def edge_set(spec: LayerSpec) -> str | None:
    """Name of the edge set that a layer works on, None for the edges."""
    return None if spec.edges is None else _EDGE_SETS.get(spec.edges, spec.edges)


def reads_expander(specs: Sequence[LayerSpec]) -> bool:
    """Whether a sublayer works on the pairs that Exphormer's ``prep`` group describes."""
    return any(spec.name == "Exphormer" or edge_set(spec) == "exp" for spec in specs)


def layers_in_use(config: Config) -> Iterator[tuple[str, str, type[GraphLayer]]]:
    """Group, name and class of every kind of layer that the model is made of, those of its blocks included."""
    model: type[Model] = registry.lookup("models", config.tree.model.type, config.where("model.type"))
    group, only = model.layers_from, model.layer
    for name in [only] if only else dict.fromkeys(component_names(config.value(_SOURCES[group][0]))):
        for namespace in GRAPH_LAYERS:
            if name in registry.names(namespace):
                yield group, name, registry.lookup(namespace, name)


@dataclass(frozen=True)
class LayerFactory:
    """Makes the layers of one model.

    Args:
        config: a loaded configuration.
        info: facts of the data.
        dim_edge: width of the edge states.
        has_edges: whether an edge encoder supplies edge states.
        model: class of the model, which says where its layers come from.
    """

    config: Config
    info: DataInfo
    dim_edge: int
    has_edges: bool
    model: type[Model]

    @property
    def group(self) -> str:
        """Group of the configuration that describes the layers."""
        return self.model.layers_from

    @property
    def key(self) -> str:
        """Key that names the layers."""
        return _SOURCES[self.group][0]

    @property
    def where(self) -> str:
        """Where that key was set."""
        return self.config.where(self.key)

    @property
    def number(self) -> int:
        """How many blocks the model has."""
        count: int = self.config.value(_SOURCES[self.group][1])
        return count

    @property
    def specs(self) -> list[LayerSpec]:
        """What the configuration names, names that stand for nothing included."""
        return [LayerSpec(self.model.layer)] if self.model.layer else self.config.layer_specs(self.key)

    def local(self) -> Callable[[int, int], LocalLayer] | None:
        """Maker of the one local layer, from its widths; None where none is named. For models of branches."""
        spec = self._only(LOCAL)
        return None if spec is None else lambda dim_in, dim_out: self._build(LOCAL, spec, dim_in, dim_out)

    def attention(self) -> Callable[[], GlobalAttention] | None:
        """Maker of the one attention; None where none is named. For models of branches."""
        spec = self._only(ATTENTION)
        return None if spec is None else lambda: self._build(ATTENTION, spec)

    def _only(self, namespace: str) -> LayerSpec | None:
        """The one layer of a namespace where ``layer_type`` is ``<local>+<global>``."""
        by_kind = {space: [s for s in self.specs if s.name in registry.names(space)] for space in (LOCAL, ATTENTION)}
        known = sum(len(specs) for specs in by_kind.values())
        named = by_kind[namespace]
        if len(named) > 1 or not known or known != sum(not spec.left_out for spec in self.specs):
            raise UserError(
                f"{self.where}: {self.key} of this model is <local>+<global> with one of each at most (None leaves one "
                f"out), received '{self.config.value(self.key)}'."
            )
        return named[0] if named else None

    def block(self, dim_in: int | None = None, dim_out: int | None = None) -> Block:
        """One block of a stacked model.

        Args:
            dim_in: width of what it reads; the model's by default.
            dim_out: width of what it returns; the model's by default.
        """
        specs = self.specs
        complete = [spec for spec in specs if spec.name in registry.names(BLOCKS)]
        sublayers = {*registry.names(LOCAL), *registry.names(ATTENTION)}
        # Some names are both a complete layer and a sublayer; models of complete layers read the former.
        if not complete or (len(specs) > 1 and all(spec.left_out or spec.name in sublayers for spec in specs)):
            return self._parallel()
        if len(specs) > 1:
            raise UserError(
                f"{self.where}: {complete[0].name} is a complete layer and stands alone, received "
                f"'{self.config.value(self.key)}'."
            )
        block: Block = self._build(BLOCKS, complete[0], dim_in, dim_out)
        return block

    def _parallel(self) -> Block:
        """Sublayers that read the same state, as in GraphGPS."""
        config, tree, specs = self.config, self.config.tree, self.specs
        if all(spec.left_out for spec in specs):
            raise UserError(
                f"{self.where}: {self.key} is parts joined by '+', at least one of them not None, received "
                f"'{config.value(self.key)}'."
            )
        layers = [None if spec.left_out else self._sublayer(spec) for spec in specs]
        edges, dropout, norm = [edge_set(spec) for spec in specs], tree.gt.dropout, self._norm
        if not self.model.feed_forward:
            if len(layers) > 1 or layers[0] is None:
                raise UserError(
                    f"{self.where}: blocks of this model have one part, received '{config.value(self.key)}'."
                )
            return SingleBlock(tree.gt.dim_hidden, layers[0], edges=edges[0], dropout=dropout, norm=norm)
        act = variant(config, "layers", "GPSBlock").get("act", tree.gnn.act)
        with config_errors(config, self.key, filled={"act": "gnn.act"}):
            return GPSBlock(tree.gt.dim_hidden, layers, edges=edges, dropout=dropout, act=act, norm=norm)

    def _sublayer(self, spec: LayerSpec) -> LocalLayer | GlobalAttention:
        layer: LocalLayer | GlobalAttention
        layer = self._build(LOCAL if spec.name in registry.names(LOCAL) else ATTENTION, spec)
        return layer

    def prepare(self) -> nn.Module | None:
        """What puts the pairs of Exphormer's attention together before the first block; None where nothing reads it."""
        config, prep = self.config, self.config.tree.prep
        if self.group != "gt" or not reads_expander(self.specs):
            return None
        with config_errors(config, "prep", self.key):
            module = ExpanderEdges(
                config.tree.gt.dim_hidden,
                self.dim_edge,
                expander=prep.exp and prep.use_exp_edges,
                add_edge_index=prep.add_edge_index,
                num_virtual_nodes=prep.num_virt_node,
            )
        if module.needs_edges and not self.has_edges:
            raise UserError(
                f"{self.where}: this attention works along the edges of the graphs (prep.add_edge_index) and reads "
                "their features; set dataset.edge_encoder to true (DummyEdge where the data set has none)."
            )
        return module

    @property
    def _norm(self) -> str:
        config, gt = self.config, self.config.tree.gt
        if gt.layer_norm and gt.batch_norm:
            raise UserError(
                f"{config.where('gt.layer_norm')}: gt.layer_norm and gt.batch_norm exclude each other; set one to "
                "false."
            )
        if gt.layer_norm:
            return "graph" if config.tree.compat == "exphormer" else "layer"
        return "batch" if gt.batch_norm else "none"

    def _build(self, namespace: str, spec: LayerSpec, dim_in: int | None = None, dim_out: int | None = None) -> Any:
        """The layer that a spec names, of the base class of its namespace."""
        config = self.config
        kind: type[GraphLayer] = registry.lookup(namespace, spec.name, self.where)
        if kind.needs_edges and not self.has_edges and spec.edges is None:
            raise UserError(
                f"{self.where}: {spec.name} reads edge features; set dataset.edge_encoder to true "
                f"(DummyEdge where the data set has none)."
            )
        context = self._context(namespace, spec)
        context = dataclasses.replace(context, dim_in=dim_in or context.dim_in, dim_out=dim_out or context.dim_out)
        context = dataclasses.replace(context, **variant(config, namespace, spec.name))
        filled = _FILLED[self.group]
        if self.group == "gt" and namespace == ATTENTION:
            filled = {**filled, "dropout": "gt.attn_dropout"}
        legacy = registry.group_of(kind)
        keys = (f"{self.group}.{spec.name}", *((legacy,) if legacy else ()), self.key)
        with config_errors(config, *keys, filled=filled):
            return registry.construct(kind, self._arguments(kind, spec.name), context)

    def _arguments(self, kind: type[GraphLayer], name: str) -> Mapping[str, Any]:
        """The layer's own section, and below it the group of GraphGPS's vocabulary that describes it."""
        legacy = registry.group_of(kind)
        return {**(self.config.value(legacy) if legacy else {}), **self.config.component_args(self.group, name)}

    def _context(self, namespace: str, spec: LayerSpec) -> LayerContext:
        """What the model offers to its layers."""
        tree = self.config.tree
        dim = tree.gnn.dim_inner
        context = LayerContext(
            dim=dim,
            dim_in=dim,
            dim_out=dim,
            dim_edge=self.dim_edge,
            heads=tree.gt.n_heads,
            dropout=tree.gt.dropout,
            attn_dropout=tree.gt.attn_dropout,
            hidden_dropout=tree.gt.dropout,
            act=tree.gnn.act,
            max_nodes=self.info.max_nodes,
            degrees=tree.gt.pna_degrees or self.info.degree_histogram,
            use_edge_attr=spec.edges in (None, "exp") or spec.attribute is not None,
            equivstable="EquivStableLapPE" in component_names(tree.dataset.node_encoder_name),
        )
        if self.group == "gnn":
            gnn = tree.gnn
            return dataclasses.replace(
                context,
                dropout=gnn.dropout,
                residual=gnn.residual,
                batchnorm=gnn.batchnorm,
                norm="batch" if gnn.batchnorm else "none",
                agg=gnn.agg,
                normalize_adj=gnn.normalize_adj,
                self_msg=gnn.self_msg,
                msg_direction=gnn.msg_direction,
            )
        if self.group == "graphormer":
            own = tree.graphormer
            return dataclasses.replace(
                context,
                dim=own.embed_dim,
                heads=own.num_heads,
                dropout=own.dropout,
                attn_dropout=own.attention_dropout,
                mlp_dropout=own.mlp_dropout,
            )
        if namespace == ATTENTION:
            return dataclasses.replace(context, dropout=tree.gt.attn_dropout)
        if namespace == LOCAL:
            return context
        return dataclasses.replace(
            context,
            residual=tree.gt.residual,
            norm=self._norm,
            full_graph=tree.gt.full_graph,
            gamma=tree.gt.gamma,
        )
