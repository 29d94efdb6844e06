"""GECO's model: blocks of global convolutions with their local block and a feed-forward network.

Sancak et al., https://arxiv.org/abs/2406.12059, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from torch import Tensor

from graphbench.blockwise.forward import Blockwise
from graphbench.blockwise.model import BlockwiseBlock
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.errors import ArgumentError
from graphbench.heads.contract import Head
from graphbench.layers.contract import Attention, Block, LocalLayer, StatefulAttention
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm
from graphbench.models.pre_layers import PreLayer
from graphbench.models.stacked import GPSModel
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.node_blocks import HostRows


class PostNormBlock(Block, BlockwiseBlock):
    """X <- LayerNorm(X + drop(sum of sublayers(X)));  X <- LayerNorm(X + drop(W_2 drop(act(W_1 X)))), W_i d x d.

    Args:
        dim: channels of nodes.
        sublayers: local layers and attentions that read the same state; kept as ``parts``, a name in stored
            checkpoints.
        act: activation of the feed-forward network.
        dropout: probability of dropping an entry after the sublayers, and inside and after the feed-forward network.

    Shape:
        h (N, dim), e -> h' (N, dim), e', batch; norms are per node

    Raises:
        ValueError: a sublayer adds its residual itself (GatedGCN), or passes state to the next block (Exphormer).
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: int, sublayers: Sequence[LocalLayer | Attention], *, act: str, dropout: float) -> None:
        super().__init__()
        for layer in sublayers:
            if isinstance(layer, StatefulAttention) or (isinstance(layer, LocalLayer) and layer.has_residual):
                raise ValueError(
                    f"{type(layer).__name__} adds a residual or passes state to the next block, which GECO's blocks do "
                    "not support; use model.type GPSModel"
                )
        self.parts: Modules[LocalLayer | Attention] = Modules(sublayers)
        self.dropout = Dropout(dropout)
        self.norm = LayerNorm(dim)
        self.feed_forward = FeedForward(dim, act=act, dropout=dropout, expansion=1)
        self.norm_out = LayerNorm(dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """Node states (N, dim), edge states, and the batch for the next block."""
        outputs = []
        for layer in self.parts:
            out, e, batch = layer.step(h, e, batch)
            outputs.append(out)
        return self._finish(sum(outputs[1:], outputs[0]), h), e, batch

    def forward_blockwise(self, h: HostRows, e: HostRows | None, blocks: Blockwise) -> tuple[HostRows, HostRows | None]:
        """States behind the block, see :class:`~graphbench.blockwise.model.BlockwiseBlock`."""
        summed: tuple[HostRows, ...] = ()
        for layer in self.parts:
            if isinstance(layer, LocalLayer):
                new, e = blocks.messages(layer, h, e, *summed, then=lambda out, *before: sum(before, out))
            else:
                new = blocks.attend(layer, h, *summed, then=lambda out, old, *before: sum(before, out), e=e)
            summed = (new,)
        return blocks.rows(lambda out, old, batch: self._finish(out, old), *summed, h), e

    def _finish(self, out: Tensor, h: Tensor) -> Tensor:
        x = self.norm(h + self.dropout(out))
        return self.norm_out(x + self.feed_forward(x))


@register("GECO")
class GECOModel(GPSModel):
    """Stack of GECO blocks on encoded nodes.

    y = head(blocks(X)), X the encoded nodes, concatenated with their positional encodings.

    Every block is a :class:`PostNormBlock` of the layers in ``gt.layer_type``: ``GECO`` for the paper's model,
    ``Hyena`` for its baseline of Table 5, or any other attention; ``<local>+GECO`` adds a local layer that reads the
    same state.

    Args:
        encoder: node encoder, ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: width of the encoded nodes; must be ``dim`` unless ``layers_pre_mp`` maps it there.
        edge_encoder: edge encoder, ``batch -> (E, dim_edge)``, or None.
        dim: width of the hidden state (``gnn.dim_inner``).
        layers: number of blocks (``gt.layers``).
        attention: factory of attentions; None leaves it out.
        local: factory of local layers, from their widths; None leaves it out.
        head: factory of the head, from the width of the hidden state.
        pre_mp: linear layers between encoder and blocks (``gnn.layers_pre_mp``), or None.
        dropout: dropout of the blocks (``gnn.dropout``).
        act: activation of the blocks (``gnn.act``).

    Shape:
        batch -> prediction of the head

    Differences from the paper: none known; the permutation of its Algorithm 2 belongs to the layer
    (``gt.GECO.permutation``).
    """

    def __init__(
        self,
        encoder: FromContext[NodeEncoder],
        dim_encoded: FromContext[int],
        edge_encoder: FromContext[EdgeEncoder | None],
        dim: FromContext[int],
        layers: FromContext[int],
        attention: FromContext[Callable[[], Attention] | None],
        local: FromContext[Callable[[int, int], LocalLayer] | None],
        head: FromContext[Callable[[int], Head]],
        *,
        pre_mp: FromContext[Modules[PreLayer] | None] = None,
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
    ) -> None:
        if attention is None and local is None:
            raise ArgumentError(
                ("attention", "local"), "a block needs an attention, a local layer or both, received neither"
            )

        def block() -> Block:
            sublayers: list[LocalLayer | Attention] = []
            if local is not None:
                sublayers.append(local(dim, dim))
            if attention is not None:
                sublayers.append(attention())
            return PostNormBlock(dim, sublayers, act=act, dropout=dropout)

        super().__init__(encoder, dim_encoded, edge_encoder, dim, layers, block, head, pre_mp=pre_mp)
