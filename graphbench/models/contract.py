"""What a model is, and what the configuration offers it: encoders, makers of layers, a maker of the head."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.heads.contract import Head
from graphbench.layers.contract import Block, GlobalAttention, LocalLayer
from graphbench.models.pre_layers import LayerSettings
from graphbench.registry import UNSET
from graphbench.structures import GraphBatch


@dataclass(frozen=True)
class ModelContext:
    """What a model is made of.

    Attributes:
        encoder: ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: its width.
        edge_encoder: ``batch -> (E, dim_edge)``, or None.
        dim: width of the hidden state (``gnn.dim_inner``).
        dim_edge: width of the edge states.
        layers: number of layers (``gt.layers``, ``gnn.layers_mp``, ``graphormer.num_layers``).
        block: makes one block of what ``layer_type`` names.
        local: makes the one local layer that it names from widths ``(dim_in, dim_out)``; None where it names none.
        attention: makes the one attention that it names; None where it names none.
        head: makes the head from the width of what it reads.
        prepare: ``(h, e, batch) -> batch'`` before the first block, for what all blocks share; None for nothing.
        pre_mp: linear layers between encoder and layers (``gnn.layers_pre_mp``); they are built for models that ask.
        post: what follows every convolution of GraphGym's network.
        stage_type: ``gnn.stage_type``.
        batchnorm: ``gnn.batchnorm``.
        dropout: ``gnn.dropout``.
        act: ``gnn.act``.
    """

    encoder: NodeEncoder = UNSET
    dim_encoded: int = UNSET
    edge_encoder: EdgeEncoder | None = UNSET
    dim: int = UNSET
    dim_edge: int = UNSET
    layers: int = UNSET
    block: Callable[[], Block] = UNSET
    local: Callable[[int, int], LocalLayer] | None = UNSET
    attention: Callable[[], GlobalAttention] | None = UNSET
    head: Callable[[int], Head] = UNSET
    prepare: nn.Module | None = UNSET
    pre_mp: nn.ModuleList = UNSET
    post: LayerSettings = UNSET
    stage_type: str = UNSET
    batchnorm: bool = UNSET
    dropout: float = UNSET
    act: str = UNSET


class Model(nn.Module):
    """A batch to predictions.

    Attributes:
        registered_name: set by :func:`~graphbench.registry.register`.
        layers_from: group of the configuration that names and counts the layers: ``gt`` (``gt.layer_type``,
            ``gt.layers``), ``gnn`` (``gnn.layer_type``, ``gnn.layers_mp``) or ``graphormer``.
        layer: the one kind of block that the model is made of, a name in ``layers/blocks``; None: ``layer_type``.
        feed_forward: False: a block is one sublayer and nothing else
            (:class:`~graphbench.layers.single.SingleBlock`).
    """

    registered_name: ClassVar[str] = ""
    layers_from: ClassVar[Literal["gt", "gnn", "graphormer"]] = "gt"
    layer: ClassVar[str | None] = None
    feed_forward: ClassVar[bool] = True

    @abstractmethod
    def forward(self, batch: GraphBatch) -> Tensor:
        """Predictions of the head: (G, out_dim), (N, out_dim) or (P, out_dim)."""
