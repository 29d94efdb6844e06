"""GECO as a model of its own: nothing but global convolutions with their local block, and feed-forward parts.

Sancak et al., https://arxiv.org/abs/2406.12059, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.errors import ArgumentError
from graphbench.heads.contract import Head
from graphbench.layers.contract import Block, GlobalAttention, LocalLayer, StatefulAttention
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.models.stacked import GPSModel
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


class PostNormBlock(Block):
    """X <- LayerNorm(X + drop(sum of parts(X)));  X <- LayerNorm(X + drop(W_2 drop(act(W_1 X)))), W_i from d to d.

    Args:
        dim: channels of nodes.
        parts: layers that read the same state: attentions ``(h, e, batch) -> h'``, local layers
            ``(h, e, batch) -> (h', e')``.
        act: activation of the feed-forward part.
        dropout: probability of dropping an entry of what the parts return, and inside and after the feed-forward part.

    Shape:
        h (N, dim), e -> h' (N, dim), e', batch; the norms are those of single nodes

    Raises:
        ValueError: a part adds its residual itself (GatedGCN), or works on pairs that it carries on (Exphormer).
    """

    def __init__(self, dim: int, parts: Sequence[nn.Module], *, act: str, dropout: float) -> None:
        super().__init__()
        for part in parts:
            if isinstance(part, StatefulAttention) or (isinstance(part, LocalLayer) and part.has_residual):
                raise ValueError(
                    f"{type(part).__name__} brings its own residual or pairs and cannot stand in this block; use "
                    "model.type GPSModel"
                )
        self.parts = nn.ModuleList(parts)
        self.dropout = Dropout(dropout)
        self.norm = nn.LayerNorm(dim)
        self.feed_forward = FeedForward(dim, act=act, dropout=dropout, expansion=1)
        self.norm_out = nn.LayerNorm(dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New states of the nodes."""
        new = []
        for part in self.parts:
            out, e, batch = part.step(h, e, batch)
            new.append(out)
        x = self.norm(h + self.dropout(sum(new[1:], new[0])))
        return self.norm_out(x + self.feed_forward(x)), e, batch


@register("GECO")
class GECOModel(GPSModel):
    """y = head(blocks(X)), X being the encoded nodes beside their positional encodings.

    Every block is a :class:`PostNormBlock` of what ``gt.layer_type`` names: ``GECO`` for the paper's model, ``Hyena``
    for its baseline of Table 5, or any other attention; ``<local>+GECO`` adds a local layer that reads the same state.

    Args:
        encoder: module ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: its width; must be ``dim`` unless ``layers_pre_mp`` maps it there.
        edge_encoder: module ``batch -> (E, dim_edge)``, or None.
        dim: width of the hidden state (``gnn.dim_inner``).
        layers: number of blocks (``gt.layers``).
        attention: makes one attention; None leaves it out.
        local: makes one local layer from its widths; None leaves it out.
        head: makes the head from the width of the hidden state, ``(h, batch) -> prediction``.
        pre_mp: linear layers between encoder and blocks (``gnn.layers_pre_mp``); None for none.
        dropout: dropout of the blocks (``gnn.dropout``).
        act: activation of the blocks (``gnn.act``).

    Shape:
        batch -> what the head returns

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
        attention: FromContext[Callable[[], GlobalAttention] | None],
        local: FromContext[Callable[[int, int], LocalLayer] | None],
        head: FromContext[Callable[[int], Head]],
        *,
        pre_mp: FromContext[nn.ModuleList | None] = None,
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
    ) -> None:
        if attention is None and local is None:
            raise ArgumentError(
                ("attention", "local"), "a block needs an attention, a local layer or both, received neither"
            )

        def block() -> nn.Module:
            parts = [] if local is None else [local(dim, dim)]
            return PostNormBlock(dim, parts + ([] if attention is None else [attention()]), act=act, dropout=dropout)

        super().__init__(encoder, dim_encoded, edge_encoder, dim, layers, block, head, pre_mp=pre_mp)
