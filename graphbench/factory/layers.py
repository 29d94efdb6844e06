"""From configuration to the layers of a model: what the names of ``layer_type`` stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from graphbench import registry
from graphbench.config import Config
from graphbench.config.load import LEFT_OUT, Part, component_names, parts_of
from graphbench.config.model_keys import GRAPH_LAYERS
from graphbench.encoders.expander import ExpanderEdges
from graphbench.errors import UserError
from graphbench.factory.compat import variant
from graphbench.factory.config_errors import config_errors
from graphbench.layers.gps import GPSBlock
from graphbench.layers.single import SingleBlock
from graphbench.structures import DataInfo

_SOURCES = {
    "gt": ("gt.layer_type", "gt.layers"),
    "gnn": ("gnn.layer_type", "gnn.layers_mp"),
    "graphormer": ("graphormer", "graphormer.num_layers"),
}
"""Keys that name and count the blocks, by the ``layers_from`` of a model."""


_EDGE_SETS = {"edge_index": None, "expander_edge_index": "exp"}
"""Names of edge sets in Exphormer's code that are called otherwise here."""

_OF_BIGBIRD = ("attention_type", "num_random_blocks", "block_size", "use_bias", "hidden_act", "layer_norm_eps")


def _edge_set(part: Part) -> str | None:
    return None if part.edges is None else _EDGE_SETS.get(part.edges, part.edges)


def reads_expander(parts: Sequence[Part]) -> bool:
    """Whether a part of a block works on the pairs that Exphormer's ``prep`` group describes."""
    return any(part.name == "Exphormer" or _edge_set(part) == "exp" for part in parts)


def layer_kinds(config: Config) -> Iterator[tuple[str, str, Any]]:
    """Group, name and class of every kind of layer that the model is made of, those of its blocks included."""
    model = registry.lookup("models", config.tree.model.type, config.where("model.type"))
    group, only = getattr(model, "layers_from", "gt"), getattr(model, "layer", None)
    for name in [only] if only else dict.fromkeys(component_names(config.value(_SOURCES[group][0]))):
        for room in GRAPH_LAYERS:
            if name in registry.names(room):
                yield group, name, registry.lookup(room, name)


