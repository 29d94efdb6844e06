"""GraphGPS's block on plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.errors import unknown
from graphbench.layers.contract import LayerContext, LocalLayer
from graphbench.layers.gps import GPSBlock as GPSBlockLayer
from graphbench.nn.attention import ATTENTIONS
from graphbench.nn.graphs import Transforms, plain_graphs, prepare
from graphbench.nn.plain_layer import PlainAttention


class GPSBlock(nn.Module):
    """Message passing beside attention, each with residual and norm, then a feed-forward network.

    :class:`graphbench.layers.gps.GPSBlock` (https://arxiv.org/abs/2205.12454): ``GPSBlock(64, "GIN", "SFi", heads=4)``.

    Args:
        channels: channels of input and output.
        local: name of a local layer, as in configurations; None for none.
        attention: name of an attention of this package, or the attention itself; None for none.
        heads: attention heads.
        edge_dim: channels of the edge states, for local layers that read them; the block then returns
            ``(x, edge states)``.
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
        makers: list[Callable[[], Any]] = []
        if local is not None:
            dims: dict[str, Any] = {
                "dim": channels,
                "dim_in": channels,
                "dim_out": channels,
                "dim_edge": edge_dim or channels,
            }
            context = LayerContext(**dims, heads=heads, dropout=dropout, act=act)
            makers.append(partial(_local_layer, local, dict(local_options or {}), context))
        if isinstance(attention, str):
            if attention not in ATTENTIONS:
                raise unknown("attention", attention, ATTENTIONS)
            attention = ATTENTIONS[attention](channels, heads, **(attention_options or {}))
        self._transforms: Transforms = () if attention is None else attention.transforms
        if attention is not None:
            makers.append(attention.make)
        self._make = partial(_block, channels, makers, dropout, act, norm)
        self.has_edges = edge_dim is not None
        self.layer = self._make()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        *,
        ptr: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """New node states (N, channels), and edge states (E, edge_dim) where the block has them.

        Args:
            x: (N, channels) node states.
            edge_index: (2, E) source and target, numbered through the batch.
            batch: (N,) graph of every node, ascending; None: one graph.
            ptr: (G+1,) first node of every graph and the total (``cu_seqlens``), in place of ``batch``.
            edge_attr: (E, edge_dim) edge states, where the block has an ``edge_dim``.

        Raises:
            ValueError: ``edge_attr`` is missing, or given to a block without ``edge_dim``.
        """
        if (edge_attr is not None) != self.has_edges:
            raise ValueError("edge_attr is given exactly where the block has an edge_dim")
        graphs = plain_graphs(len(x), edge_index, batch, ptr=ptr, transforms=self._transforms)
        e = graphs.arrange(edge_attr)
        if torch.compiler.is_compiling():
            prepare(self.layer, x, e, graphs.batch)
        h, e, _ = self.layer(x, e, graphs.batch)
        out: Tensor = h
        return (out, graphs.restore(e)) if self.has_edges else out

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as the constructor does."""
        self.layer.load_state_dict(self._make().state_dict())


def _local_layer(name: str, options: dict[str, Any], context: LayerContext) -> LocalLayer:
    layer_class = registry.lookup(registry.LOCAL_LAYERS, name)
    wrong = [option for option in options if option not in registry.parameters(layer_class)]
    if wrong:
        raise unknown(f"argument of {name}", wrong[0], registry.parameters(layer_class))
    return registry.construct(layer_class, options, context)


def _block(channels: int, makers: list[Callable[[], Any]], dropout: float, act: str, norm: str) -> GPSBlockLayer:
    return GPSBlockLayer(channels, [make() for make in makers], dropout=dropout, act=act, norm=norm)
