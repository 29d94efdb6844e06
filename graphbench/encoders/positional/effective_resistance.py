"""Effective resistances, of nodes (ERN) and of edges (ERE).

Velingker et al., Affinity-Aware Graph Networks, https://arxiv.org/abs/2206.11941, as in Exphormer's code,
https://arxiv.org/abs/2303.06147 (no published configuration uses it).
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.encoders.contract import ColumnEncoder
from graphbench.encoders.inputs import precomputed
from graphbench.encoders.mlp import ReLUStack
from graphbench.errors import ArgumentError, check_at_least
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("ERN")
class ERN(ColumnEncoder):
    r"""pe_i = post( net(r_i) ); the squared distance of r_i and r_j is about the effective resistance between i and j.

    ``Linear`` maps the row r_i; the other two encode its entries as a set: ``DeepSet`` maps each alone (a ReLU after
    every map), ``Transformer`` lets them attend to each other (PyTorch's encoder layer, see :class:`LapPE`), and their
    sum over all entries is taken.

    Args:
        dim_pe: width of the encoding.
        model: ``Linear``, ``DeepSet`` or ``Transformer`` (case ignored).
        layers: depth of the last two; for DeepSet the first map counts.
        n_heads: attention heads (Transformer only); must divide ``dim_pe``.
        post_layers: linear maps after that, each with a ReLU.
        er_dim: entries per row (Linear only); ``none``: half the nodes of the largest graph.
        max_nodes: nodes of the largest graph, where ``er_dim`` is ``none``.

    Shape:
        embedding (N, entries) -> (N, dim_pe); for Linear, rows are filled up with zeros to ``er_dim`` entries

    Differences from the code: none known. In training the entries are put into a random order, the same for all nodes
    (which only Linear can see).
    """

    transform: ClassVar[str | None] = "EffectiveResistance"

    def __init__(
        self,
        dim_pe: int,
        *,
        model: str = "Linear",
        layers: int = 3,
        n_heads: int = 4,
        post_layers: int = 0,
        er_dim: int | str = "none",
        max_nodes: FromContext[int | None] = None,
    ):
        super().__init__()
        kind = model.lower()
        if kind not in ("linear", "deepset", "transformer"):
            raise ArgumentError("model", f"ERN: model must be Linear, DeepSet or Transformer, received '{model}'")
        check_at_least(1, dim_pe=dim_pe, layers=layers)
        check_at_least(0, post_layers=post_layers)
        if kind == "transformer" and dim_pe % n_heads:
            raise ArgumentError(
                ("n_heads", "dim_pe"), f"ERN: n_heads must divide dim_pe, received {n_heads} and {dim_pe}"
            )
        self.columns = self.linear = self.entry = self.attention = None
        if kind == "linear":
            self.columns = _columns(er_dim, max_nodes)
            self.linear = nn.Linear(self.columns, dim_pe)
        else:
            self.entry = nn.Linear(1, dim_pe)
            self.attention = nn.ModuleList(
                nn.TransformerEncoderLayer(dim_pe, n_heads, batch_first=True)
                for _ in range(layers if kind == "transformer" else 0)
            )
            self.maps = nn.ModuleList(nn.Linear(dim_pe, dim_pe) for _ in range(layers - 1 if kind == "deepset" else 0))
        self.relu = kind == "deepset"
        self.post_mlp = ReLUStack(dim_pe, dim_pe, post_layers)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Encodes every node."""
        rows = precomputed(batch, "ERN", "embedding", None).to(next(self.parameters()).dtype)
        return self.post_mlp(self._row(rows) if self.linear is not None else self._set(rows))

    def _row(self, rows: Tensor) -> Tensor:
        if rows.shape[1] > self.columns:
            raise ValueError(
                f"ERN was built for rows of {self.columns} entries, batch.pe['ERN.embedding'] has {rows.shape[1]}; set "
                f"posenc_ERN.er_dim to {rows.shape[1]}"
            )
        rows = F.pad(rows, (0, self.columns - rows.shape[1]))
        if self.training:
            rows = rows[:, torch.randperm(self.columns, device=rows.device)]
        return self.linear(rows)

    def _set(self, rows: Tensor) -> Tensor:
        h = self.entry(rows.unsqueeze(2))
        if self.relu:
            h = h.relu()
            for linear in self.maps:
                h = linear(h).relu()
        elif len(h):  # PyTorch's layer refuses to attend over no node at all
            for layer in self.attention:
                h = layer(h)
        return h.sum(1)


def _columns(er_dim: int | str, max_nodes: int | None) -> int:
    if isinstance(er_dim, int) and er_dim >= 1:
        return er_dim
    if er_dim != "none" or max_nodes is None:
        raise ArgumentError(
            "er_dim",
            f"ERN with model Linear needs the number of entries per row: set er_dim, 1 or more, received {er_dim!r} "
            f"with {'an unknown number of' if max_nodes is None else max_nodes} nodes in the largest graph",
        )
    return max(1, max_nodes // 2)


@register("ERE")
class ERE(ColumnEncoder):
    """pe_ij = net(R_ij), R_ij the effective resistance between the ends of an edge; a ReLU after every map.

    Args:
        dim_pe: width of the encoding.
        layers: linear maps.

    Shape:
        (E, 1) -> (E, dim_pe)
    """

    transform: ClassVar[str | None] = "EdgeResistance"
    level: ClassVar[Literal["node", "edge"]] = "edge"

    def __init__(self, dim_pe: int, *, layers: int = 3):
        super().__init__()
        check_at_least(1, dim_pe=dim_pe, layers=layers)
        widths = [1, *[dim_pe] * layers]
        self.mlp = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, batch: GraphBatch) -> Tensor:
        """Encodes every edge."""
        h = precomputed(batch, "ERE", "resistance", 1, edges=True).to(self.mlp[0].weight.dtype)
        for linear in self.mlp:
            h = linear(h).relu()
        return h
