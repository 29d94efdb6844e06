"""Attention heads with a limited receptive field next to full-range ones: FFGT (https://arxiv.org/abs/2311.04653)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from graphbench.contract import HasAttentionWeights, TiesParameters
from graphbench.errors import ArgumentError
from graphbench.layers.attention.ffgt.relations import RelationTables, distances
from graphbench.layers.attention.ffgt.settings import FocalSettings, distance_transforms
from graphbench.layers.contract import GlobalAttention
from graphbench.ops.focal_attention import Relation, focal_attention
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


class CompoundAttention(GlobalAttention, HasAttentionWeights, TiesParameters):
    """Full-range and focal heads over tables of relations: the common base of FFGT and GRPE.

    Args:
        dim: channels of input and output.
        heads: H.
        focal: see :class:`~graphbench.layers.attention.ffgt.settings.FocalSettings`.
        tables: biases of the scores by edge type (and distance), or None.
        dropout: probability of dropping an attention weight.
    """

    capturable: ClassVar[bool] = True
    reads_edge_states: ClassVar[bool] = False

    def __init__(
        self, dim: int, heads: int, focal: FocalSettings, tables: RelationTables | None, dropout: float
    ) -> None:
        super().__init__()
        focal.check(heads)
        self.heads = heads
        self.dropout = dropout
        self.width = focal.head_width(dim, heads)
        self.unreachable = focal.unreachable
        self.tables_per_layer = focal.tables_per_layer
        self.max_hops = (None,) * (heads - focal.focal_heads) + (focal.focal_length,) * focal.focal_heads
        self.qkv = nn.Linear(dim, 3 * heads * self.width)
        self.out = nn.Linear(heads * self.width, dim)
        self.tables = tables
        for weight in self.qkv.weight.data.chunk(3):
            nn.init.xavier_uniform_(weight)
        nn.init.xavier_uniform_(self.out.weight)
        for linear in (self.qkv, self.out):
            nn.init.zeros_(linear.bias)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The distances that the heads and the tables read."""
        return distance_transforms(arguments, cls.__name__)

    def tie(self, first: Self) -> None:
        """Shares the tables of the first layer, unless every layer has its own."""
        if not self.tables_per_layer:
            self.tables = first.tables

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        q, k, v = self._projected(h)
        mixed = self._attend(q, k, v, batch, self._relations(batch), self.dropout if self.training else 0.0)
        return self.out(mixed.flatten(1))

    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        """Softmax weights without dropout, (heads, n, n) per graph; row i is what node i attends to."""
        q, k, _ = self._projected(h)
        position = torch.arange(h.shape[0], device=h.device) - batch.ragged.ptr[batch.ragged.graph_id]
        one_hot = torch.nn.functional.one_hot(position, batch.ragged.max_size).to(h.dtype)
        relations = [Relation(relation.index, relation.query, relation.key) for relation in self._relations(batch)]
        weights = self._attend(q, k, one_hot[:, None].expand(-1, self.heads, -1), batch, relations, 0.0)
        return [rows[:, :, : len(rows)].transpose(0, 1) for rows in weights.split(batch.ragged.sizes)]

    def _projected(self, h: Tensor) -> tuple[Tensor, ...]:
        qkv: Tensor = self.qkv(h)
        return qkv.view(h.shape[0], 3, self.heads, self.width).unbind(1)

    def _relations(self, batch: GraphBatch) -> list[Relation]:
        return [] if self.tables is None else [self.tables(batch, type(self).__name__)]

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, batch: GraphBatch, relations: list[Relation], dropout: float
    ) -> Tensor:
        if self.tables is None or not self.tables.gated:
            return self._mix(q, k, v, batch, relations, dropout=dropout)
        # With a = softmax(s): a C = softmax(s + log C) * sum_j a_ij C_ij, and the sum is attention to values C.
        log_gate = self.tables.log_gate(batch, type(self).__name__)
        bias = log_gate[relations[0].index.long()]
        gates = [
            Relation(relation.index, relation.query, relation.key, log_gate.exp()[:, :, None]) for relation in relations
        ]
        passed = self._mix(q, k, v.new_zeros(*v.shape[:2], 1), batch, gates)
        return passed * self._mix(q, k, v, batch, relations, bias=bias, dropout=dropout)

    def _mix(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        batch: GraphBatch,
        relations: list[Relation],
        *,
        bias: Tensor | None = None,
        dropout: float = 0.0,
    ) -> Tensor:
        return focal_attention(
            q,
            k,
            v,
            batch.ragged,
            distances(batch, type(self).__name__),
            self.max_hops,
            relations=relations,
            bias=bias,
            unreachable=self.unreachable,
            dropout_p=dropout,
        )

    def extra_repr(self) -> str:
        """Heads, receptive field and dropout, in ``print(model)``."""
        return f"heads={self.heads}, max_hops={self.max_hops}, dropout={self.dropout}"


@register("FFGT")
class FFGT(CompoundAttention):
    """Compound attention: some heads see the whole graph, others a few hops; edge types bias the scores.

    Equations::

        head_c = softmax_j(s_ij) V over all j for c < heads - focal_heads, over j with d(i, j) <= focal_length else
        s_ij = (q_i . k_j + q_i . Q[t_ij] + k_i . K[t_ij]) / sqrt(d_k)
        out = W_O [head_1 | .. | head_H],   (Q, K, V) = W h + b

    t_ij: type of the edge from i to j, or a row for the graph token, for i = j, for no edge; one pair of tables serves
    all layers. Paper: full-range and focal heads are concatenated and mapped together; ``focal_heads: 0`` is the
    Vanilla transformer it compares with. Another mechanism for the full-range heads than for the focal ones, as the
    paper's general form has: two attentions side by side in one block, ``gt.layer_type: SFi+FFGT`` with
    ``focal_heads`` equal to ``gt.n_heads``.

    Args:
        dim: channels of input and output.
        heads: H.
        focal: keys of their own, see :class:`~graphbench.layers.attention.ffgt.settings.FocalSettings`.
        edge_bias: whether edge types bias the scores.
        dropout: probability of dropping an attention weight.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read, types come from ``batch.edge_attr``.

    Differences from the paper:
        The gate C of equation 6 is off unless ``gate: true``, and positive: neither experiments nor released code have
        one, and the paper gives no form. The released code lets focal heads see pairs without a path
        (``unreachable: full``) and mixes up rows of its edge tables (``released: true``; with ``edge_offset: 2`` triple
        bonds of ZINC get the graph token's row). Its key term has the key of the row node, as here; the paper does not
        say.
    """

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        focal: FocalSettings = FocalSettings(),
        edge_bias: bool = True,
        dropout: FromContext[float] = 0.0,
    ) -> None:
        tables = None
        if edge_bias:
            width = focal.head_width(dim, heads)
            tables = RelationTables(
                heads, width, focal.edge_types("vanilla"), max_hop=None, values=False, gate=focal.gate
            )
        elif focal.gate:
            raise ArgumentError("gate", "gate: true needs the tables of edge types, received edge_bias: false")
        super().__init__(dim, heads, focal, tables, dropout)
