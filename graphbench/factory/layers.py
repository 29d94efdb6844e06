"""From configuration to the layers of a model: construction of the layers that ``layer_type`` names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from graphbench import registry
from graphbench.config import Config
from graphbench.config.layer_type import LayerSpec, component_names
from graphbench.config.model_keys import GRAPH_LAYERS
from graphbench.encoders.contract import BatchEncoder
from graphbench.encoders.expander import ExpanderEdges
from graphbench.errors import UserError
from graphbench.factory.compat import variant
from graphbench.factory.config_errors import config_errors
from graphbench.factory.layer_groups import GT, LayerGroup, block_norm, layer_group
from graphbench.layers.contract import Attention, Block, GraphLayer, LayerContext, LocalLayer
from graphbench.layers.gps import GPSBlock
from graphbench.layers.single import SingleBlock
from graphbench.models.contract import Model
from graphbench.registry import ATTENTIONS, BLOCKS, LOCAL_LAYERS, Namespace
from graphbench.structures import DataInfo

L = TypeVar("L", bound=GraphLayer)

_EDGE_SETS = {"edge_index": None, "expander_edge_index": "exp"}
"""Edge sets by the names in Exphormer's code, None for the edges; other names are the same here."""


def model_class(config: Config) -> type[Model]:
    """The class that ``model.type`` names."""
    return registry.lookup(registry.MODELS, config.tree.model.type, config.where("model.type"))


def edge_set(spec: LayerSpec) -> str | None:
    """Name of the edge set that a layer reads, None for the edges."""
    return None if spec.edges is None else _EDGE_SETS.get(spec.edges, spec.edges)


def reads_expander(specs: Sequence[LayerSpec]) -> bool:
    """Whether a sublayer reads the pairs that Exphormer's ``prep`` group describes."""
    return any(spec.name == "Exphormer" or edge_set(spec) == "exp" for spec in specs)


def gates_local_layers(config: Config) -> bool:
    """Whether a node encoder asks local layers to gate their messages by its encoding."""
    known = registry.names(registry.POSITIONAL_ENCODERS)
    named = [name for name in component_names(config.tree.dataset.node_encoder_name) if name in known]
    encoders = [registry.lookup(registry.POSITIONAL_ENCODERS, name) for name in named]
    return any(issubclass(each, BatchEncoder) and each.gates_local_layers for each in encoders)


def layers_in_use(config: Config) -> Iterator[tuple[str, str, type[GraphLayer]]]:
    """Group, name and class of every layer that the model names, once."""
    model = model_class(config)
    group = layer_group(model)
    names = [model.layer] if model.layer else component_names(config.value(group.layer_type))
    for name in dict.fromkeys(names):
        for namespace in GRAPH_LAYERS:
            if name in registry.names(namespace):
                yield group.name, name, registry.lookup(namespace, name)


def takes_layers(config: Config) -> bool:
    """Whether the model is built of layers that the configuration names; one that makes its own is not."""
    model = model_class(config)
    return not {"block", "local", "attention"}.isdisjoint(registry.parameters(model))


