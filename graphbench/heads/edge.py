"""One prediction per labelled pair of nodes, for link and edge tasks."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from graphbench.contract import HasStatistics
from graphbench.errors import ArgumentError, UserError, check_one_of
from graphbench.heads.contract import Head
from graphbench.heads.link_ranking import ranking_statistics
from graphbench.heads.mlp import PredictionMLP
from graphbench.ops.unit_rows import unit_length
from graphbench.registry import FromContext, register
from graphbench.structures import EdgeSet, GraphBatch

PIECE = 2**20
"""Pairs scored at a time where no gradient is asked for."""

DECODINGS = ("dot", "cosine_similarity", "concat")


@register("edge", "link_pred")
class EdgeHead(Head):
    r"""Dot-product, cosine or MLP decoder for pairs of nodes.

    y_st = <z_s, z_t>, or <z_s, z_t> / (\|z_s\| \|z_t\|), or MLP([h_s | h_t]), with z = MLP(h).

    Args:
        dim_in: width of the hidden state.
        out_dim: width of the prediction; 1 unless ``decoding`` is ``concat``.
        layers_post_mp: linear maps of the MLP (:class:`~graphbench.heads.mlp.PredictionMLP`).
        decoding: ``dot``, ``cosine_similarity`` or ``concat`` (``model.edge_decoding``).

    Shape:
        h (N, dim_in) -> (P, out_dim), one row per pair of ``batch.edge_sets["label"]``
    """

    capturable: ClassVar[bool] = True
    predicts = "pair"
    accepts_graph_token: ClassVar[bool] = False

    def __init__(
        self,
        dim_in: FromContext[int],
        out_dim: FromContext[int],
        *,
        layers_post_mp: FromContext[int] = 1,
        decoding: FromContext[str] = "dot",
    ) -> None:
        super().__init__()
        check_one_of(DECODINGS, decoding=decoding)
        if out_dim > 1 and decoding != "concat":
            raise ArgumentError(
                ("decoding", "out_dim"),
                f"edge_decoding {decoding} gives one number per pair, received out_dim = {out_dim}",
            )
        self.decoding = decoding
        if decoding == "concat":
            self.mlp = PredictionMLP(2 * dim_in, out_dim, layers_post_mp, dim_hidden=dim_in)
        else:
            self.mlp = PredictionMLP(dim_in, dim_in, layers_post_mp)

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(P, out_dim) predictions of the labelled pairs."""
        pairs = labelled_pairs(batch).index
        z = h if self.decoding == "concat" else self._embed(h)
        if torch.is_grad_enabled():
            return self._score(z, pairs)
        # Nothing is kept for a backward pass: rows of a piece of the pairs, and one number per pair.
        return torch.cat([self._score(z, piece) for piece in pairs.split(PIECE, dim=1)])

    def _score(self, z: Tensor, pairs: Tensor) -> Tensor:
        source, target = (z.index_select(0, end) for end in pairs)
        if self.decoding == "concat":
            return self.mlp(torch.cat([source, target], dim=1))
        return (source * target).sum(1, keepdim=True)

    def _embed(self, h: Tensor) -> Tensor:
        """(N, dim_in) rows whose inner products are the predictions."""
        z: Tensor = self.mlp(h)
        return unit_length(z, eps=1e-8) if self.decoding == "cosine_similarity" else z


@register("inductive_edge")
class InductiveEdgeHead(EdgeHead, HasStatistics):
    """Decoder for pairs of nodes of many graphs, which also ranks every true pair among all targets of its graph.

    Equation and arguments: :class:`EdgeHead`.

    Ranks are statistics of the evaluation, see :func:`~graphbench.heads.link_ranking.ranking_statistics`; none with
    ``concat``, where every score takes a pass through the MLP.
    """

    def statistics(self, h: Tensor, batch: GraphBatch) -> dict[str, Tensor]:
        """``mrr``, ``hits@1``, ... of every graph, (G,) each, under the names of the metrics."""
        if self.decoding == "concat":
            return {}
        if batch.y is None:
            raise UserError("ranking pairs needs their labels, and the batch has none.")
        # Scores that differ in the last bits decide ranks: never in the reduced precision of mixed training.
        with torch.autocast(h.device.type, enabled=False):
            z = self._embed(h.float() if h.dtype in (torch.float16, torch.bfloat16) else h)
            return ranking_statistics(z, batch.ragged, labelled_pairs(batch).index, batch.y.reshape(-1) == 1)


def labelled_pairs(batch: GraphBatch) -> EdgeSet:
    """The labelled pairs of a batch, ``edge_sets["label"]``.

    Raises:
        UserError: the data set has none.
    """
    if "label" not in batch.edge_sets:
        raise UserError(
            "gnn.head predicts pairs of nodes, and this data set asks about none (edge_sets['label']). Use the head "
            "graph, node or inductive_node, or a data set of pairs such as PCQM4Mv2Contact-shuffle."
        )
    return batch.edge_sets["label"]
