"""GraphTrans: a Transformer on top of message passing.

Wu et al., Representing Long-Range Context for Graph Neural Networks with Global Attention,
https://arxiv.org/abs/2201.08821.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.encoders.token import prepend_token
from graphbench.errors import check_one_of
from graphbench.layers.blocks.transformer_encoder import TransformerEncoder
from graphbench.layers.contract import LocalLayer
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.models.virtual_node import MessagePassing, MessagePassingSettings
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.size_groups import equal_sizes


@dataclass(frozen=True)
class TransformerSettings:
    """The Transformer; every field is a key of the model.

    Attributes:
        transformer_layers: layers of the Transformer.
        transformer_heads: attention heads of the Transformer.
        transformer_dim: width of the Transformer; None: that of the local layers.
        transformer_ffn_dim: width inside its feed-forward networks.
        transformer_dropout: dropout of the Transformer, that of attention weights included.
        norm_input: a LayerNorm before the first layer, of <CLS> as well.
        readout: ``nodes``: the head reads the nodes; ``token``: it reads the token <CLS> of every graph, which attends
            to the nodes of its graph from the first layer on.
    """

    transformer_layers: int = 4
    transformer_heads: int = 4
    transformer_dim: int | None = None
    transformer_ffn_dim: int = 512
    transformer_dropout: float = 0.0
    norm_input: bool = False
    readout: Literal["nodes", "token"] = "nodes"


@register("GraphTrans")
class GraphTrans(EncodedModel):
    """Local layers, then a Transformer within every graph, read through one token of the graph or all of its nodes.

    Equations::

        z = MessagePassing(h, e)                       with or without a virtual node
        x = [LN] (W z + b)                             <CLS> prepended before LN for ``readout: token``
        x = LN(TransformerEncoder_L(.. x ..))          post-norm, ReLU inside
        y = head(x)                                    of the nodes, or of <CLS> alone

    Args:
        frame: encoders, widths, factory of the head.
        layers: number of local layers (``gnn.layers_mp``).
        local: factory of local layers (``gnn.layer_type``).
        stack: keys of their own, see :class:`~graphbench.models.virtual_node.MessagePassingSettings`.
        dropout: dropout after every local layer (``gnn.dropout``).
        transformer: keys of their own, see :class:`TransformerSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the released code: sequences are not cut at 1,000 nodes, and no padding is attended to. There is no
    dropout of whole edges or nodes (its augmentations). For node tasks SGFormer's release has the same model without a
    token, ``readout: nodes``; it draws every matrix of the Transformer by Glorot's rule, here linear maps are torch's.
    """

    capturable: ClassVar[bool] = True
    layers_from = "gnn"

    def __init__(
        self,
        frame: EdgeFrame,
        layers: FromContext[int],
        local: FromContext[Callable[[int, int], LocalLayer] | None],
        *,
        stack: MessagePassingSettings,
        dropout: FromContext[float] = 0.0,
        transformer: TransformerSettings = TransformerSettings(),
    ) -> None:
        super().__init__(frame.encoder, frame.edge_encoder)
        dim = frame.dim
        check_one_of(("nodes", "token"), readout=transformer.readout)
        self.stack = MessagePassing(
            frame.dim_encoded, dim, layers, local, stack, dropout=dropout, edge_columns=frame.edge_columns
        )
        width = transformer.transformer_dim or dim
        self.lin = nn.Linear(self.stack.width, width)
        self.norm_in = LayerNorm(width) if transformer.norm_input else nn.Identity()
        self.of_graphs = transformer.readout == "token"
        self.token = nn.Parameter(torch.randn(1, width)) if self.of_graphs else None
        rate = transformer.transformer_dropout
        self.layers: Modules[TransformerEncoder] = Modules(
            TransformerEncoder(
                width,
                transformer.transformer_heads,
                dropout=rate,
                attn_dropout=rate,
                ffn_dim=transformer.transformer_ffn_dim,
            )
            for _ in range(transformer.transformer_layers)
        )
        self.norm_out = LayerNorm(width)
        self.head = frame.head(width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        x = self.lin(self.stack(h, e, batch))
        prediction: Tensor
        if self.token is None:
            prediction = self.head(self._transformed(x, batch), batch)
            return prediction
        rows, with_token = batch.derived(prepend_token, "GraphTrans")
        x = self.token.to(x.dtype).expand(with_token.num_nodes, -1).index_copy(0, rows, x)
        x = self._transformed(x, with_token)
        first = x.index_select(0, with_token.ragged.ptr[:-1])
        prediction = self.head(first, batch.derived(graphs_as_nodes))
        return prediction

    def _transformed(self, x: Tensor, batch: GraphBatch) -> Tensor:
        x = self.norm_in(x)
        for layer in self.layers:
            x, _, _ = layer(x, None, batch)
        return self.norm_out(x)


def graphs_as_nodes(batch: GraphBatch) -> GraphBatch:
    """Graphs of one node each, which stands for a graph of ``batch``: what is pooled from them is that node."""
    graphs = equal_sizes(batch.ragged, batch.num_graphs, 1)
    return GraphBatch(graphs, batch.edge_index.new_empty(2, 0), y=batch.y, real_graphs=batch.real_graphs)
