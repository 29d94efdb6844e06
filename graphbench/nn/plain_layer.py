"""Base class of attentions on plain tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.contract import HasAttentionWeights
from graphbench.layers.contract import GlobalAttention
from graphbench.nn.graphs import PlainGraphs, Transforms, plain_graphs, prepare


class PlainAttention(nn.Module):
    """An attention called with ``(x, edge_index, batch)``.

    Args:
        make: constructs the layer with fresh parameters; can be pickled (``functools.partial`` of the class).
        transforms: transforms that the graphs need, see :mod:`graphbench.nn.graphs`.

    Attributes:
        reads_edge_types: whether ``edge_attr`` makes a difference.
    """

    reads_edge_types: ClassVar[bool] = False

    def __init__(self, make: Callable[[], GlobalAttention], transforms: Transforms = ()) -> None:
        super().__init__()
        self.make = make
        self.transforms = transforms
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
            edge_attr: (E, D) integer edge types; only FFGT and GRPE read them.
        """
        graphs = self._graphs(x, edge_index, batch, ptr, edge_attr).batch
        if torch.compiler.is_compiling():
            prepare(self.layer, x, None, graphs)
        return self.layer(x, None, graphs)

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
        graphs, weights = self._graphs(x, edge_index, batch, ptr, edge_attr).batch, None
        if isinstance(self.layer, HasAttentionWeights):
            weights = self.layer.attention_weights(x, None, graphs)
        if weights is None or not all(map(len, weights)):
            raise TypeError(f"{type(self).__name__} never forms attention weights")
        return weights

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as the constructor does."""
        self.layer.load_state_dict(self.make().state_dict())

    _reset_parameters = reset_parameters
    """The name that PyTorch Geometric's GPSConv calls: that of ``nn.MultiheadAttention``."""

    def _graphs(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None, ptr: Tensor | None, edge_attr: Tensor | None
    ) -> PlainGraphs:
        types = edge_attr if self.reads_edge_types else None
        return plain_graphs(len(x), edge_index, batch, ptr=ptr, edge_attr=types, transforms=self.transforms)
