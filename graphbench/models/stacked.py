"""Encoders, a stack of blocks, a head: the shape of GraphGPS and of most graph transformers.

Rampasek et al., Recipe for a General, Powerful, Scalable Graph Transformer, https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

from graphbench.blockwise.forward import Blockwise
from graphbench.blockwise.model import BlockwiseModel
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.errors import ArgumentError, check_at_least
from graphbench.heads.contract import Head
from graphbench.layers.contract import Block
from graphbench.layers.module_list import Modules
from graphbench.layers.sharing import tie_layers
from graphbench.models.contract import EncodedModel
from graphbench.models.pre_layers import PreLayer
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense
from graphbench.structures.node_blocks import NodeBlocks


@register("GPSModel")
class GPSModel(EncodedModel, BlockwiseModel):
    r"""GraphGPS: encoders, a stack of blocks of local layers and attention, and a head.

    h, e <- encoders(batch);  h <- pre(h);  (h, e) <- block_l(h, e), l = 1 .. layers;  y <- head(h).

    Models of this shape are subclasses that choose where their blocks come from, see
    :mod:`graphbench.models.gps_variants`.

    Args:
        encoder: node encoder, ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: width of the encoded nodes; must be ``dim`` unless ``layers_pre_mp`` maps it there.
        edge_encoder: edge encoder, ``batch -> (E, dim_edge)``, or None for layers that read no edge features.
        dim: width of the hidden state (``gnn.dim_inner``).
        layers: number of blocks (``gt.layers``).
        block: factory of blocks.
        head: factory of the head, from the width of the hidden state.
        prepare: module ``(h, e, batch) -> batch'`` before the first block, for state shared by all blocks, or None.
        pre_mp: linear layers between encoder and blocks (``gnn.layers_pre_mp``), or None.

    Shape:
        batch -> prediction of the head
    """

    capturable: ClassVar[bool] = True

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
        pre_mp: FromContext[Modules[PreLayer] | None] = None,
    ) -> None:
        super().__init__(encoder, edge_encoder, keep_sparse=bool(pre_mp))  # blocks add their input to their output
        check_at_least(0, layers=layers)
        if not pre_mp and dim_encoded != dim:
            raise ArgumentError(
                ("encoder", "dim_encoded", "dim"),
                f"the node encoder gives {dim_encoded} columns and the blocks read {dim}: name a node encoder, "
                "or map the columns with gnn.layers_pre_mp of 1 or more",
            )
        self.prepare = prepare
        self.pre_mp: Modules[PreLayer] = Modules() if pre_mp is None else pre_mp
        self.layers: Modules[Block] = Modules(block() for _ in range(layers))
        tie_layers(self.layers)
        self.head = head(dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        if self.prepare is not None:
            batch = self.prepare(h, e, batch)
        for layer in self.pre_mp:
            h = layer(h, batch)
        for block in self.layers:
            h, e, batch = block.step(h, e, batch)
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
        return as_dense(blocks.rows(self.head, h).tensor)
