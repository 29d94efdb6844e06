"""Message passing with a virtual node: the baselines of OGB, and the local part of GraphTrans.

Hu et al., Open Graph Benchmark, https://arxiv.org/abs/2005.00687; the node is that of Gilmer et al.,
https://arxiv.org/abs/1704.01212, and Li et al., https://arxiv.org/abs/1709.03741.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.errors import check_one_of
from graphbench.layers.contract import LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import readable
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm, NormedSequential
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.models.requirements import EdgeTables, Tables, check_same_width, local_layers
from graphbench.ops.segment import segment_repeat, segment_sum
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch, as_dense


@dataclass(frozen=True)
class MessagePassingSettings:
    """The stack of local layers; every field is a key of the model.

    Attributes:
        virtual_node: a node per graph that hears all others and speaks to all, see :class:`MessagePassing`.
        virtual_expansion: width inside its MLP as a multiple of ``dim``; 2 in OGB's programs, 1 in those of OGB-LSC.
        edge_tables: ``shared``, ``per_layer``, .., see :class:`~graphbench.models.requirements.EdgeTables`.
        local_residual: every layer adds its input.
        jump: ``last``: node states are those of the last layer; ``cat``: [x_0 | last layer].
        norm_last: BatchNorm and dropout after the last layer, too.
        virtual_norm_last: BatchNorm after the second map of the virtual node's MLP, too; not in GSN's program.
    """

    virtual_node: bool = False
    virtual_expansion: int = 2
    edge_tables: Tables = "shared"
    local_residual: bool = False
    jump: Literal["last", "cat"] = "last"
    norm_last: bool = True
    virtual_norm_last: bool = True


class MessagePassing(nn.Module):
    r"""Convolution, BatchNorm, ReLU, dropout; no ReLU after the last.

    Equations, v_0 a learned row that starts at 0, g the graph of node i, residuals in brackets::

        x_l = h_l + v_l[g]
        h_{l+1} = drop(relu(BN(CONV_l(x_l, e)))) [+ x_l]
        v_{l+1} = [v_l +] drop(MLP_l(v_l + sum over the nodes of g of x_l)),   MLP = W, BN, ReLU, W, BN, ReLU

    Args:
        dim_in: width of the encoded nodes.
        dim: width of every layer.
        layers: number of convolutions; the virtual node is updated between them.
        local: factory of convolutions, from their widths.
        settings: virtual node, edge states, residuals.
        dropout: probability.
        edge_columns: columns of the edge states; None where there are none.

    Shape:
        h (N, dim_in), e -> (N, dim), or (N, dim_in + dim) with ``jump: cat``

    Raises:
        ArgumentError: no convolution, or widths that residuals and virtual node cannot add.
    """

    def __init__(
        self,
        dim_in: int,
        dim: int,
        layers: int,
        local: Callable[[int, int], LocalLayer] | None,
        settings: MessagePassingSettings,
        *,
        dropout: float,
        edge_columns: int | None,
    ) -> None:
        super().__init__()
        local = local_layers(local, layers)
        self.tables = EdgeTables(settings.edge_tables, dim, layers, edge_columns)
        check_one_of(("last", "cat"), jump=settings.jump)
        if settings.virtual_node or settings.local_residual:
            check_same_width(dim_in, dim, "virtual_node and local_residual add encoded nodes to hidden states")
        self.layers: Modules[LocalLayer] = Modules(local(dim if number else dim_in, dim) for number in range(layers))
        norms = layers if settings.norm_last else layers - 1
        self.norms: Modules[BatchNorm] = Modules(BatchNorm(dim) for _ in range(norms))
        self.dropout = Dropout(dropout)
        self.virtual = nn.Parameter(torch.zeros(1, dim)) if settings.virtual_node else None
        self.virtual_updates = nn.ModuleList(
            virtual_update(dim, settings.virtual_expansion * dim, norm_last=settings.virtual_norm_last)
            for _ in range(layers - 1 if settings.virtual_node else 0)
        )
        self.settings = settings
        # Everything but the first convolution adds or concatenates the encoded nodes.
        self.reads_dense = settings.virtual_node or settings.local_residual or settings.jump == "cat"
        self.width = dim_in + dim if settings.jump == "cat" else dim

    def forward(self, features: Features, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """(N, width) node states."""
        h = as_dense(features) if self.reads_dense else features
        v = None if self.virtual is None else self.virtual.expand(batch.num_graphs, -1)
        encoded = h  # with a virtual node, after it has spoken to them
        for number, layer in enumerate(self.layers):
            x = h if v is None else as_dense(h) + segment_repeat(v, batch.ragged)
            encoded = encoded if number else x
            new, e_new, _ = layer.step(readable(x, layer), self.tables.of(e, number), batch)
            e = e_new if self.tables.shared else e
            last = number == len(self.layers) - 1
            if number < len(self.norms):
                new = self.norms[number](new, batch)
                new = self.dropout(new if last else new.relu())
            h = new + as_dense(x) if self.settings.local_residual else new
            if v is not None and not last:
                heard = v + segment_sum(as_dense(x), batch.ragged)
                update = self.dropout(self.virtual_updates[number](heard, batch, "graph"))
                v = v + update if self.settings.local_residual else update
        return torch.cat([as_dense(encoded), as_dense(h)], dim=1) if self.settings.jump == "cat" else as_dense(h)


def virtual_update(dim: int, inner: int, *, norm_last: bool = True) -> NormedSequential:
    """The MLP of a virtual node: W, BN, ReLU, W, BN (with ``norm_last``), ReLU, of width ``inner`` inside."""
    last = [nn.Linear(inner, dim), *([BatchNorm(dim)] if norm_last else []), nn.ReLU()]
    return NormedSequential(nn.Linear(dim, inner), BatchNorm(inner), nn.ReLU(), *last)


@register("OGBGNN")
class OGBGNN(EncodedModel):
    """GCN and GIN as OGB trains them, with or without a virtual node.

    y = head(MessagePassing(h, e)).

    Args:
        frame: encoders, widths, factory of the head.
        layers: number of convolutions (``gnn.layers_mp``).
        local: factory of convolutions (``gnn.layer_type``: ``OGBGCN`` or ``OGBGIN``, or any local layer).
        dropout: probability (``gnn.dropout``).
        stack: keys of their own, see :class:`MessagePassingSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the released code: tables of edges that every layer has for itself (``edge_tables: per_layer``) are
    initialised as one wider table; batches of one row keep BatchNorm's running statistics.
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
        stack: MessagePassingSettings = MessagePassingSettings(),
    ) -> None:
        super().__init__(frame.encoder, frame.edge_encoder)
        self.stack = MessagePassing(
            frame.dim_encoded, frame.dim, layers, local, stack, dropout=dropout, edge_columns=frame.edge_columns
        )
        self.head = frame.head(self.stack.width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        return self.head(self.stack(h, e, batch), batch)
