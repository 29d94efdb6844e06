"""MGT: a graph transformer on two scales, atoms and soft clusters of them (https://arxiv.org/abs/2302.08647)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.contract import HasAuxiliaryLoss
from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.attention.transformer import Transformer
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.models.graph_trans import graphs_as_nodes
from graphbench.models.requirements import check_same_width
from graphbench.models.soft_clusters import GatedNetwork, cluster_loss, cluster_states
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense
from graphbench.structures.size_groups import equal_sizes


@dataclass(frozen=True)
class ClusterSettings:
    """Clusters and the Transformer over them; every field is a key of the model.

    Attributes:
        clusters: K, of every graph.
        distance_gates: the networks that find them gate messages by distances of the encoding that WavePE supplies.
        cluster_layers: layers of the Transformer over clusters.
        cluster_heads: attention heads of the Transformer over clusters.
        cluster_dropout: dropout of the Transformer over clusters, that of attention weights included.
        cluster_loss: weight of :func:`~graphbench.models.soft_clusters.cluster_loss` in training.
    """

    clusters: int = 10
    distance_gates: bool = True
    cluster_layers: int = 2
    cluster_heads: int = 4
    cluster_dropout: float = 0.25
    cluster_loss: float = 0.001


class ClusterLayer(nn.Module):
    """``x = BN(h + MHA(h)),  h' = drop(BN(x + FFN(x)))``, FFN of width 2 dim and with ReLU.

    Args:
        dim: channels.
        heads: attention heads.
        dropout: dropout of attention weights, in the feed-forward network and at the end.
    """

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = Transformer(dim, heads, dropout=dropout)
        self.norm_attention, self.norm_ffn = BatchNorm(dim), BatchNorm(dim)
        self.feed_forward, self.dropout = FeedForward(dim, dropout=dropout), Dropout(dropout)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(R, dim) new states of the clusters of a batch of them."""
        x = self.norm_attention(h + self.attention(h, None, batch), batch)
        return self.dropout(self.norm_ffn(x + self.feed_forward(x), batch))


@register("MGT")
class MGT(EncodedModel, HasAuxiliaryLoss):
    r"""Multiresolution Transformer: blocks over the nodes, K soft clusters per graph, and a Transformer over these.

    Equations, h and e after the last block, networks :class:`~graphbench.models.soft_clusters.GatedNetwork`, layers
    :class:`ClusterLayer` within every graph::

        s = softmax(network_s(h, e)),   z = network_z(h, e),   c_k = sum_i s_ik z_i
        y = head(sum_k (W [Transformer(c)_k | c_k] + b))

    Args:
        frame: encoders, of edges, too, widths, all of them ``dim``, factory of the head, which reads one row per graph.
        layers: blocks (``gt.layers``).
        block: factory of blocks.
        settings: keys of their own, see :class:`ClusterSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the released code (its model for Peptides): the two losses of clusters are divided by the nodes,
    and pairs of nodes, that there are; there padding up to the largest graph counts. The norm of edge states that are
    not read is not here. Its variants with layers of PyTorch Geometric and for proteins are not here.
    """

    capturable: ClassVar[bool] = True
    of_graphs = True

    def __init__(
        self,
        frame: EdgeFrame,
        layers: FromContext[int],
        block: FromContext[Callable[[], Block]],
        *,
        settings: ClusterSettings = ClusterSettings(),
    ) -> None:
        super().__init__(frame.encoder, frame.edge_encoder, keep_sparse=False)
        s, dim = settings, frame.dim
        check_at_least(1, clusters=s.clusters, cluster_layers=s.cluster_layers, cluster_heads=s.cluster_heads)
        check_at_least(0, layers=layers, cluster_loss=s.cluster_loss)
        check_same_width(frame.dim_encoded, dim, "blocks are as wide as encoded nodes")
        if frame.edge_encoder is None or frame.dim_edge != dim:
            received = "no edge encoder" if frame.edge_encoder is None else f"{frame.dim_edge} and {dim} columns"
            raise ArgumentError(
                ("edge_encoder", "dim_edge"),
                f"clusters are found with edge states as wide as nodes, received {received}",
            )
        self.settings = s
        self.layers: Modules[Block] = Modules(block() for _ in range(layers))
        self.assign = GatedNetwork(dim, s.clusters, distance_gates=s.distance_gates)
        self.embed = GatedNetwork(dim, dim, distance_gates=s.distance_gates)
        self.cluster_layers: Modules[ClusterLayer] = Modules(
            ClusterLayer(dim, s.cluster_heads, s.cluster_dropout) for _ in range(s.cluster_layers)
        )
        self.lin, self.head = nn.Linear(2 * dim, dim), frame.head(dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        encoded, e, batch = self.encode(batch)
        h = as_dense(encoded)
        for layer in self.layers:
            h, e, batch = layer.step(h, e, batch)
        share = self.assign(h, e, batch).softmax(1)
        states = cluster_states(share, self.embed(h, e, batch), batch)
        weight = self.settings.cluster_loss if self.training else 0.0
        self.auxiliary_loss = weight * cluster_loss(share, batch) if weight else None
        c, clusters = states.flatten(0, 1), batch.derived(_clusters_as_nodes, self.settings.clusters)
        x = c
        for each in self.cluster_layers:
            x = each(x, clusters)
        rows = self.lin(torch.cat([x, c], dim=1)).view_as(states).sum(1)
        return self.head(rows, batch.derived(graphs_as_nodes))


def _clusters_as_nodes(batch: GraphBatch, clusters: int) -> GraphBatch:
    """Graphs whose nodes are the clusters of the graphs of ``batch``."""
    sizes = equal_sizes(batch.ragged, batch.num_graphs, clusters)
    return GraphBatch(sizes, batch.edge_index.new_empty(2, 0), real_graphs=batch.real_graphs)