@dataclass(frozen=True)
class LayerFactory:
    """Factory of the layers of one model.

    Args:
        config: a loaded configuration.
        info: facts of the data.
        dim_edge: width of the edge states.
        has_edges: whether an edge encoder supplies edge states.
        model: class of the model, which declares where its layers come from.
    """

    config: Config
    info: DataInfo
    dim_edge: int
    has_edges: bool
    model: type[Model]

    @property
    def group(self) -> LayerGroup:
        """Group of the configuration that describes the layers."""
        return layer_group(self.model)

    @property
    def key(self) -> str:
        """Key that names the layers."""
        return self.group.layer_type

    @property
    def where(self) -> str:
        """File and line of that key."""
        return self.config.where(self.key)

    @property
    def number_key(self) -> str:
        """Key of the number of blocks."""
        return self.group.number

    @property
    def number(self) -> int:
        """Number of blocks."""
        return self.config.value(self.number_key)

    @property
    def specs(self) -> list[LayerSpec]:
        """The layers that the configuration names, ``None`` included."""
        return [LayerSpec(self.model.layer)] if self.model.layer else self.config.layer_specs(self.key)

    def local(self) -> Callable[[int, int], LocalLayer] | None:
        """Factory of the one local layer, from its widths; None where none is named. For models with branches."""
        spec = self._single(LOCAL_LAYERS)
        if spec is None:
            return None
        return lambda dim_in, dim_out: self._build(LOCAL_LAYERS, spec, dim_in, dim_out)

    def attention(self) -> Callable[[], Attention] | None:
        """Factory of the one attention; None where none is named. For models with branches."""
        spec = self._single(ATTENTIONS)
        if spec is None:
            return None
        return lambda: self._build(ATTENTIONS, spec)

    def _single(self, namespace: str) -> LayerSpec | None:
        """The only layer of a namespace in a ``layer_type`` of the form ``<local>+<global>``.

        Raises:
            UserError: ``layer_type`` has another form.
        """
        specs = [spec for spec in self.specs if not spec.left_out]
        sublayers = {*registry.names(LOCAL_LAYERS), *registry.names(ATTENTIONS)}
        named = [spec for spec in specs if spec.name in registry.names(namespace)]
        if not specs or len(named) > 1 or any(spec.name not in sublayers for spec in specs):
            raise UserError(
                f"{self.where}: {self.key} of this model is <local>+<global> with one of each at most (None leaves one "
                f"out), received '{self.config.value(self.key)}'."
            )
        return named[0] if named else None

    def block(self, dim_in: int | None = None, dim_out: int | None = None) -> Block:
        """One block of a stacked model.

        Args:
            dim_in: input width; None: the model's.
            dim_out: output width; None: the model's.
        """
        specs = self.specs
        complete = [spec for spec in specs if spec.name in registry.names(BLOCKS)]
        sublayers = {*registry.names(LOCAL_LAYERS), *registry.names(ATTENTIONS)}
        # Some names are both a complete layer and a sublayer: alone the former, joined by '+' the latter.
        if not complete or (len(specs) > 1 and all(spec.left_out or spec.name in sublayers for spec in specs)):
            if self.group is not GT:  # whose widths are not those of gt
                raise UserError(
                    f"{self.where}: {self.key} of this model is a complete layer, received "
                    f"'{self.config.value(self.key)}'. Other convolutions are for model.type gnn, with gnn.stage_type "
                    "skipsum for residual connections."
                )
            return self._parallel()
        if len(specs) > 1:
            raise UserError(
                f"{self.where}: {complete[0].name} is a complete layer and cannot be joined with others, received "
                f"'{self.config.value(self.key)}'."
            )
        return self._build(BLOCKS, complete[0], dim_in, dim_out)

    def _parallel(self) -> Block:
        """A block of parallel sublayers, as in GraphGPS."""
        config = self.config
        specs = self.specs
        if all(spec.left_out for spec in specs):
            raise UserError(
                f"{self.where}: {self.key} is layers joined by '+', at least one of them not None, received "
                f"'{config.value(self.key)}'."
            )
        gt = config.tree.gt
        sublayers = [None if spec.left_out else self._sublayer(spec) for spec in specs]
        edges = [edge_set(spec) for spec in specs]
        if not self.model.feed_forward:
            if len(sublayers) > 1 or sublayers[0] is None:
                raise UserError(
                    f"{self.where}: blocks of this model have one layer, received '{config.value(self.key)}'."
                )
            return SingleBlock(gt.dim_hidden, sublayers[0], edges=edges[0], dropout=gt.dropout, norm=block_norm(config))
        act = variant(config, "layers", "GPSBlock").get("act", config.tree.gnn.act)
        filled = {"act": "gnn.act", "dropout": "gt.dropout", "local_dropout": "gt.local_dropout"}
        with config_errors(config, self.key, filled=filled):
            return GPSBlock(
                gt.dim_hidden,
                sublayers,
                edges=edges,
                act=act,
                norm=block_norm(config),
                dropout=gt.dropout,
                local_dropout=gt.local_dropout,
            )

    def _sublayer(self, spec: LayerSpec) -> LocalLayer | Attention:
        if spec.name in registry.names(LOCAL_LAYERS):
            return self._build(LOCAL_LAYERS, spec)
        return self._build(ATTENTIONS, spec)

    def prepare(self) -> ExpanderEdges | None:
        """The module that computes the pairs of Exphormer's attention before the first block, if a layer reads them."""
        config = self.config
        prep = config.tree.prep
        if self.group is not GT or not reads_expander(self.specs):
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
                f"{self.where}: this attention reads the edges of the graphs (prep.add_edge_index) and "
                "their features; set dataset.edge_encoder to true (DummyEdge where the data set has none)."
            )
        return module

    def _build(
        self, namespace: Namespace[L], spec: LayerSpec, dim_in: int | None = None, dim_out: int | None = None
    ) -> L:
        """The layer that a spec names."""
        config = self.config
        layer_class = registry.lookup(namespace, spec.name, self.where)
        if layer_class.needs_edges and not self.has_edges and edge_set(spec) is None:
            raise UserError(
                f"{self.where}: {spec.name} reads edge features; set dataset.edge_encoder to true "
                f"(DummyEdge where the data set has none)."
            )
        context = self._context(namespace, spec)
        context = dataclasses.replace(context, dim_in=dim_in or context.dim_in, dim_out=dim_out or context.dim_out)
        context = dataclasses.replace(context, **variant(config, namespace, spec.name))
        group = self.group
        keys = [f"{group.name}.{spec.name}", self.key]
        arguments = dict(config.component_args(group.name, spec.name))
        graphgps_group = registry.group_of(layer_class)  # such as gt.bigbird
        if graphgps_group:
            keys.insert(1, graphgps_group)
            arguments = {**config.value(graphgps_group), **arguments}
        with config_errors(config, *keys, filled=group.keys(namespace)):
            layer = registry.construct(layer_class, arguments, context)
        width = arguments.get("dim_edge", context.dim_edge)
        more = self.number > 1 or len(self.specs) > 1
        if more and layer.dim_edge_out not in (None, width):
            raise UserError(
                f"{self.where}: {spec.name} hands on edge states of {layer.dim_edge_out} channels, and the layers read "
                f"{width}; set {group.name}.dim_edge to {layer.dim_edge_out}."
            )
        return layer

    def _has_edge_states(self, spec: LayerSpec) -> bool:
        """Whether there are states of the pairs that a layer works on."""
        if reads_expander([spec]):
            return True
        return self.has_edges if edge_set(spec) is None else spec.attribute is not None

    def _context(self, namespace: str, spec: LayerSpec) -> LayerContext:
        """Values that the model offers to a layer."""
        dim = self.config.tree.gnn.dim_inner
        return LayerContext(
            dim=dim,
            dim_in=dim,
            dim_out=dim,
            dim_edge=self.dim_edge,
            max_nodes=self.info.max_nodes,
            degrees=self.config.tree.gt.pna_degrees or self.info.degree_histogram,
            use_edge_attr=self._has_edge_states(spec),
            equivstable=gates_local_layers(self.config),
            **self.group.fields(self.config, namespace),
        )
