"""The layer of EGT, the Edge-augmented Graph Transformer (https://arxiv.org/abs/2108.03348)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from graphbench.contract import TiesParameters
from graphbench.errors import check_at_least, check_multiple
from graphbench.layers.all_pairs import AllPairs, all_pairs
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import LayerNorm
from graphbench.ops.propagate import gather
from graphbench.ops.segment import segment_repeat, segment_softmax, segment_sum
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.pairs import TOKEN

STATES = "egt_pairs"
"""Name of the pair states in ``state.edge_states``."""


@register("EGTLayer")
class EGTLayer(Block, TiesParameters):
    """Edge-augmented attention: states of all pairs give scores and gates, and are updated.

    Equations, per head of width d_k, x and y the normed h and z, i receives from j::

        s_ij = clamp(q_i . k_j / sqrt(d_k), -5, 5) + w_E . y_ij                        q, k, v = W_QKV x
        a_ij = softmax over j of s_ij - 1e9 m_ij, times sigmoid(w_G . y_ij)
        h <- h + drop(W_O [.. c_i sum_j drop(a_ij) v_j ..]),   h <- h + FFN(LN(h))
        z <- z + drop(W_P s),                                  z <- z + FFN(LN(z))

    m_ij = 1 with probability ``attn_maskout`` in training, else 0. c_i = log(1 + sum_j sigmoid(w_G . y_ij)) with
    ``scale_degree``, else 1. In the first layer z_ij is a row of a table by the hops from i to j, plus the edge states
    of the edges j -> i. FFN = W_2 elu(W_1 .).

    Args:
        dim: channels of nodes, divisible by ``heads``.
        heads: attention heads.
        dim_edge: channels of pairs, and of edge states.
        dropout: probability of dropping an entry of what attention and feed-forward networks add.
        attn_dropout: probability of dropping an attention weight.
        attn_maskout: probability of leaving a pair out of the softmax of a head.
        max_hop: hops told apart; farther pairs and pairs without a path share a row, pairs with a graph token another.
        expansion: width inside the feed-forward networks as a multiple of their input.
        scale_degree: see above.

    Shape:
        h (N, dim), e (E, dim_edge) or None -> h', states of the pairs that are edges, and a batch with those of all in
        ``state.edge_states``. O(sum n^2 (dim + dim_edge)) memory.

    Differences from the paper: the last layer updates pair states that nobody reads. Virtual nodes are the one token of
    the encoder ``GraphToken``; the released models have up to four, with pair states of their own and c = 1.
    The SVD encodings of its first version are not here.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dim_edge: FromContext[int],
        dropout: FromContext[float] = 0.0,
        attn_dropout: FromContext[float] = 0.0,
        attn_maskout: float = 0.0,
        max_hop: int = 16,
        expansion: int = 2,
        scale_degree: bool = True,
    ) -> None:
        super().__init__()
        check_multiple(dim=dim, heads=heads)
        check_at_least(1, max_hop=max_hop, expansion=expansion)
        self.heads, self.max_hop, self.scale_degree = heads, max_hop, scale_degree
        self.hop_emb = nn.Embedding(max_hop + 3, dim_edge)
        self.norm_nodes, self.norm_pairs = LayerNorm(dim), LayerNorm(dim_edge)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.scores, self.gates = nn.Linear(dim_edge, heads), nn.Linear(dim_edge, heads)
        self.attn_dropout, self.dropout = Dropout(attn_dropout), Dropout(dropout)
        self.attn_maskout = Dropout(attn_maskout)
        self.out_nodes, self.out_pairs = nn.Linear(dim, dim), nn.Linear(heads, dim_edge)
        self.norm_ffn_nodes, self.norm_ffn_pairs = LayerNorm(dim), LayerNorm(dim_edge)
        self.ffn_nodes, self.ffn_pairs = (
            FeedForward(width, act="elu", dropout_out=dropout, expansion=expansion) for width in (dim, dim_edge)
        )

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Hops of all pairs."""
        return {"ShortestPaths": {"cutoff": arguments["max_hop"]}}

    def tie(self, first: Self) -> None:
        """The table of hops is read in the first layer only."""
        self.hop_emb = first.hop_emb

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states, states of the pairs that are edges, and the batch with those of all pairs."""
        pairs = batch.derived(all_pairs)
        z = batch.state.edge_states.get(STATES)
        if z is None:
            z = self._first_states(e, batch, pairs)
        y = self.norm_pairs(z)
        q, k, v = self.qkv(self.norm_nodes(h)).unflatten(1, (3, self.heads, -1)).unbind(1)
        product = (segment_repeat(q, pairs.of_query) * gather(pairs.adjacency, k, "source")).sum(2) * q.shape[2] ** -0.5
        score = product.clamp(-5.0, 5.0) + self.scores(y)
        gate = self.gates(y).sigmoid()
        weight = self.attn_dropout(segment_softmax(self._masked(score), pairs.of_query) * gate)
        mixed = segment_sum(weight.unsqueeze(2) * gather(pairs.adjacency, v, "source"), pairs.of_query)
        if self.scale_degree:
            mixed = mixed * torch.log1p(segment_sum(gate, pairs.of_query)).unsqueeze(2)
        h = h + self.dropout(self.out_nodes(mixed.flatten(1)))
        h = h + self.ffn_nodes(self.norm_ffn_nodes(h))
        z = z + self.dropout(self.out_pairs(score))
        z = z + self.ffn_pairs(self.norm_ffn_pairs(z))
        batch = batch.with_state(edge_states={**batch.state.edge_states, STATES: z})
        return h, None if e is None else z.index_select(0, pairs.of_edge), batch

    def _masked(self, score: Tensor) -> Tensor:
        """Scores (P, H) of the softmax; where all of a query's pairs are left out, none is."""
        if not self.training or not self.attn_maskout.p:
            return score
        kept: Tensor = self.attn_maskout(torch.ones_like(score))
        return score - 1e9 * (kept == 0).to(score.dtype)

    def _first_states(self, e: Tensor | None, batch: GraphBatch, pairs: AllPairs) -> Tensor:
        if batch.pairs is None:
            raise ValueError("EGTLayer reads the distances of all pairs (transform ShortestPaths), received none")
        hop = batch.pairs.distance.long()
        row = hop.clamp(max=self.max_hop + 1).masked_fill(hop == TOKEN, self.max_hop + 2)
        z: Tensor = self.hop_emb(row)
        return z if e is None else z.index_add(0, pairs.of_edge, e.to(z.dtype))
