"""The layer of GRIT, the Graph Inductive bias Transformer (https://arxiv.org/abs/2305.17589)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.errors import check_multiple
from graphbench.layers.activation import activation
from graphbench.layers.all_pairs import all_pairs
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import BatchNorm, LayerNorm
from graphbench.ops.propagate import gather
from graphbench.ops.segment import segment_repeat, segment_softmax, segment_sum
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

FIRST, STATES = "RRWP", "grit_pairs"
"""Names in ``state.edge_states`` of what the encoder ``RRWP`` makes of all pairs, and of the layers' states."""


@register("GritTransformer", group="gt.attn")
class GritTransformerLayer(Block):
    r"""GRIT's layer: attention over all pairs of a graph, with scores computed from pair states, which it updates.

    Equations, per head of width d_k, i receives from j, z the states of pairs::

        s_ij = act(rho((W_Q h_i + W_K h_j) * W_Ew z_ij) + W_Eb z_ij),   rho(x) = sign(x) |x|^(1/2)
        a_ij = softmax over j of clamp(w_A . s_ij)
        x_i  = sum_j drop(a_ij) (W_V h_j + W_Ev s_ij)
        h   <- norm(h + W_O (theta_1 * x + theta_2 * x log(1 + degree))),   h <- norm(h + W_2 act'(W_1 h))
        z   <- norm(z + W_Oe s)

    In the first layer z_ij is what the encoder ``RRWP`` made of the pair, plus the edge state of an edge j -> i.
    Without that encoder the pairs that are no edges begin as 0.

    Args:
        dim: channels of nodes and of pairs, divisible by ``heads``.
        heads: attention heads.
        dropout: probability of dropping an entry of x and s before W_O and W_Oe, and inside the feed-forward network.
        attn_dropout: probability of dropping an attention weight.
        hidden_act: act', of the feed-forward network (``gnn.act``).
        norm: ``batch`` per channel over all nodes (all pairs), ``none``, or any other: per node (pair).
        act: act, of the scores (``gt.attn.act``).
        clamp: bound of the scores before the softmax.
        deg_scaler: the two terms with theta; False: x.
        use_bias: biases of W_K and W_V; W_Q and W_E always have one.
        edge_enhance: the term W_Ev s.
        norm_e: the norm of z.
        O_e: W_Oe; False: the identity.

    Shape:
        h (N, dim), e (E, dim) or None -> h', states of the pairs that are edges, and a batch with those of all in
        ``state.edge_states``. O(sum n^2 dim) memory.

    Differences from the released code: the derivative of rho at 0 is 0 (there NaN). Its options ``sparse`` and a
    ``full_attn`` that is false are not here. As there the last layer updates pair states that nobody reads.
    """

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        attn_dropout: FromContext[float] = 0.0,
        hidden_act: FromContext[str] = "relu",
        norm: FromContext[str] = "batch",
        act: str = "relu",
        clamp: float = 5.0,
        deg_scaler: bool = True,
        use_bias: bool = False,
        edge_enhance: bool = True,
        norm_e: bool = True,
        O_e: bool = True,
    ) -> None:
        super().__init__()
        check_multiple(dim=dim, heads=heads)
        width = dim // heads
        self.heads, self.clamp = heads, abs(clamp)
        self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=use_bias)
        self.e, self.v = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim, bias=use_bias)
        self.score = nn.Parameter(torch.empty(width, heads, 1))
        self.pair_values = nn.Parameter(torch.empty(width, heads, width)) if edge_enhance else None
        self.degree_scale = nn.Parameter(torch.empty(1, dim, 2)) if deg_scaler else None
        linear = [layer.weight for layer in (self.q, self.k, self.e, self.v)]
        for weight in (*linear, self.score, self.pair_values, self.degree_scale):
            if weight is not None:
                nn.init.xavier_normal_(weight)
        self.act = activation(act)
        self.dropout, self.attn_dropout = Dropout(dropout), Dropout(attn_dropout)
        self.out_nodes, self.out_pairs = nn.Linear(dim, dim), nn.Linear(dim, dim) if O_e else nn.Identity()
        self.norm_attention, self.norm_ffn = _norm(norm, dim), _norm(norm, dim)
        self.norm_pairs = _norm(norm if norm_e else "none", dim)
        self.feed_forward = FeedForward(dim, act=hidden_act, dropout=dropout, dropout_out=0.0)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node states, states of the pairs that are edges, and the batch with those of all pairs."""
        pairs = batch.derived(all_pairs)
        z = batch.state.edge_states.get(STATES)
        if z is None:
            z = self._first_states(h, e, batch)
        weight, bias = self.e(z).unflatten(1, (self.heads, 2, -1)).unbind(2)
        sums = segment_repeat(self.q(h), pairs.of_query) + gather(pairs.adjacency, self.k(h), "source")
        s = self.act(signed_root(sums.view_as(weight) * weight) + bias)
        score = torch.einsum("phd,dhc->ph", s, self.score).clamp(-self.clamp, self.clamp)
        a = self.attn_dropout(segment_softmax(score, pairs.of_query)).unsqueeze(2)
        values = gather(pairs.adjacency, self.v(h).unflatten(1, (self.heads, -1)), "source")
        x = segment_sum(a * values, pairs.of_query)
        if self.pair_values is not None:
            x = x + torch.einsum("nhd,dhc->nhc", segment_sum(a * s, pairs.of_query), self.pair_values)
        x = self.dropout(x.flatten(1))
        if self.degree_scale is not None:
            plain, scaled = self.degree_scale.unbind(2)
            x = x * plain + x * batch.derived(_log_degree).to(x.dtype) * scaled
        h = _normed(self.norm_attention, h + self.out_nodes(x))
        h = _normed(self.norm_ffn, h + self.feed_forward(h))
        z = _normed(self.norm_pairs, z + self.out_pairs(self.dropout(s.flatten(1))))
        batch = batch.with_state(edge_states={**batch.state.edge_states, STATES: z})
        return h, None if e is None else z.index_select(0, pairs.of_edge), batch

    def _first_states(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        z = batch.state.edge_states.get(FIRST)
        if z is None:
            z = h.new_zeros(batch.ragged.num_pairs, h.shape[1])
        if e is None:
            return z
        return z.index_add(0, batch.derived(all_pairs).of_edge, e.to(z.dtype))


def signed_root(x: Tensor) -> Tensor:
    """sign(x) sqrt(|x|), with derivative 0 at 0."""
    size = x.abs()
    return torch.where(size > 0, x.sign() * size.masked_fill(size == 0, 1.0).sqrt(), 0.0)


def _norm(name: str, dim: int) -> nn.Module:
    if name == "none":
        return nn.Identity()
    return BatchNorm(dim) if name == "batch" else LayerNorm(dim)


def _normed(norm: nn.Module, x: Tensor) -> Tensor:
    return norm(x)


def _log_degree(batch: GraphBatch) -> Tensor:
    """(N, 1) float64: log(1 + edges out of a node)."""
    leaving = batch.edge_index[0]
    degree = torch.zeros(batch.num_nodes, dtype=torch.float64, device=batch.device)
    return degree.index_add_(0, leaving, torch.ones_like(leaving, dtype=torch.float64)).log1p_().unsqueeze(1)
