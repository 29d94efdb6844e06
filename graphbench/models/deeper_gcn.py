"""DeeperGCN: pre-activation residual stacks of generalised aggregations (https://arxiv.org/abs/2006.07739)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.layers.contract import LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.models.requirements import EdgeTables, Tables, check_same_width, local_layers
from graphbench.models.virtual_node import virtual_update
from graphbench.ops.segment import segment_repeat, segment_sum
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense


@register("DeeperGCN")
class DeeperGCN(EncodedModel):
    """Deep message passing with pre-activation residuals: norm, ReLU, dropout, convolution, residual ("res+").

    Equations::

        h_1 = CONV_1(h_0 [+ v_1], e),   h_l = h_{l-1} + CONV_l(x_l [+ v_l], e),   y = head(drop(BN(h_L)))
        x_l = drop(relu(BN(h_{l-1}))),   v_l = drop(MLP_l(v_{l-1} + sum over the nodes of the graph of x_l))

    In brackets what a virtual node adds: v_1 a learned row that starts at 0, MLP = W, BN, ReLU, W, BN, ReLU.

    Args:
        frame: encoders, widths, factory of the head.
        layers: L (``gnn.layers_mp``).
        local: factory of convolutions (``gnn.layer_type``: ``GENConv``, or any local layer).
        dropout: probability (``gnn.dropout``).
        edge_tables: ``shared``, ``per_layer``, .., see :class:`~graphbench.models.requirements.EdgeTables`.
        virtual_node: a node per graph that hears all others and speaks to all.

    Shape:
        batch -> prediction of the head

    Differences from the paper: BatchNorm in place of a choice of norms.
    """

    capturable: ClassVar[bool] = True
    layers_from = "gnn"

    def __init__(
        self,
        frame: EdgeFrame,
        layers: FromContext[int],
        local: FromContext[Callable[[int, int], LocalLayer] | None],
        *,
        dropout: FromContext[float] = 0.0,
        edge_tables: Tables = "shared",
        virtual_node: bool = False,
    ) -> None:
        super().__init__(frame.encoder, frame.edge_encoder, keep_sparse=False)
        dim, dim_encoded = frame.dim, frame.dim_encoded
        local, self.tables = local_layers(local, layers), EdgeTables(edge_tables, dim, layers, frame.edge_columns)
        if virtual_node:
            check_same_width(dim_encoded, dim, "virtual_node is added to encoded nodes and states")
        self.layers: Modules[LocalLayer] = Modules(
            local(dim if number else dim_encoded, dim) for number in range(layers)
        )
        self.norms: Modules[BatchNorm] = Modules(BatchNorm(dim) for _ in range(layers))
        self.virtual = nn.Parameter(torch.zeros(1, dim)) if virtual_node else None
        self.virtual_updates = nn.ModuleList(virtual_update(dim, dim) for _ in range(layers - 1 if virtual_node else 0))
        self.dropout = Dropout(dropout)
        self.head = frame.head(dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        x, e, batch = self.encode(batch)
        h = as_dense(x)
        v = None if self.virtual is None else self.virtual.expand(batch.num_graphs, -1)
        for number, layer in enumerate(self.layers):
            state = self.dropout(self.norms[number - 1](h, batch).relu()) if number else h
            if v is not None:
                if number:
                    heard = v + segment_sum(state, batch.ragged)
                    v = self.dropout(self.virtual_updates[number - 1](heard, batch, "graph"))
                state = state + segment_repeat(v, batch.ragged)
            new, _, _ = layer.step(state, self.tables.of(e, number), batch)
            h = h + new if number else new
        return self.head(self.dropout(self.norms[-1](h, batch)), batch)
