"""The layer of SAT, the Structure-Aware Transformer (https://arxiv.org/abs/2202.03036), with k-subtree extractor."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.contract import HasAttentionWeights
from graphbench.errors import ArgumentError, check_at_least, check_multiple, check_one_of
from graphbench.layers.contract import Block, LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm, LayerNorm
from graphbench.layers.normed import add_norm, feed_forward_norm
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.ops.softmax_attention.reference import softmax_weights
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


class StructureExtractor(nn.Module):
    """phi(h) = W BN([h | h_1 | .. | h_k]) + b,   h_l = relu(GNN_l(h_{l-1}, e)): the k-subtree rooted at every node.

    Args:
        dim: channels of nodes.
        dim_edge: channels of edge states.
        gnn_type: name of a local layer.
        hops: k.
        towers: groups of channels inside the local layer, where it has them.

    Shape:
        h (N, dim), e -> (N, dim)
    """

    def __init__(self, dim: int, dim_edge: int, gnn_type: str, hops: int, towers: int) -> None:
        super().__init__()
        layer = registry.lookup(registry.LOCAL_LAYERS, gnn_type)
        widths = {"dim_in": dim, "dim_out": dim, "dim_edge": dim_edge, "towers": towers}
        known = {name: value for name, value in widths.items() if name in registry.parameters(layer)}
        self.layers: Modules[LocalLayer] = Modules(registry.construct(layer, known) for _ in range(hops))
        self.norm = BatchNorm((hops + 1) * dim)
        self.out = nn.Linear((hops + 1) * dim, dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """(N, dim) representation of the subtrees."""
        states = [h]
        for layer in self.layers:
            new, _ = layer(states[-1], e, batch)
            states.append(new.relu())
        return self.out(self.norm(torch.cat(states, dim=1), batch))


@register("SATLayer")
class SATLayer(Block, HasAttentionWeights):
    """Structure-aware attention: queries and keys are representations of subtrees or subgraphs.

    Equations::

        x  = norm(h + drop(d * W_O [head_1 | .. | head_H])),   head = softmax(Q K^T / sqrt(d_k)) V
        h' = norm(x + FFN(x)),   Q, K = W_QK phi(h),   V = W_V h,   d_i = (1 + degree of i)^(-1/2)

    phi: :class:`StructureExtractor`. FFN = drop(W_2 drop(relu(W_1 .))). Norms are per channel over all nodes, or per
    node.

    Args:
        dim: channels of nodes, divisible by ``heads``.
        heads: H.
        dim_edge: channels of the edge states, which phi reads.
        use_edge_attr: whether edge states come; some layers inside phi need them.
        dropout: probability of dropping an entry, and an attention weight.
        gnn_type: local layer inside phi, by its registered name.
        hops: k, how many of them.
        towers: groups of channels inside such a layer, where it has them (``PNAUnscaled``, ``PNATowers``).
        ffn_dim: width inside the feed-forward network; None: twice ``dim``.
        norm: ``batch`` or ``layer``.
        scale_by_degree: multiply what attention returns by d; False: d = 1.
        symmetric: Q = K.

    Shape:
        h (N, dim), e (E, dim_edge) or None -> h' (N, dim), e, batch.

    Differences from the paper: the k-subgraph extractor, which runs the GNN inside the induced subgraph of every node,
    is not here. In training, BatchNorm inside phi reads all nodes of a batch, as any BatchNorm does.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dim_edge: FromContext[int] = 0,
        use_edge_attr: FromContext[bool] = True,
        dropout: FromContext[float] = 0.0,
        gnn_type: str = "GCN",
        hops: int = 2,
        towers: int = 1,
        ffn_dim: int | None = None,
        norm: Literal["batch", "layer"] = "batch",
        scale_by_degree: bool = True,
        symmetric: bool = False,
    ) -> None:
        super().__init__()
        check_multiple(dim=dim, heads=heads)
        check_one_of(("batch", "layer"), norm=norm)
        check_at_least(0, hops=hops)
        if registry.lookup(registry.LOCAL_LAYERS, gnn_type).needs_edges and not use_edge_attr:
            raise ArgumentError("gnn_type", f"{gnn_type} reads edge states, and nothing supplies them")
        self.heads = heads
        self.attn_dropout = dropout
        self.scale_by_degree = scale_by_degree
        self.structure = StructureExtractor(dim, dim_edge, gnn_type, hops, towers)
        self.qk = nn.Linear(dim, dim if symmetric else 2 * dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        nn.init.xavier_uniform_(self.qk.weight)
        nn.init.xavier_uniform_(self.v.weight)
        self.out = nn.Linear(dim, dim)
        self.dropout = Dropout(dropout)
        self.norm_attention = BatchNorm(dim) if norm == "batch" else LayerNorm(dim)
        self.feed_forward = FeedForward(dim, dropout=dropout, width=2 * dim if ffn_dim is None else ffn_dim)
        self.norm_ffn = BatchNorm(dim) if norm == "batch" else LayerNorm(dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states (N, dim); edge states and batch as they came."""
        q, k = self._queries_and_keys(h, e, batch)
        v = self.v(h).unflatten(1, (self.heads, -1))
        dropout = self.attn_dropout if self.training else 0.0
        mixed = softmax_attention(q, k, v, batch.ragged, dropout_p=dropout)
        new = self.out(mixed.flatten(1))
        if self.scale_by_degree:
            new = batch.derived(_inverse_root_degree).to(new.dtype) * new
        x = add_norm(self.norm_attention, h, new, batch, dropout=self.dropout)
        return feed_forward_norm(self.norm_ffn, self.feed_forward, x, batch), e, batch

    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        """Softmax weights without dropout, (heads, n, n) per graph; row i is what node i attends to."""
        return list(softmax_weights(*self._queries_and_keys(h, e, batch), batch.ragged))

    def _queries_and_keys(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """(N, heads, dim / heads) each."""
        qk = self.qk(self.structure(h, e, batch)).unflatten(1, (-1, self.heads, h.shape[1] // self.heads))
        return qk[:, 0], qk[:, -1]


def _inverse_root_degree(batch: GraphBatch) -> Tensor:
    """(N, 1) float64: (1 + edges out of a node)^(-1/2)."""
    leaving = batch.edge_index[0]
    degree = torch.ones(batch.num_nodes, dtype=torch.float64, device=batch.device)
    return degree.index_add_(0, leaving, torch.ones_like(leaving, dtype=torch.float64)).rsqrt_().unsqueeze(1)
