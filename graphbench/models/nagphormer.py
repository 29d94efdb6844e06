"""NAGphormer: a node is a short sequence of its neighbourhoods (https://arxiv.org/abs/2206.04910)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.blocks.transformer_encoder import TransformerEncoder
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm
from graphbench.layers.normal_weights import draw_normal_weights
from graphbench.models.contract import EncodedModel, Frame
from graphbench.ops.propagate import propagate
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense
from graphbench.structures.size_groups import equal_sizes


@dataclass(frozen=True)
class HopSettings:
    """Tokens and Transformer; every field is a key of the model.

    Attributes:
        hops: K, neighbourhoods besides the node itself.
        num_heads: attention heads.
        transformer_dropout: dropout after attention and after the feed-forward network.
        attention_dropout: dropout of attention weights.
    """

    hops: int = 3
    num_heads: int = 8
    transformer_dropout: float = 0.1
    attention_dropout: float = 0.1


@register("NAGphormer")
class NAGphormer(EncodedModel):
    """Transformer over hops (Hop2Token): the k-hop neighbourhood of a node is its k-th of K + 1 tokens.

    Equations, A^ = D^-1/2 (A + I) D^-1/2, X the encoded nodes (features and Laplacian eigenvectors)::

        t_ik = W (A^^k X)_i + b,   z_i = LN(Transformer(t_i0, .., t_iK))                 pre-norm, GELU
        a_ik = softmax over k = 1 .. K of u . [z_i0 | z_ik]
        y_i = head(relu(W' (z_i0 + sum_k a_ik z_ik) + b'))                               W' halves the width

    Args:
        frame: encoder, widths, ``dim`` even, factory of the head.
        layers: Transformer layers (``gt.layers``).
        settings: keys of their own, see :class:`HopSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the released code: the scores have no bias, which the softmax would cancel. Tokens of all nodes of
    a batch are one batch of sequences; there, nodes are drawn in batches of their own. X has the encoder's map; there
    it is features and eigenvectors themselves.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        frame: Frame,
        layers: FromContext[int],
        *,
        settings: HopSettings = HopSettings(),
    ) -> None:
        super().__init__(frame.encoder, keep_sparse=False)
        dim = frame.dim
        check_at_least(1, hops=settings.hops)
        if dim % 2:
            raise ArgumentError("dim", f"NAGphormer halves the width, which must be even, received {dim}")
        self.hops = settings.hops
        self.lin_in = nn.Linear(frame.dim_encoded, dim)
        self.layers: Modules[TransformerEncoder] = Modules(
            TransformerEncoder(
                dim,
                settings.num_heads,
                dropout=settings.transformer_dropout,
                attn_dropout=settings.attention_dropout,
                ffn_dim=2 * dim,
                ffn_dropout=0.0,
                ffn_act="gelu",
                norm_first=True,
            )
            for _ in range(layers)
        )
        self.norm = LayerNorm(dim)
        self.readout = nn.Linear(2 * dim, 1, bias=False)
        self.lin_out = nn.Linear(dim, dim // 2)
        self.head = frame.head(dim // 2)
        draw_normal_weights(self, layers)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, _, batch = self.encode(batch)
        return self.head(self.states(self.tokens(as_dense(h), batch), batch), batch)

    def tokens(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, K + 1, dim); the map is taken before the propagation, with which it commutes, its bias after."""
        adjacency = batch.adjacency(norm="sym", self_loops=True)
        hops = [nn.functional.linear(h, self.lin_in.weight)]
        for _ in range(self.hops):
            hops.append(propagate(adjacency, hops[-1]))
        return torch.stack(hops, dim=1) + self.lin_in.bias

    def states(self, tokens: Tensor, batch: GraphBatch) -> Tensor:
        """(N, dim / 2) from the tokens (N, K + 1, dim)."""
        sequences = batch.derived(_nodes_as_sequences, self.hops + 1)
        z = tokens.flatten(0, 1)
        for layer in self.layers:
            z, _, _ = layer(z, None, sequences)
        z = self.norm(z).view_as(tokens)
        node, hops = z[:, :1], z[:, 1:]
        weight = self.readout(torch.cat([node.expand_as(hops), hops], dim=2)).softmax(1)
        return self.lin_out(node[:, 0] + (weight * hops).sum(1)).relu()


def _nodes_as_sequences(batch: GraphBatch, length: int) -> GraphBatch:
    """Graphs of ``length`` nodes each, one per node of ``batch``."""
    return GraphBatch(equal_sizes(batch.ragged, batch.num_nodes, length), batch.edge_index.new_empty(2, 0))
