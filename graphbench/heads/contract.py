"""Base class of prediction heads, and the context that the model offers them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from torch import Tensor, nn

from graphbench.contract import Capturable, PredictionHead
from graphbench.registry import UNSET
from graphbench.structures import GraphBatch

Row: TypeAlias = Literal["graph", "node", "pair"]


@dataclass(frozen=True)
class HeadContext:
    """Values that the model offers to its head; a parameter ``name: FromContext[...]`` reads the field ``name``.

    Attributes:
        dim_in: width of the hidden state.
        out_dim: width of the prediction.
        layers_post_mp: linear maps (``gnn.layers_post_mp``, at least 1).
        pooling: ``model.graph_pooling``.
        act: ``gnn.act``.
        dropout: ``gnn.dropout``.
        batchnorm: ``gnn.batchnorm``.
        decoding: ``model.edge_decoding``.
        infer_link_label: ``dataset.infer_link_label``.
        fixed: fields that no key of a head's section changes.
    """

    fixed: ClassVar[tuple[str, ...]] = ("dim_in", "out_dim")

    dim_in: int = UNSET
    out_dim: int = UNSET
    layers_post_mp: int = UNSET
    pooling: str = UNSET
    act: str = UNSET
    dropout: float = UNSET
    batchnorm: bool = UNSET
    decoding: str = UNSET
    infer_link_label: str = UNSET


class Head(nn.Module, PredictionHead, Capturable):
    """Map from hidden node states to predictions.

    Attributes:
        registered_name: set by :func:`~graphbench.registry.register`.
        reads_sparse: begins with an :class:`~graphbench.layers.input_linear.InputLinear`.
        predicts: kind of the rows of the prediction; None where the class does not say.
        infers_links: its targets are the edges of the graphs, in place of those that the data have.
        accepts_graph_token: False where every node (or pair) needs a target, which a graph token does not have.
    """

    registered_name: ClassVar[str] = ""
    reads_sparse: ClassVar[bool] = False
    predicts: ClassVar[Row | None] = None
    infers_links: ClassVar[bool] = False
    accepts_graph_token: ClassVar[bool] = True

    @abstractmethod
    def forward(self, h: Any, batch: GraphBatch) -> Tensor:
        """(G, out_dim), (N, out_dim) or (P, out_dim) from h (N, dim_in): graphs, nodes, labelled pairs."""
