"""LINKX: adjacency rows and features, embedded apart (https://arxiv.org/abs/2110.14446)."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, Literal

from torch import Tensor, nn

from graphbench.errors import check_at_least
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear
from graphbench.layers.norm import BatchNorm
from graphbench.models.adjacency_rows import AdjacencyRows
from graphbench.models.contract import EncodedModel, Frame
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch


class MLP(nn.Module):
    """Linear maps with ReLU, BatchNorm and dropout between them, nothing after the last.

    Args:
        widths: widths of input, hidden layers and output.
        dropout: probability.

    Shape:
        (N, widths[0]) -> (N, widths[-1])
    """

    def __init__(self, widths: list[int], dropout: float) -> None:
        super().__init__()
        self.lin = nn.ModuleList(
            (InputLinear if number == 0 else nn.Linear)(a, b) for number, (a, b) in enumerate(pairwise(widths))
        )
        self.norms = nn.ModuleList(BatchNorm(width) for width in widths[1:-1])
        self.dropout = Dropout(dropout)

    def forward(self, x: Features) -> Tensor:
        """(N, widths[-1])."""
        h: Tensor = self.lin[0](x)
        for norm, linear in zip(self.norms, list(self.lin)[1:], strict=True):
            h = linear(self.dropout(norm(h.relu())))
        return h


@register("LINKX")
class LINKX(EncodedModel):
    """LINKX: an MLP on top of embeddings of adjacency and features.

    Equations::

        h_A = [MLP_A] (A W_A),   h_X = MLP_X(X)
        y = head(MLP_f(relu(h_A + h_X + V_A h_A + V_X h_X)))

    Args:
        frame: encoder, widths, factory of the head; with ``gnn.layers_post_mp: 1`` it is the last map of MLP_f.
        dropout: dropout inside the MLPs (``gnn.dropout``).
        nodes: number of nodes of the one graph that A is of; 0 leaves h_A out.
        edge_layers: maps of A W_A and MLP_A together.
        node_layers: maps of MLP_X.
        final_layers: maps of MLP_f before the head.

    Shape:
        batch -> prediction of the head

    Differences from the paper: none of substance. W_A has a row per node, so that the model is one of one graph, in
    which the number of a node matters; graphs never seen cannot be read with ``nodes`` above 0.
    """

    capturable: ClassVar[bool | Literal["one batch"]] = "one batch"

    def __init__(
        self,
        frame: Frame,
        *,
        dropout: FromContext[float] = 0.0,
        nodes: int = 0,
        edge_layers: int = 1,
        node_layers: int = 1,
        final_layers: int = 1,
    ) -> None:
        super().__init__(frame.encoder)
        dim = frame.dim
        check_at_least(0, nodes=nodes, final_layers=final_layers)
        check_at_least(1, edge_layers=edge_layers, node_layers=node_layers)
        self.rows = AdjacencyRows(nodes, dim) if nodes else None
        deep = nodes and edge_layers > 1
        self.norm_edges = BatchNorm(dim) if deep else None
        self.mlp_edges = MLP([dim] * edge_layers, dropout) if deep else None
        self.lin_edges = nn.Linear(dim, dim) if nodes else None
        self.mlp_nodes = MLP([frame.dim_encoded] + [dim] * node_layers, dropout)
        self.lin_nodes = nn.Linear(dim, dim)
        self.dropout = Dropout(dropout)
        self.mlp_final = nn.Sequential()
        for _ in range(final_layers):
            self.mlp_final.extend([nn.Linear(dim, dim), nn.ReLU(), BatchNorm(dim), Dropout(dropout)])
        self.head = frame.head(dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        x, _, batch = self.encode(batch)
        h = self.mlp_nodes(x)
        h = h + self.lin_nodes(h)
        if self.rows is not None and self.lin_edges is not None:
            rows = self.rows(batch)
            if self.norm_edges is not None and self.mlp_edges is not None:
                rows = self.mlp_edges(self.norm_edges(rows.relu()))
            h = h + rows + self.lin_edges(rows)
        return self.head(self.mlp_final(h.relu()), batch)
