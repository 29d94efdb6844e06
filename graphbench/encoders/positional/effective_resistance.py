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
from graphbench.encoders.mlp import ReLUStack
from graphbench.errors import ArgumentError, UnknownFact, check_at_least
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("ERN")
class ERN(ColumnEncoder):
    r"""Effective-resistance encoding of nodes.

    pe_i = post( net(r_i) ); the squared distance of r_i and r_j is about the effective resistance between i and j.

    ``Linear`` maps the row r_i; the other two encode its entries as a set and sum over them: ``DeepSet`` with an MLP
    of single entries (a ReLU after every map), ``Transformer`` with attention between them (PyTorch's encoder layer,
    see :class:`LapPE`).

    Args:
        dim_pe: width of the encoding.
        model: ``Linear``, ``DeepSet`` or ``Transformer`` (case ignored).
        layers: depth of the last two; for DeepSet the first map counts.
        n_heads: attention heads (Transformer only); must divide ``dim_pe``.
        post_layers: linear maps after that, each with a ReLU.
        er_dim: entries per row (Linear only); None: half the nodes of the largest graph.
        max_nodes: nodes of the largest graph, where ``er_dim`` is None.

    Shape:
        embedding (N, entries) -> (N, dim_pe); for Linear, rows are filled up with zeros to ``er_dim`` entries

    Differences from the code: none known. In training the entries are put into a random order, the same for all nodes
    (which only Linear can see).
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "EffectiveResistance"

    def __init__(
        self,
        dim_pe: int,
        *,
        model: str = "Linear",
        layers: int = 3,
        n_heads: int = 4,
        post_layers: int = 0,
        er_dim: int | None = None,
        max_nodes: FromContext[int | None] = None,
    ) -> None:
        super().__init__()
        network = model.lower()
        if network not in ("linear", "deepset", "transformer"):
            raise ArgumentError("model", f"ERN: model must be Linear, DeepSet or Transformer, received '{model}'")
        check_at_least(1, dim_pe=dim_pe, layers=layers)
        check_at_least(0, post_layers=post_layers)
        if network == "transformer" and dim_pe % n_heads:
            raise ArgumentError(
                ("n_heads", "dim_pe"), f"ERN: n_heads must divide dim_pe, received {n_heads} and {dim_pe}"
            )
        self.linear: nn.Linear | None = None
        self.entry: nn.Linear | None = None
        if network == "linear":
            self.linear = nn.Linear(_columns(er_dim, max_nodes), dim_pe)
        else:
            self.entry = nn.Linear(1, dim_pe)
        attention_layers = layers if network == "transformer" else 0
        maps = layers - 1 if network == "deepset" else 0
        self.attention = nn.ModuleList(
            nn.TransformerEncoderLayer(dim_pe, n_heads, batch_first=True) for _ in range(attention_layers)
        )
        self.maps = nn.ModuleList(nn.Linear(dim_pe, dim_pe) for _ in range(maps))
        self.relu = network == "deepset"
        self.post_mlp = ReLUStack(dim_pe, dim_pe, post_layers)

    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim_pe) encodings of the nodes."""
        rows = self.encoding(batch, "embedding").to(next(self.parameters()).dtype)
        h = self._of_set(rows) if self.linear is None else self._of_row(rows, self.linear)
        return self.post_mlp(h)

    def _of_row(self, rows: Tensor, linear: nn.Linear) -> Tensor:
        columns = linear.in_features
        if rows.shape[1] > columns:
            raise ValueError(
                f"ERN was built for rows of {columns} entries, batch.pe['ERN.embedding'] has {rows.shape[1]}; set "
                f"posenc_ERN.er_dim to {rows.shape[1]}"
            )
        rows = F.pad(rows, (0, columns - rows.shape[1]))
        if self.training:
            rows = rows[:, torch.randperm(columns, device=rows.device)]
        return linear(rows)

    def _of_set(self, rows: Tensor) -> Tensor:
        assert self.entry is not None
        h: Tensor = self.entry(rows.unsqueeze(2))
        if self.relu:
            h = h.relu()
            for linear in self.maps:
                h = linear(h).relu()
        elif len(h):  # PyTorch's layer refuses to attend over no node at all
            for layer in self.attention:
                h = layer(h)
        return h.sum(1)


def _columns(er_dim: int | None, max_nodes: int | None) -> int:
    if er_dim is not None:
        check_at_least(1, er_dim=er_dim)
        return er_dim
    if max_nodes is None:
        raise UnknownFact("er_dim", "ERN: er_dim none is half the nodes of the largest graph, which is not known")
    return max(1, max_nodes // 2)


@register("ERE")
class ERE(ColumnEncoder):
    """Effective-resistance encoding of edges.

    pe_ij = net(R_ij), R_ij the effective resistance between the ends of an edge; a ReLU after every map.

    Args:
        dim_pe: width of the encoding.
        layers: linear maps.

    Shape:
        (E, 1) -> (E, dim_pe)
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "EdgeResistance"
    level: ClassVar[Literal["node", "edge"]] = "edge"

    def __init__(self, dim_pe: int, *, layers: int = 3) -> None:
        super().__init__()
        check_at_least(1, dim_pe=dim_pe, layers=layers)
        widths = [1, *[dim_pe] * layers]
        self.mlp = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, batch: GraphBatch) -> Tensor:
        """(E, dim_pe) encodings of the edges."""
        h = self.encoding(batch, "resistance", 1).to(next(self.parameters()).dtype)
        for linear in self.mlp:
            h = linear(h).relu()
        return h
