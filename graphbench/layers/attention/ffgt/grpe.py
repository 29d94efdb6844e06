"""Relative positional encoding on graphs: GRPE (https://arxiv.org/abs/2201.12787), with focal heads GRPE-FFGT."""

from __future__ import annotations

from graphbench.layers.attention.ffgt.layer import CompoundAttention
from graphbench.layers.attention.ffgt.relations import RelationTables
from graphbench.layers.attention.ffgt.settings import FocalSettings
from graphbench.registry import FromContext, register


@register("GRPE")
class GRPE(CompoundAttention):
    """GRPE's attention: vectors of hops and edge types, read by queries and keys and added to values.

    Equations::

        s_ij = (q_i . k_j + q_i . (Qh[d_ij] + Qe[t_ij]) + k_i . (Kh[d_ij] + Ke[t_ij])) / sqrt(d_k)
        head = sum_j softmax_j(s_ij) (v_j + Vh[d_ij] + Ve[t_ij]),   out = W_O [head_1 | .. | head_H]

    d_ij: hops up to ``max_hop``, then a row for the graph token and one for pairs without a path. t_ij: type of the
    edge from i to j, or a row for the graph token, for i = j, for no edge. The tables serve all layers.

    With ``focal_heads`` the last heads see only the nodes within ``focal_length`` hops: GRPE-FFGT
    (https://arxiv.org/abs/2311.04653).

    Args:
        dim: channels of input and output.
        heads: H.
        max_hop: hops that are told apart.
        focal: keys of their own, see :class:`~graphbench.layers.attention.ffgt.settings.FocalSettings`;
            ``focal_heads: 0`` is GRPE as published.
        dropout: probability of dropping an attention weight.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read, types come from ``batch.edge_attr``.

    Differences from the paper:
        It writes k_j in the key term; its released code, and this, have k_i. In its code a node has the row of no
        edge with itself (``released: true``).
    """

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        max_hop: int = 5,
        focal: FocalSettings = FocalSettings(),
        dropout: FromContext[float] = 0.0,
    ) -> None:
        width = focal.head_width(dim, heads)
        tables = RelationTables(heads, width, focal.edge_types("grpe"), max_hop=max_hop, values=True, gate=focal.gate)
        super().__init__(dim, heads, focal, tables, dropout)
