"""Nodes in soft clusters: DiffPool (https://arxiv.org/abs/1806.08804) by two gated networks, for MGT."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.layers.local.gated_gcn import CustomGatedGCN
from graphbench.layers.norm import BatchNorm
from graphbench.ops.propagate import propagate
from graphbench.ops.segment import segment_sum
from graphbench.structures import GraphBatch

_LOG = 1e-15


class GatedNetwork(nn.Module):
    """Two GatedGCNs without residuals, both read: ``relu(W [x_1 | x_2] + b)``, ``x_l = BN(GatedGCN_l(x_{l-1}, e))``.

    Args:
        dim: channels of nodes and edges.
        dim_out: channels of x_2 and of the result.
        distance_gates: gate messages by distances of ``state.stable_encoding``.

    Shape:
        h (N, dim), e (E, dim) -> (N, dim_out)
    """

    def __init__(self, dim: int, dim_out: int, *, distance_gates: bool) -> None:
        super().__init__()
        self.first = CustomGatedGCN(dim, dim, dim_edge=dim, residual=False, equivstable=distance_gates)
        self.second = CustomGatedGCN(
            dim, dim_out, dim_edge=dim, residual=False, equivstable=distance_gates, update_edges=False
        )
        del self.second.edge_norm  # of edge states that nobody reads
        self.norms = nn.ModuleList([BatchNorm(dim), BatchNorm(dim_out)])
        self.lin = nn.Linear(dim + dim_out, dim_out)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """(N, dim_out)."""
        new, e, _ = self.first.step(h, e, batch)
        x = self.norms[0](new, batch)
        new, _, _ = self.second.step(x, e, batch)
        return self.lin(torch.cat([x, self.norms[1](new, batch)], dim=1)).relu()


def cluster_states(share: Tensor, z: Tensor, batch: GraphBatch) -> Tensor:
    """(G, K, d) sum over the nodes of every graph of their shares (N, K) in a cluster, times their states (N, d)."""
    return segment_sum(share.unsqueeze(2) * z.unsqueeze(1), batch.ragged)


def cluster_loss(share: Tensor, batch: GraphBatch) -> Tensor:
    r"""() ``|A - S S^T|_F / sum_g n_g^2 - sum_ik s_ik log(s_ik) / N``: joined nodes share clusters, each is in few.

    The norm is ``|A|^2 - 2 sum over edges of s_i . s_j + sum_g |S_g^T S_g|^2``, in O(N K^2 + E K); repeated edges count
    as others.

    Args:
        share: S (N, K), rows that sum to 1.
        batch: the graphs, A their edges.
    """
    nodes, edges, graphs = batch.real("node"), batch.real("edge"), batch.real("graph")
    entropy = -(share * (share + _LOG).log())
    joined = share * propagate(batch.adjacency(), share)
    within = segment_sum(share.unsqueeze(2) * share.unsqueeze(1), batch.ragged).square()
    pairs = batch.ragged.size_tensor.square().to(share.dtype)
    count, joins = share.new_full((), len(share)), share.new_full((), batch.num_edges)
    if nodes is not None and edges is not None and graphs is not None:
        entropy, joined, within, pairs = (
            nodes.select(entropy),
            nodes.select(joined),
            graphs.select(within),
            graphs.select(pairs),
        )
        count, joins = nodes.count.to(share.dtype), edges.count.to(share.dtype)
    distance = (joins - 2 * joined.sum() + within.sum()).clamp(min=_LOG).sqrt()
    return distance / pairs.sum().clamp(min=1) + entropy.sum() / count.clamp(min=1)
