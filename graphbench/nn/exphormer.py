"""Exphormer's attention on plain tensors."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from graphbench.encoders.expander import ExpanderEdges
from graphbench.errors import check_at_least
from graphbench.layers.attention.exphormer import Exphormer as ExphormerLayer
from graphbench.nn.graphs import hashable, plain_graphs, prepare


class Exphormer(nn.Module):
    """Attention along edges, edges of an expander graph and to virtual nodes (https://arxiv.org/abs/2303.06147).

    :class:`graphbench.encoders.expander.ExpanderEdges` and :class:`graphbench.layers.attention.exphormer.Exphormer`.
    The expander of a graph depends on ``seed``, its size and its number in the batch. It takes a while to draw; it is
    kept as long as ``edge_index`` lives. Virtual nodes begin anew in every layer.

    Args:
        channels: channels of input and output, divisible by ``heads``.
        heads: number of heads.
        edge_dim: columns of the float ``edge_attr``; None: all edges have one learned feature.
        degree: d, every node has 2 d expander edges; 0: no expander.
        num_virtual_nodes: virtual nodes per graph.
        seed: seed of the expanders.
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        *,
        edge_dim: int | None = None,
        degree: int = 3,
        num_virtual_nodes: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_at_least(0, degree=degree)
        self._make_pairs = partial(
            ExpanderEdges, channels, edge_dim or channels, expander=degree > 0, num_virtual_nodes=num_virtual_nodes
        )
        self._make_layer = partial(ExphormerLayer, channels, heads, dim_edge=edge_dim or channels)
        self._transforms = hashable({"Expander": {"degree": degree, "seed": seed}} if degree else {})
        self.edge = None if edge_dim else nn.Embedding(1, channels)
        self.pairs = self._make_pairs()
        self.layer = self._make_layer()

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
            edge_attr: (E, edge_dim) edge states, where the layer has an ``edge_dim``.

        Raises:
            ValueError: ``edge_attr`` is missing, or given to a layer without ``edge_dim``.
        """
        if (edge_attr is None) == (self.edge is None):
            raise ValueError("edge_attr is given exactly where the layer has an edge_dim")
        graphs = plain_graphs(len(x), edge_index, batch, ptr=ptr, transforms=self._transforms)
        edges = edge_attr if self.edge is None else self.edge.weight.expand(edge_index.shape[1], -1)
        e = graphs.arrange(edges)
        pairs = self.pairs(x, e, graphs.batch)
        if torch.compiler.is_compiling():
            prepare(self.layer, x, e, pairs)
        out, _ = self.layer(x, e, pairs)
        return out

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as the constructor does."""
        self.pairs.load_state_dict(self._make_pairs().state_dict())
        self.layer.load_state_dict(self._make_layer().state_dict())
        if self.edge is not None:
            self.edge.reset_parameters()

    _reset_parameters = reset_parameters
    """The name that PyTorch Geometric's GPSConv calls: that of ``nn.MultiheadAttention``."""