@dataclass(frozen=True)
class LayerFactory:
    """Makes the layers of one model.

    Args:
        config: a loaded configuration.
        info: facts of the data.
        dim_edge: width of the edge states.
        has_edges: whether an edge encoder supplies edge states.
        layers_from: see :class:`~graphbench.models.stacked.GPSModel`.
        layer: the one kind of block of the model, or None for what the configuration names.
        feed_forward: False for blocks of one part and nothing else (Exphormer's SingleModel).
    """

    config: Config
    info: DataInfo
    dim_edge: int
    has_edges: bool
    layers_from: str = "gt"
    layer: str | None = None
    feed_forward: bool = True

    @property
    def key(self) -> str:
        """Key that names the layers."""
        return _SOURCES[self.layers_from][0]

    @property
    def where(self) -> str:
        """Where that key was set."""
        return self.config.where(self.key)

    @property
    def number(self) -> int:
        """How many blocks the model has."""
        count: int = self.config.value(_SOURCES[self.layers_from][1])
        return count

    @property
    def parts(self) -> list[Part]:
        """What the configuration names, ``None`` parts included."""
        if self.layer is not None:
            return [Part(self.layer)]
        return parts_of(self.config.value(self.key))

    def _named(self, room: str) -> list[Part]:
        names = registry.names(room)
        return [part for part in self.parts if part.name in names]

    def local(self) -> Callable[[int, int], nn.Module] | None:
        """Maker of the one local layer, from its widths; None where none is named. For two-branch models."""
        return self._single("layers/local", lambda part, a, b: self._build("layers/local", part, dim_in=a, dim_out=b))

    def attention(self) -> Callable[[], nn.Module] | None:
        """Maker of the one attention; None where none is named. For two-branch models."""
        return self._single("layers/attention", lambda part: self._build("layers/attention", part))

    def _single(self, room: str, make: Callable[..., nn.Module]) -> Callable[..., nn.Module] | None:
        named, known = self._named(room), len(self._named("layers/local")) + len(self._named("layers/attention"))
        if len(named) > 1 or not known or known != sum(part.name not in LEFT_OUT for part in self.parts):
            raise UserError(
                f"{self.where}: {self.key} of this model is <local>+<global> with one of each at most (None leaves one "
                f"out), received '{self.config.value(self.key)}'."
            )
        return (lambda *widths: make(named[0], *widths)) if named else None

    def block(self, dim_in: int | None = None, dim_out: int | None = None) -> nn.Module:
        """One block of a stacked model.

        Args:
            dim_in: width of what it reads; the model's by default.
            dim_out: width of what it returns; the model's by default.
        """
        complete = self._named("layers/blocks")
        # Some names are both a layer of its own and a part of a block; models of whole layers read the former.
        if complete and (len(self.parts) == 1 or not self._all_parts_known()):
            if len(self.parts) > 1:
                raise UserError(
                    f"{self.where}: {complete[0].name} is a complete layer and stands alone, received "
                    f"'{self.config.value(self.key)}'."
                )
            return self._build("layers/blocks", complete[0], dim_in=dim_in, dim_out=dim_out)
        return self._parallel()

    def _all_parts_known(self) -> bool:
        known = {*registry.names("layers/local"), *registry.names("layers/attention"), *LEFT_OUT}
        return all(part.name in known for part in self.parts)

    def _parallel(self) -> nn.Module:
        config, tree = self.config, self.config.tree
        if not any(part.name not in LEFT_OUT for part in self.parts):
            raise UserError(
                f"{self.where}: {self.key} is parts joined by '+', at least one of them not None, received "
                f"'{config.value(self.key)}'."
            )
        layers: list[nn.Module | None] = []
        for part in self.parts:
            if part.name in LEFT_OUT:
                layers.append(None)
            else:
                room = "layers/local" if part.name in registry.names("layers/local") else "layers/attention"
                layers.append(self._build(room, part))
        edges, dropout, norm = [_edge_set(part) for part in self.parts], tree.gt.dropout, self._norm
        if not self.feed_forward:
            (only, *more), (pairs, *_) = layers, edges
            if more or only is None:
                raise UserError(
                    f"{self.where}: blocks of this model have one part, received '{config.value(self.key)}'."
                )
            return SingleBlock(tree.gt.dim_hidden, only, edges=pairs, dropout=dropout, norm=norm)
        with config_errors(config, self.key):
            return GPSBlock(
                tree.gt.dim_hidden,
                layers,
                edges=edges,
                dropout=dropout,
                **{"act": tree.gnn.act, "norm": norm, **variant(config, "layers", "GPSBlock")},
            )

    def prepare(self) -> nn.Module | None:
        """What puts the pairs of Exphormer's attention together before the first block; None where nothing reads it."""
        config, prep = self.config, self.config.tree.prep
        if self.layers_from != "gt" or not reads_expander(self.parts):
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

    def _build(self, room: str, part: Part, *, dim_in: int | None = None, dim_out: int | None = None) -> nn.Module:
        config = self.config
        kind = registry.lookup(room, part.name, self.where)
        if getattr(kind, "needs_edges", False) and not self.has_edges and part.edges is None:
            raise UserError(
                f"{self.where}: {part.name} reads edge features; set dataset.edge_encoder to true "
                f"(DummyEdge where the data set has none)."
            )
        own, group = config.own(self.layers_from, part.name), self.layers_from
        with config_errors(config, f"{group}.{part.name}", "gt.n_heads", self.key):
            layer: nn.Module = registry.construct(
                kind,
                own,
                {
                    **self._context(room, dim_in, dim_out),
                    "use_edge_attr": part.edges in (None, "exp") or part.attribute is not None,
                    **variant(config, room, part.name),
                },
            )
        return layer

    def _context(self, room: str, dim_in: int | None, dim_out: int | None) -> dict[str, Any]:
        """What the surroundings supply to a layer, by the parameter's name."""
        tree = self.config.tree
        dim = tree.gnn.dim_inner
        shared = {
            "dim": dim,
            "dim_in": dim_in or dim,
            "dim_out": dim_out or dim,
            "dim_edge": self.dim_edge,
            "act": tree.gnn.act,
            "heads": tree.gt.n_heads,
            "attn_dropout": tree.gt.attn_dropout,
            "degrees": tuple(tree.gt.pna_degrees) or self.info.degree_histogram,
            "max_nodes": self.info.max_nodes,
            "hidden_dropout": tree.gt.dropout,
            **{name: value for name, value in tree.gt.bigbird.items() if name in _OF_BIGBIRD},
            "equivstable": "EquivStableLapPE" in [part.name for part in parts_of(tree.dataset.node_encoder_name)],
        }
        if self.layers_from == "gnn":
            return shared | {
                "dropout": tree.gnn.dropout,
                "residual": tree.gnn.residual,
                "batchnorm": tree.gnn.batchnorm,
                "norm": "batch" if tree.gnn.batchnorm else "none",
                "l2norm": tree.gnn.l2norm,
                "agg": tree.gnn.agg,
                "normalize_adj": tree.gnn.normalize_adj,
                "self_msg": tree.gnn.self_msg,
                "msg_direction": tree.gnn.msg_direction,
            }
        if self.layers_from == "graphormer":
            own = tree.graphormer
            return shared | {
                "dim": own.embed_dim,
                "heads": own.num_heads,
                "dropout": own.dropout,
                "attn_dropout": own.attention_dropout,
                "mlp_dropout": own.mlp_dropout,
            }
        if room == "layers/attention":
            return shared | {"dropout": tree.gt.attn_dropout}
        if room == "layers/local":
            return shared | {"dropout": tree.gt.dropout}
        return shared | {
            "dropout": tree.gt.dropout,
            "residual": tree.gt.residual,
            "norm": self._norm,
            "full_graph": tree.gt.full_graph,
            "gamma": tree.gt.gamma,
        }
