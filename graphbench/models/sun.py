"""SUN: a bag of ego nets that share what their nodes know (https://arxiv.org/abs/2206.11140)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.dropout import Dropout
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm, NormedSequential
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.models.ego_nets import EgoNets
from graphbench.models.graph_trans import graphs_as_nodes
from graphbench.models.requirements import check_same_width
from graphbench.ops.propagate import gather, relu_sum, sum_at_target
from graphbench.ops.segment import segment_mean
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense
from graphbench.structures.adjacency import Adjacency

CONVOLUTIONS = 4
"""Convolutions of a layer; each has edge columns of its own."""
MARKS = 2


@dataclass(frozen=True)
class BagSettings:
    """The nets of a bag; every field is a key of the model.

    Attributes:
        hops: radius of a net.
        marked: first states say which copy is the root (EGO+); False: they do not (EGO).
    """

    hops: int = 3
    marked: bool = True


class GINEConv(nn.Module):
    """``W_2 relu(BN(W_1 ((1 + eps) x_t + sum over edges s -> t of relu(x_s + e_st))))``, ``e`` as wide as ``x``.

    Args:
        dim_in: channels of x and e.
        dim: channels inside and of the result.
    """

    def __init__(self, dim_in: int, dim: int) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.mlp = _mlp(dim_in, dim)

    def forward(self, x: Tensor, e: Tensor | None, adj: Adjacency) -> Tensor:
        """(R, dim) from x (R, dim_in) and e, a row per edge, or None for 0."""
        if e is None:
            heard = torch.addcmul(sum_at_target(adj, gather(adj, x, "source").relu()), x, 1 + self.eps)
        else:
            heard, _ = relu_sum(adj, x, e, eps=self.eps)
        return self.mlp(heard)


class SUNLayer(nn.Module):
    r"""New states of all copies from those of their net, their root, and the other copies of their node.

    Equations, x^k_v the state of node v in the net of k, r_k = x^k_k, s_k = sum_v x^k_v, m_v = mean_k x^k_v, G a
    :class:`GINEConv` along the edges of the net of k (of m: those of the graph), U = W_2 relu(BN(W_1 .))::

        v /= k:  x^k_v <- U_1 r_v + U_2 r_k + U_3 x^k_v + U_4 s_k + BN(G_1 x^k)_v + BN(G_2 m)_v
        v  = k:  x^k_k <- U_5 r_k + U_6 s_k + BN(G_3 x^k)_k + BN(G_4 m)_k

    Args:
        dim_in: channels of x; edges have ``4 dim_in`` columns, those of G_1, .., G_4.
        dim: channels of the result.

    Shape:
        x (M, dim_in), e (E, 4 dim_in) or None -> (M, dim), M the pairs of nodes of a graph
    """

    def __init__(self, dim_in: int, dim: int) -> None:
        super().__init__()
        self.of_copies, self.of_nodes, self.of_roots, self.of_root_nodes = (
            GINEConv(dim_in, dim) for _ in range(CONVOLUTIONS)
        )
        self.norms: Modules[BatchNorm] = Modules(BatchNorm(dim) for _ in range(CONVOLUTIONS))
        self.node, self.root, self.copy, self.net = (_mlp(dim_in, dim) for _ in range(4))
        self.own_root, self.own_net = _mlp(dim_in, dim), _mlp(dim_in, dim)

    def forward(self, x: Tensor, e: Tensor | None, nets: EgoNets, batch: GraphBatch) -> Tensor:
        """(M, dim), without activation."""
        columns = (None,) * CONVOLUTIONS if e is None else e.chunk(CONVOLUTIONS, dim=1)
        inside, whole = nets.inside.adjacency(), batch.adjacency()
        e_copies, e_roots = (None if each is None else each.index_select(0, nets.edge) for each in columns[::2])
        roots, sums = x.index_select(0, nets.centre), nets.over_nets(x, "add")
        means = nets.over_copies(x, "mean")

        seen = self.of_copies(x, e_copies, inside)
        seen = seen.index_copy(0, nets.others, self.norms[0](seen.index_select(0, nets.others)))
        of_node = self.node(roots) + self.norms[1](self.of_nodes(means, columns[1], whole), batch)
        of_net = self.root(roots) + self.net(sums)
        new = self.copy(x) + seen + nets.copied(of_node) + nets.to_nets(of_net)

        seen = self.of_roots(x, e_roots, inside).index_select(0, nets.centre)
        own = self.own_root(roots) + self.own_net(sums) + self.norms[2](seen, batch)
        own = own + self.norms[3](self.of_root_nodes(means, columns[3], whole), batch)
        return new.index_copy(0, nets.centre, own)


@register("SUN")
class SUN(EncodedModel):
    r"""Subgraph union network: a bag of copies of the graph, one per node k, with the edges of k's ego net.

    Equations, layers :class:`SUNLayer`, 1[.] 1 where it is true and else 0::

        x^k_v = drop([1[v = k] | 1[v /= k] | h_v]),   x <- drop(relu(layer_l(x, e))),   l = 1 .. layers
        y = head(drop(relu(W mean_{k, v} x^k_v + b)))

    Args:
        frame: encoders, widths, those of nodes and layers the same, factory of the head, which reads one row per graph,
            ``2 dim`` wide. Edge states have columns for each of four convolutions per layer, as wide as their input.
        layers: number of them (``gnn.layers_mp``).
        dropout: drop (``gnn.dropout``).
        bag: keys of their own, see :class:`BagSettings`.

    Shape:
        batch -> prediction of the head. A bag has a state for each of n^2 pairs of nodes of a graph: nodes outside of a
        net have no edges in it, but hear its root and their other copies. Six layers of width 64 keep 21 kB per pair
        for the backward pass: 1.5 GB for 128 molecules of ZINC, 20 GB for 32 peptides.

    Differences from the paper: none known; where it leaves it open, sums and means are those of its code. Differences
    from the released code: batches of one graph are trained on, too. Its variants for other data, with residuals,
    without MLPs or readout, and optimised by ASAM, are not here.
    """

    layers_from = "gnn"
    of_graphs = True

    def __init__(
        self,
        frame: EdgeFrame,
        layers: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        bag: BagSettings = BagSettings(),
    ) -> None:
        super().__init__(frame.encoder, frame.edge_encoder, keep_sparse=False)
        dim, dim_edge = frame.dim, frame.dim_edge
        check_at_least(1, hops=bag.hops, layers=layers)
        check_same_width(frame.dim_encoded, dim, "layers are as wide as encoded nodes")
        widths = [dim + MARKS * bag.marked, *[dim] * (layers - 1)]
        columns = CONVOLUTIONS * sum(widths)
        if frame.edge_encoder is not None and dim_edge < columns:
            raise ArgumentError(
                "dim_edge",
                f"layers read {columns} columns of edge states, received {dim_edge}; set gnn.dim_edge to {columns}",
            )
        self.marked, self.columns = bag.marked, [CONVOLUTIONS * width for width in widths]
        self.layers: Modules[SUNLayer] = Modules(SUNLayer(width, dim) for width in widths)
        self.dropout = Dropout(dropout)
        self.lin_out, self.head = nn.Linear(dim, 2 * dim), frame.head(2 * dim)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The edges inside the nets; all pairs of nodes have a state anyway."""
        return {"EgoNetEdges": {"hops": arguments["hops"]}}

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        nets = batch.derived(EgoNets, True)
        x = nets.copied(as_dense(h))
        if self.marked:
            is_root = x.new_zeros(len(x), 1).index_fill(0, nets.centre, 1.0)
            x = torch.cat([is_root, 1 - is_root, x], dim=1)
        x = self.dropout(x)
        for layer, own in zip(self.layers, self._columns(e), strict=True):
            x = self.dropout(layer(x, own, nets, batch).relu())
        rows = segment_mean(nets.over_nets(x, "mean"), batch.ragged)
        return self.head(self.dropout(self.lin_out(rows).relu()), batch.derived(graphs_as_nodes))

    def _columns(self, e: Tensor | None) -> list[Tensor | None]:
        """Columns of the edge states that every layer reads."""
        if e is None:
            return [None] * len(self.columns)
        return list(e[:, : sum(self.columns)].split(self.columns, dim=1))


def _mlp(dim_in: int, dim: int) -> NormedSequential:
    return NormedSequential(nn.Linear(dim_in, dim), BatchNorm(dim), nn.ReLU(), nn.Linear(dim, dim))
