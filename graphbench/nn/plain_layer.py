"""Base class of attentions on plain tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graphbench.contract import HasAttentionWeights
from graphbench.layers.contract import Attention
from graphbench.nn.graphs import PlainGraphs, hashable, plain_graphs, prepare
from graphbench.structures import GraphBatch


class PlainAttention(nn.Module):
    """An attention called with ``(x, edge_index, batch)``: ``PlainAttention(functools.partial(MyAttention, 64))``.

    Args:
        make: constructs the layer, a :class:`~graphbench.layers.contract.GlobalAttention`, with fresh parameters; a
            ``functools.partial`` of the class can be pickled, a ``lambda`` cannot.
        transforms: transforms that the graphs need, as ``required_transforms`` of the layer returns them:
            ``{"ShortestPaths": {}}``.
        channels: columns of ``x``, so that others are refused; None: the layer sees to that.

    Attributes:
        layer: the layer itself.
        num_edge_types: number of the last edge type in ``edge_attr``; None: edge types are not read.
        edge_dim: columns of the float ``edge_attr``; None: edge states are not read.
    """

    num_edge_types: int | None = None
    edge_dim: int | None = None

    def __init__(
        self,
        make: Callable[[], Attention],
        transforms: Mapping[str, Mapping[str, Any]] | None = None,
        channels: int | None = None,
    ) -> None:
        super().__init__()
        self.make = make
        self.transforms = hashable(transforms or {})
        self.channels = channels
        self.layer = make()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        *,
        ptr: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """New node states (N, channels), without residual and norm around the layer.

        Args:
            x: (N, channels) node states.
            edge_index: (2, E) source and target, numbered through the batch.
            batch: (N,) graph of every node, ascending; None: one graph.
            ptr: (G+1,) first node of every graph and the total (``cu_seqlens``), in place of ``batch``.
            edge_attr: (E, D) integer edge types, for FFGT and GRPE with ``num_edge_types``; (E, edge_dim) edge states,
                for Exphormer with ``edge_dim``. The other attentions do not read it.

        Raises:
            ValueError: the tensors do not describe graphs; ``edge_attr`` is missing, or given to one of these three
                without that argument.
        """
        e, given = self._inputs(x, self._graphs(x, edge_index, batch, ptr, edge_attr), edge_attr)
        if torch.compiler.is_compiling():
            prepare(self.layer, x, e, given)
        return self.layer.step(x, e, given)[0]

    def attention_weights(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        *,
        ptr: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> list[Tensor]:
        """The weights without dropout, (heads, n, n) per graph; row i is what node i attends to.

        Raises:
            TypeError: this attention never forms its weights.
        """
        e, given = self._inputs(x, self._graphs(x, edge_index, batch, ptr, edge_attr), edge_attr)
        weights = None
        if isinstance(self.layer, HasAttentionWeights):
            weights = self.layer.attention_weights(x, e, given)
        if weights is None or not all(map(len, weights)):
            raise TypeError(f"{type(self.layer).__name__} never forms attention weights")
        return weights

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as the constructor does."""
        self.layer.load_state_dict(self.make().state_dict())

    _reset_parameters = reset_parameters
    """The name that PyTorch Geometric's GPSConv calls: that of ``nn.MultiheadAttention``."""

    def _graphs(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None, ptr: Tensor | None, edge_attr: Tensor | None
    ) -> PlainGraphs:
        """The batch with what the layer reads of it; arguments of :meth:`forward`.

        Raises:
            ValueError: as :meth:`forward`.
        """
        check_states(x, self.channels)
        types = self._types(edge_attr)
        return plain_graphs(len(x), edge_index, batch, ptr=ptr, edge_attr=types, transforms=self.transforms)

    def _types(self, edge_attr: Tensor | None) -> Tensor | None:
        """Edge types (E, D) among the arguments of :meth:`forward`; None where they are not read."""
        return None

    def _inputs(self, x: Tensor, graphs: PlainGraphs, edge_attr: Tensor | None) -> tuple[Tensor | None, GraphBatch]:
        """Edge states and batch that the layer is called with; ``graphs`` are those of :meth:`_graphs`."""
        return None, graphs.batch

    def _of_block(self, edge_attr: Tensor | None, edge_types: Tensor | None) -> Tensor | None:
        """The ``edge_attr`` of this attention in a block with edge states and edge types.

        Raises:
            ValueError: there are edge types, and it reads none.
        """
        if edge_types is not None and self.num_edge_types is None:
            name = type(self.layer).__name__
            raise ValueError(f"edge_types is for FFGT and GRPE with num_edge_types, the block has {name} without")
        return edge_types if self.edge_dim is None else edge_attr


def check_states(x: Tensor, channels: int | None) -> None:
    """Refuses node states of another shape than (N, channels).

    Raises:
        ValueError: saying what was received.
    """
    if x.dim() != 2 or x.shape[1] != (channels or x.shape[1]):
        width = "" if channels is None else f" with channels={channels}"
        raise ValueError(f"x must be (N, channels){width}, received {tuple(x.shape)}")
