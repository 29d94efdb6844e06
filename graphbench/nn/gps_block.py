"""GraphGPS's block on plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.errors import ArgumentError, unknown
from graphbench.layers.contract import Attention, LayerContext, LocalLayer
from graphbench.layers.gps import GPSBlock as GPSBlockLayer
from graphbench.nn.attention import attention_of
from graphbench.nn.graphs import plain_graphs, prepare
from graphbench.nn.plain_layer import PlainAttention, check_states


class GPSBlock(nn.Module):
    """Message passing beside attention, each with residual and norm, then a feed-forward network.

    :class:`graphbench.layers.gps.GPSBlock` (https://arxiv.org/abs/2205.12454): ``GPSBlock(64, "GIN", "SFi", heads=4)``.

    Args:
        channels: channels of input and output.
        local: name of a local layer, as in configurations; None for none.
        attention: name of an attention of this package, or the attention itself, whose parameters are then the
            block's; None for none.
        heads: attention heads.
        edge_dim: channels of the edge states, for local layers that read them and for Exphormer with the same
            ``edge_dim``; the block then returns ``(x, edge states)``.
        dropout: probability of dropping an entry after each layer and in the feed-forward network.
        act: activation.
        norm: ``batch``, ``layer``, ``graph`` or ``none``.
        local_options: further arguments of the local layer.
        attention_options: further arguments of the attention, where it is named.
    """

    def __init__(
        self,
        channels: int,
        local: str | None = "GIN",
        attention: str | PlainAttention | None = "Transformer",
        *,
        heads: int = 1,
        edge_dim: int | None = None,
        dropout: float = 0.0,
        act: str = "relu",
        norm: str = "batch",
        local_options: Mapping[str, Any] | None = None,
        attention_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._make_local: Callable[[], LocalLayer] | None = None
        if local is not None:
            dims: dict[str, Any] = {
                "dim": channels,
                "dim_in": channels,
                "dim_out": channels,
                "dim_edge": edge_dim or channels,
            }
            context = LayerContext(**dims, heads=heads, dropout=dropout, act=act)
            self._make_local = partial(_local_layer, local, dict(local_options or {}), context)
        named = isinstance(attention, str)
        if attention is not None:
            attention = attention_of("attention", attention, channels, heads, attention_options or {})
        if attention is not None and attention.edge_dim not in (None, edge_dim):
            name = type(attention).__name__
            raise ArgumentError("edge_dim", f"{name} has edge_dim {attention.edge_dim}, the block {edge_dim}")
        self._attention = (attention,)  # in a tuple: its parameters are in the state of the modules below, not twice
        self.beside = nn.ModuleDict(_modules_outside_layer(attention))
        self.channels = channels
        self.has_edges = edge_dim is not None
        self._make = partial(GPSBlockLayer, channels, dropout=dropout, act=act, norm=norm)
        # Drawn after the local layer, so that a seed gives the parameters that it always gave.
        self.layer = self._make(self._parts(draw_attention=named))

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        *,
        ptr: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_types: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """New node states (N, channels), and edge states (E, edge_dim) where the block has them.

        Args:
            x: (N, channels) node states.
            edge_index: (2, E) source and target, numbered through the batch.
            batch: (N,) graph of every node, ascending; None: one graph.
            ptr: (G+1,) first node of every graph and the total (``cu_seqlens``), in place of ``batch``.
            edge_attr: (E, edge_dim) edge states, where the block has an ``edge_dim``.
            edge_types: (E, D) integer edge types, where the attention has ``num_edge_types`` (FFGT, GRPE).

        Raises:
            ValueError: ``edge_attr`` is missing, or given to a block without ``edge_dim``; the same of ``edge_types``.
        """
        if (edge_attr is not None) != self.has_edges:
            raise ValueError("edge_attr is given exactly where the block has an edge_dim; edge types are edge_types")
        check_states(x, self.channels)
        [attention] = self._attention
        if attention is None:
            if edge_types is not None:
                raise ValueError("edge_types is for FFGT and GRPE with num_edge_types, the block has no attention")
            graphs = plain_graphs(len(x), edge_index, batch, ptr=ptr)
            given = graphs.batch
        else:
            edges = attention._of_block(edge_attr, edge_types)
            graphs = attention._graphs(x, edge_index, batch, ptr, edges)
            _, given = attention._inputs(x, graphs, edges)
        e = graphs.arrange(edge_attr)
        if torch.compiler.is_compiling():
            prepare(self.layer, x, e, given)
        h, e, _ = self.layer(x, e, given)
        out: Tensor = h
        return (out, graphs.restore(e)) if self.has_edges else out

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as the constructor does; those of an attention that was given, too."""
        self.layer.load_state_dict(self._make(self._parts(draw_attention=True)).state_dict())

    def _parts(self, draw_attention: bool) -> list[LocalLayer | Attention]:
        """A new local layer, and the attention's layer."""
        parts: list[LocalLayer | Attention] = [] if self._make_local is None else [self._make_local()]
        [attention] = self._attention
        if attention is not None:
            if draw_attention:
                attention.reset_parameters()
            parts.append(attention.layer)
        return parts


def _local_layer(name: str, options: dict[str, Any], context: LayerContext) -> LocalLayer:
    layer_class = registry.lookup(registry.LOCAL_LAYERS, name)
    wrong = [option for option in options if option not in registry.parameters(layer_class)]
    if wrong:
        raise unknown(f"argument of {name}", wrong[0], registry.parameters(layer_class))
    return registry.construct(layer_class, options, context)


def _modules_outside_layer(attention: PlainAttention | None) -> dict[str, nn.Module]:
    """Modules of an attention outside its layer."""
    return {} if attention is None else {name: part for name, part in attention.named_children() if name != "layer"}
