"""Settings and Transformer block of ANS-GT (https://arxiv.org/abs/2210.03930)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from graphbench.errors import ArgumentError, check_at_least, check_one_of, check_within
from graphbench.layers.attention.biased_transformer import BiasedTransformer
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import LayerNorm
from graphbench.models.ans_gt.sampling_tables import SAMPLERS
from graphbench.ops.segment import segment_softmax
from graphbench.structures import GraphBatch


@dataclass(frozen=True)
class SequenceSettings:
    """Sampling, super-nodes and Transformer; every field is a key of the model.

    Attributes:
        num_heads: attention heads.
        length: K, nodes drawn for a node.
        samples: S, sequences of every node.
        candidates: nodes that each sampler chooses from, those with its largest weights.
        teleport: c of personalised PageRank.
        ppr_steps: terms of the series of personalised PageRank.
        orders: powers of the adjacency that make a proximity encoding.
        coarsening: share of the nodes that become super-nodes; 0: no super-nodes.
        global_nodes: learned tokens at the end of every sequence.
        update_period: training steps between updates of the samplers' shares and new sequences; 0: never.
        first_round: first sequences, drawn from all samplers with equal shares as in the paper (``mixture``), or from
            PageRank alone as in the released code (``ppr``).
        min_share: p_min, smallest share of a sampler.
        bandit_rate: eta.
        exploration: gamma.
        ffn_dim: width inside the feed-forward network; 0: that of the tokens.
        input_dropout: dropout of the tokens.
        attention_dropout: dropout of attention weights.
    """

    num_heads: int = 8
    length: int = 14
    samples: int = 8
    candidates: int = 64
    teleport: float = 0.15
    ppr_steps: int = 10
    orders: int = 6
    coarsening: float = 0.1
    global_nodes: int = 1
    update_period: int = 0
    first_round: Literal["mixture", "ppr"] = "mixture"
    min_share: float = 0.05
    bandit_rate: float = 2.0
    exploration: float = 0.01
    ffn_dim: int = 0
    input_dropout: float = 0.1
    attention_dropout: float = 0.5

    def check(self) -> None:
        """Refuses values out of range."""
        check_at_least(1, length=self.length, samples=self.samples, candidates=self.candidates, orders=self.orders)
        check_at_least(0, global_nodes=self.global_nodes, update_period=self.update_period, ppr_steps=self.ppr_steps)
        check_within(0, 1, coarsening=self.coarsening)
        if not 0 < self.min_share <= 1 / len(SAMPLERS):
            raise ArgumentError("min_share", f"min_share must lie in (0, 0.25], received {self.min_share}")
        check_one_of(("mixture", "ppr"), first_round=self.first_round)


class SequenceBlock(nn.Module):
    """h = h + drop(MHA(LN(h), B)), h = h + drop(FFN(LN(h))); B = W_B phi, phi the proximity encodings of the pairs.

    Args:
        dim: width of the tokens.
        dropout: dropout after attention and after the feed-forward network.
        settings: heads, widths.

    Shape:
        h (tokens, dim), phi (pairs, orders) -> (tokens, dim)
    """

    def __init__(self, dim: int, dropout: float, settings: SequenceSettings) -> None:
        super().__init__()
        self.norm = LayerNorm(dim)
        self.attention = BiasedTransformer(dim, settings.num_heads, dropout=settings.attention_dropout)
        self.lin_bias = nn.Linear(settings.orders, settings.num_heads, bias=False)
        self.dropout = Dropout(dropout)
        self.norm_ffn = LayerNorm(dim)
        self.feed_forward = FeedForward(
            dim, act="gelu", dropout=0.0, dropout_out=dropout, width=settings.ffn_dim or dim
        )

    def forward(self, h: Tensor, encodings: Tensor, sequences: GraphBatch) -> Tensor:
        """New states of the tokens."""
        biased = sequences.with_state(pair_bias=self.lin_bias(encodings))
        h = h + self.dropout(self.attention(self.norm(h), None, biased))
        return h + self.feed_forward(self.norm_ffn(h))

    @torch.no_grad()
    def significance(self, h: Tensor, encodings: Tensor, sequences: GraphBatch) -> Tensor:
        """(tokens,) attention of a sequence's first token to each times the length of its value, mean of the heads."""
        ragged, (q, k, v) = sequences.ragged, self.attention._projections(self.norm(h)).unbind(1)
        sequence, start = ragged.graph_id, ragged.ptr[:-1]
        place = torch.arange(len(h), device=h.device) - start[sequence]
        scores = (q[start][sequence] * k).sum(2) * q.shape[2] ** -0.5
        scores = scores + self.lin_bias(encodings)[ragged.pair_ptr[:-1][sequence] + place]
        return (segment_softmax(scores, ragged) * v.norm(dim=2)).mean(1)
