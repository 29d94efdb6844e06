"""Encoders, a stack of blocks, a head: the shape of GraphGPS and of most graph transformers.

Rampasek et al., Recipe for a General, Powerful, Scalable Graph Transformer, https://arxiv.org/abs/2205.12454. A model
of this shape is a subclass that says where its blocks come from; see :class:`GPSModel`.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from graphbench.blockwise.forward import Blockwise
from graphbench.blockwise.model import BlockwiseModel
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder, keep_sparse
from graphbench.errors import ArgumentError
from graphbench.heads.contract import Head
from graphbench.layers.contract import Block
from graphbench.layers.sharing import tie_layers
from graphbench.models.contract import Model
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.node_blocks import NodeBlocks


@register("GPSModel")
class GPSModel(Model, BlockwiseModel):
    r"""h, e <- encoders(batch);  h <- pre(h);  (h, e) <- block_l(h, e), l = 1 .. layers;  y <- head(h).

    Args:
        encoder: module ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: its width; must be ``dim`` unless ``layers_pre_mp`` maps it there.
        edge_encoder: module ``batch -> (E, dim_edge)``, or None for layers that read no edge features.
        dim: width of the hidden state (``gnn.dim_inner``).
        layers: number of blocks (``gt.layers``).
        block: makes one block, ``(h, e, batch) -> (h, e, batch')``.
        head: makes the head from the width of the hidden state, ``(h, batch) -> prediction``.
        prepare: module ``(h, e, batch) -> batch'`` before the first block, for what all blocks share; None for none.
        pre_mp: linear layers between encoder and blocks (``gnn.layers_pre_mp``); None for none.

    Shape:
        batch -> what the head returns
    """

    def __init__(
        self,
        encoder: FromContext[NodeEncoder],
        dim_encoded: FromContext[int],
        edge_encoder: FromContext[EdgeEncoder | None],
        dim: FromContext[int],
        layers: FromContext[int],
        block: FromContext[Callable[[], Block]],
        head: FromContext[Callable[[int], Head]],
        *,
        prepare: FromContext[nn.Module | None] = None,
        pre_mp: FromContext[nn.ModuleList | None] = None,
    ) -> None:
        super().__init__()
        if layers < 0:
            raise ArgumentError("layers", f"layers must be 0 or more, received {layers}")
        if not pre_mp and dim_encoded != dim:
            raise ArgumentError(
                ("encoder", "dim_encoded", "dim"),
                f"the node encoder gives {dim_encoded} columns and the blocks read {dim}: name a node encoder, "
                "or map the columns with gnn.layers_pre_mp of 1 or more",
            )
        self.encoder = keep_sparse(encoder) if pre_mp else encoder  # blocks add their input to their output
        self.edge_encoder = edge_encoder
        self.prepare = prepare
        self.pre_mp = nn.ModuleList() if pre_mp is None else pre_mp
        self.layers = nn.ModuleList(block() for _ in range(layers))
        tie_layers(self.layers)
        self.head = head(dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Predicts from a batch."""
        e = None if self.edge_encoder is None else self.edge_encoder(batch)
        h, batch = self.encoder(batch)
        if self.prepare is not None:
            batch = self.prepare(h, e, batch)
        for layer in self.pre_mp:
            h = layer(h)
        for block in self.layers:
            h, e, batch = block(h, e, batch)
        return self.head(h, batch)

    def forward_blockwise(self, graph: NodeBlocks) -> Tensor:
        """The predictions of :meth:`forward` with bounded memory; see :class:`.BlockwiseModel`."""
        blocks = Blockwise(graph, self)
        e = None if self.edge_encoder is None else blocks.edges(self.edge_encoder)
        pairs = blocks.pairs(self.prepare, e)
        h = blocks.nodes(self.encoder)
        for layer in self.pre_mp:
            h = blocks.rows(layer, h)
        for block in self.layers:
            h, e = blocks.step(block, h, e, pairs)
        return blocks.rows(self.head, h).tensor
