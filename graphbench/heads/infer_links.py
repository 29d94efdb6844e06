"""Prediction of edges for the synthetic task of inferring the edges of a graph from its node states."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.errors import ArgumentError
from graphbench.heads.contract import Head
from graphbench.heads.edge import labelled_pairs
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("infer_links")
class InferLinksHead(Head):
    """Scaled dot-product decoder for pairs of nodes, one logit per class.

    y_st = w <h_s, h_t> + b.

    Args:
        dim_in: width of the hidden state; any.
        out_dim: number of classes, 2: no edge, edge.
        infer_link_label: the inferred label, ``edge`` (``dataset.infer_link_label``).

    Shape:
        h (N, dim_in) -> (P, out_dim), one row per pair of ``batch.edge_sets["label"]``
    """

    capturable: ClassVar[bool] = True
    predicts = "pair"
    infers_links = True

    def __init__(
        self, dim_in: FromContext[int], out_dim: FromContext[int], *, infer_link_label: FromContext[str] = "edge"
    ) -> None:
        super().__init__()
        if infer_link_label != "edge":
            raise ArgumentError(
                "infer_link_label",
                f"infer_link_label must be 'edge' for the head infer_links, received '{infer_link_label}'",
            )
        self.lin = nn.Linear(1, out_dim)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(P, 2) logits of the labelled pairs."""
        source, target = labelled_pairs(batch).index
        score = (h.index_select(0, source) * h.index_select(0, target)).sum(1, keepdim=True)
        return self.lin(score)
