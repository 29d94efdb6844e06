"""Encoders, a stack of blocks, a head: the shape of GraphGPS and of most graph transformers.

Rampasek et al., Recipe for a General, Powerful, Scalable Graph Transformer, https://arxiv.org/abs/2205.12454. A model
of this shape is a subclass that says where its blocks come from; see :class:`GPSModel`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.blockwise.forward import Blockwise
from graphbench.blockwise.graph import NodeBlocks
from graphbench.encoders.compose import keep_sparse
from graphbench.layers.activation import activation
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear
from graphbench.layers.norm import BatchNorm
from graphbench.layers.sharing import tie_layers
from graphbench.registry import register
from graphbench.structures import Features, GraphBatch


@register("GPSModel")
class GPSModel(nn.Module):
    r"""h, e <- encoders(batch);  h <- pre(h);  (h, e) <- block_l(h, e), l = 1 .. layers;  y <- head(h).

    Attributes:
        layers_from: group of the configuration that names and counts the blocks: ``gt`` (``gt.layer_type``,
            ``gt.layers``) or ``gnn`` (``gnn.layer_type``, ``gnn.layers_mp``).
        layer: the one kind of block that a subclass is made of, a name in ``layers/blocks``; None: ``layer_type``.

    Args:
        encoder: module ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: its width; must be ``dim`` unless ``layers_pre_mp`` maps it there.
        edge_encoder: module ``batch -> (E, dim_edge)``, or None for layers that read no edge features.
        dim: width of the hidden state (``gnn.dim_inner``).
        layers: number of blocks (``gt.layers``).
        block: makes one block, ``(h, e, batch) -> (h, e, batch')``.
        head: makes the head from the width of the hidden state, ``(h, batch) -> prediction``.
        prepare: module ``(h, e, batch) -> batch'`` before the first block, for what all blocks share; None for none.
        layers_pre_mp: number of :class:`PreLayer` between encoder and blocks.
        batchnorm: their BatchNorm (``gnn.batchnorm``).
        dropout: their dropout (``gnn.dropout``).
        act: their activation (``gnn.act``).
        l2norm: whether they end with rows of length one (``gnn.l2norm``).

    Shape:
        batch -> what the head returns
    """

    layers_from: ClassVar[str] = "gt"
    layer: ClassVar[str | None] = None

    def __init__(
        self,
        encoder: nn.Module,
        dim_encoded: int,
        edge_encoder: nn.Module | None,
        dim: int,
        layers: int,
        block: Callable[[], nn.Module],
        head: Callable[[int], nn.Module],
        *,
        prepare: nn.Module | None = None,
        layers_pre_mp: int = 0,
        batchnorm: bool = True,
        dropout: float = 0.0,
        act: str = "relu",
        l2norm: bool = True,
    ):
        super().__init__()
        if layers < 0 or layers_pre_mp < 0:
            raise ValueError(f"layers and layers_pre_mp must be 0 or more, received {layers} and {layers_pre_mp}")
        if layers_pre_mp == 0 and dim_encoded != dim:
            raise ValueError(
                f"the node encoder gives {dim_encoded} columns and the blocks read {dim}: name a node encoder, "
                "or map the columns with gnn.layers_pre_mp of 1 or more"
            )
        self.encoder = keep_sparse(encoder) if layers_pre_mp else encoder  # blocks add their input to their output
        self.edge_encoder = edge_encoder
        self.prepare = prepare
        self.pre_mp = nn.ModuleList(
            PreLayer(dim if i else dim_encoded, dim, batchnorm=batchnorm, dropout=dropout, act=act, l2norm=l2norm)
            for i in range(layers_pre_mp)
        )
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

    def in_blocks(self, graph: NodeBlocks) -> Tensor:
        """The predictions :meth:`forward` makes for all nodes of one graph, in evaluation, with bounded memory.

        Args:
            graph: in blocks, see :mod:`graphbench.blockwise.graph`.

        Returns:
            (N, out_dim) on the host.

        Raises:
            ValueError: the encoder, a layer or the head cannot work block by block.
        """
        blocks = Blockwise(graph, self)
        e = None if self.edge_encoder is None else blocks.edges(self.edge_encoder)
        pairs = blocks.pairs(self.prepare, e)
        h = blocks.nodes(self.encoder)
        for layer in self.pre_mp:
            h = blocks.rows(layer, h)
        for block in self.layers:
            h, e = blocks.step(block, h, e, pairs)
        return blocks.rows(self.head, h).tensor


class PreLayer(nn.Module):
    r"""h <- u / \|u\|_2 with u = act(dropout(BatchNorm(W h))): GraphGym's general linear layer.

    Args:
        dim_in: width of the input.
        dim: width of the output.
        batchnorm: without it the linear map has a bias instead.
        dropout: probability.
        act: name of the activation.
        l2norm: divide every row by its length.

    Shape:
        (N, dim_in) -> (N, dim)
    """

    def __init__(self, dim_in: int, dim: int, *, batchnorm: bool, dropout: float, act: str, l2norm: bool):
        super().__init__()
        self.lin = InputLinear(dim_in, dim, bias=not batchnorm)
        self.norm = BatchNorm(dim) if batchnorm else nn.Identity()
        self.dropout = Dropout(dropout)
        self.act = activation(act)
        self.l2norm = l2norm

    def forward(self, h: Features, batch: GraphBatch | None = None) -> Tensor:
        """Maps every row; the batch is not needed."""
        u = self.act(self.dropout(self.norm(self.lin(h))))
        return F.normalize(u, dim=-1) if self.l2norm else u
