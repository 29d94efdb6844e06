"""CIN: messages between nodes, edges and rings as the cells of a complex (https://arxiv.org/abs/2106.12575)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.errors import ArgumentError, check_at_least, check_one_of
from graphbench.layers.dropout import Dropout
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm
from graphbench.models.cell_complex import DIMENSIONS, CellComplex
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.models.ego_nets import Pool
from graphbench.models.graph_trans import graphs_as_nodes
from graphbench.models.requirements import check_same_width
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense


@dataclass(frozen=True)
class ComplexSettings:
    """Cells, and how they are read; every field is a key of the model.

    Attributes:
        longest_ring: nodes of the longest ring that is a cell.
        pool: ``add`` or ``mean``, over the cells of a dimension.
    """

    longest_ring: int = 6
    pool: Pool = "mean"

    def check(self) -> None:
        """Refuses what no model can have.

        Raises:
            ArgumentError: rings of fewer than three nodes, or an unknown pooling.
        """
        check_at_least(3, longest_ring=self.longest_ring)
        check_one_of(get_args(Pool), pool=self.pool)


class CellLayer(nn.Module):
    r"""New states of all cells from their boundaries and from the cells that they bound something together with.

    Equations, c a cell of dimension d, B(c) its boundary, M_d and M'_d networks W_2, BN, relu after W_1, BN, relu::

        b_c = x_c + sum_{a in B(c)} x_a
        u_c = x_c + sum_{a != c, f: a, c in B(f)} relu(W_d [x_a | x_f] + w_d)
        y_c = relu(BN_d(V_d [M_d(u_c) | M'_d(b_c)] + v_d))

    Args:
        dim: channels.

    Shape:
        x (N + C + R, dim), nodes, then edges, then rings -> the same.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.messages: Modules[nn.Linear] = Modules(nn.Linear(2 * dim, dim) for _ in range(DIMENSIONS - 1))
        self.from_above = nn.ModuleList(_network(dim) for _ in range(DIMENSIONS))
        self.from_boundary = nn.ModuleList(_network(dim) for _ in range(DIMENSIONS))
        self.join = nn.ModuleList(_map(2 * dim, dim) for _ in range(DIMENSIONS))

    def forward(self, x: Tensor, cells: CellComplex) -> Tensor:
        """(N + C + R, dim)."""
        own = x.split(cells.counts)
        own_part, coface_part = [], [x.new_zeros(own[0].shape)]
        for linear, states, above in zip(self.messages, own, own[1:]):
            of_sender, of_coface = linear.weight.chunk(2, dim=1)
            own_part.append(F.linear(states, of_sender))
            coface_part.append(F.linear(above, of_coface, linear.bias))
        own_part.append(x.new_zeros(own[-1].shape))
        heard = x + cells.from_above(torch.cat(own_part), torch.cat(coface_part))
        bounded = x + cells.over_boundaries(x)
        parts = zip(
            self.from_above, self.from_boundary, self.join, heard.split(cells.counts), bounded.split(cells.counts)
        )
        return torch.cat([join(torch.cat([above(u), below(b)], dim=1)) for above, below, join, u, b in parts])


@register("CIN")
class CIN(EncodedModel):
    r"""Cell isomorphism network: nodes, edges and rings hear what bounds them and what they bound.

    Equations, layers :class:`CellLayer`, P_d the pooling over cells of dimension d; an edge begins as the mean of e
    over its two directions (without an edge encoder as the sum of its nodes), a ring as the sum of its nodes::

        x <- drop(layer_l(x)),    y = head(drop(sum over d of relu(U_d P_d x + u_d)))

    Args:
        frame: encoders, widths, all of them ``dim``, factory of the head, which reads a row of ``2 dim`` per graph.
        layers: number of them (``gnn.layers_mp``).
        dropout: drop (``gnn.dropout``).
        cells: keys of their own, see :class:`ComplexSettings`.

    Shape:
        batch -> prediction of the head. A layer computes N + C + R rows of ``dim``, and a message for every end of an
        edge and every edge of a ring.

    Differences from the released code: messages within a shared cell are summed once, and every cell takes its own off
    (there one message per pair; the same numbers, but for rounding). Rings have no messages from above, whose map
    there is never called. Batches with fewer than two cells of a dimension are trained on, too. Its model for ZINC
    drops entries of the first states, here of all later ones; its rate is 0 there. Messages between cells that share a
    boundary (CIN++), other complexes, other norms and jumping knowledge are not here.
    """

    layers_from = "gnn"
    of_graphs = True

    def __init__(
        self,
        frame: EdgeFrame,
        layers: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        cells: ComplexSettings = ComplexSettings(),
    ) -> None:
        super().__init__(frame.encoder, frame.edge_encoder, keep_sparse=False)
        dim = frame.dim
        cells.check()
        check_at_least(1, layers=layers)
        check_same_width(frame.dim_encoded, dim, "layers are as wide as encoded nodes")
        if frame.edge_encoder is not None and frame.dim_edge != dim:
            raise ArgumentError(
                ("dim_edge", "dim"), f"edges are cells as wide as nodes, received {frame.dim_edge} and {dim}"
            )
        self.pool: Pool = cells.pool
        self.layers: Modules[CellLayer] = Modules(CellLayer(dim) for _ in range(layers))
        self.maps = nn.ModuleList(nn.Linear(dim, 2 * dim) for _ in range(DIMENSIONS))
        self.dropout, self.head = Dropout(dropout), frame.head(2 * dim)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Undirected edges, rings, and the edges around them."""
        rings = {"longest": arguments["longest_ring"]}
        return {"UndirectedEdges": {}, "Rings": rings, "RingEdges": rings}

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        cells = batch.derived(CellComplex)
        x = cells.first_states(as_dense(h), e)
        for layer in self.layers:
            x = self.dropout(layer(x, cells))
        pooled = cells.pooled(x, self.pool)
        rows = sum(linear(each).relu() for linear, each in zip(self.maps, pooled, strict=True))
        return self.head(self.dropout(rows), batch.derived(graphs_as_nodes))


def _map(dim_in: int, dim: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim_in, dim), BatchNorm(dim), nn.ReLU())


def _network(dim: int) -> nn.Sequential:
    return nn.Sequential(*_map(dim, dim), *_map(dim, dim))
