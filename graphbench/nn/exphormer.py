"""Exphormer's attention on plain tensors."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from graphbench.encoders.expander import ExpanderEdges
from graphbench.errors import check_at_least
from graphbench.layers.attention.exphormer import Exphormer as ExphormerLayer
from graphbench.nn.graphs import PlainGraphs
from graphbench.nn.plain_layer import PlainAttention
from graphbench.structures import GraphBatch


class Exphormer(PlainAttention):
    """Attention along edges, edges of an expander graph and to virtual nodes (https://arxiv.org/abs/2303.06147).

    :class:`graphbench.encoders.expander.ExpanderEdges` and :class:`graphbench.layers.attention.exphormer.Exphormer`.
    The expander of a graph depends on ``seed``, its nodes and its edges only. It takes a while to draw; it is
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
        check_at_least(0, degree=degree)
        make_pairs = partial(
            ExpanderEdges, channels, edge_dim or channels, expander=degree > 0, num_virtual_nodes=num_virtual_nodes
        )
        edge, pairs = None if edge_dim else nn.Embedding(1, channels), make_pairs()
        make = partial(ExphormerLayer, channels, heads, dim_edge=edge_dim or channels)
        super().__init__(make, {"Expander": {"degree": degree, "seed": seed}} if degree else {}, channels)
        self._make_pairs = make_pairs
        self.edge_dim = edge_dim
        self.edge = edge
        self.pairs = pairs

    def _inputs(self, x: Tensor, graphs: PlainGraphs, edge_attr: Tensor | None) -> tuple[Tensor | None, GraphBatch]:
        """States of the edges, and the batch with the pairs.

        Raises:
            ValueError: ``edge_attr`` is missing, or given to a layer without ``edge_dim``.
        """
        if (edge_attr is None) == (self.edge is None):
            raise ValueError("edge_attr is given exactly where the layer has an edge_dim")
        edges = edge_attr if self.edge is None else self.edge.weight.expand(graphs.batch.num_edges, -1)
        e = graphs.arrange(edges)
        return e, self.pairs(x, e, graphs.batch)

    def reset_parameters(self) -> None:
        """Draws all parameters anew, as the constructor does."""
        self.pairs.load_state_dict(self._make_pairs().state_dict())
        super().reset_parameters()
        if self.edge is not None:
            self.edge.reset_parameters()

    _reset_parameters = reset_parameters
