"""Parallel branches of global attention and local message passing, mixed at the end.

Wu et al., SGFormer: Simplifying and Empowering Transformers for Large-Graph Representations,
https://arxiv.org/abs/2306.10759. With SGFormer attention and GCN as local layer this is SGFormer; any other attention
and local layer can replace them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor

from graphbench.blockwise.forward import Blockwise
from graphbench.blockwise.model import BlockwiseModel
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.errors import ArgumentError, check_one_of, check_within
from graphbench.heads.contract import Head
from graphbench.layers.contract import Attention, LocalLayer
from graphbench.models.branches import AttentionBranch, AttentionSettings, LocalBranch, LocalSettings, between
from graphbench.models.contract import EncodedModel
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch, as_dense
from graphbench.structures.node_blocks import NodeBlocks


@register("TwoBranch")
class TwoBranch(EncodedModel, BlockwiseModel):
    r"""Weighted sum of a message-passing branch and an attention branch.

    y = head( a LOCAL(X) + (1 - a) ATTENTION(X) ), X the encoded nodes and a the ``graph_weight``.

    Args:
        encoder: node encoder, ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: width of the encoded nodes; both branches read the same columns.
        edge_encoder: edge encoder, ``batch -> (E, dim_edge)``, or None.
        dim: width of both branches (``gnn.dim_inner``).
        layers: attention layers (``gt.layers``).
        attention: factory of attentions; None leaves the branch out.
        local: factory of local layers, from their widths; None leaves the branch out.
        head: factory of the head, from the width of the mixture.
        act: activation of both branches (``gnn.act``; ReLU in the paper).
        dropout: dropout of the branches that set none (``gnn.dropout``).
        graph_weight: a.
        aggregate: ``add`` mixes as above; ``cat`` concatenates [ATTENTION | LOCAL].
        attention_branch: keys of their own, see :class:`~graphbench.models.branches.AttentionSettings`.
        local_branch: keys of their own, see :class:`~graphbench.models.branches.LocalSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the paper:
        None of substance: the released code has two models, both are here. Medium graphs: ``local_stem`` off and, as
        run for Cora, CiteSeer and PubMed, no norms and no attention residual. Large graphs: ``local_stem``,
        ``local_residual``, both norms, ``attention_residual: mean``. Norms that the released code owns but does not
        use are not created here.
    """

    capturable: ClassVar[bool] = True

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
        act: FromContext[str] = "relu",
        dropout: FromContext[float] = 0.0,
        graph_weight: float = 0.8,
        aggregate: Literal["add", "cat"] = "add",
        attention_branch: AttentionSettings = AttentionSettings(),
        local_branch: LocalSettings = LocalSettings(),
    ) -> None:
        super().__init__(encoder, edge_encoder)
        if attention is None and local is None:
            raise ArgumentError(
                ("local", "attention"), "a two-branch model needs a local layer, an attention or both, received neither"
            )
        check_one_of(("add", "cat"), aggregate=aggregate)
        check_within(0, 1, graph_weight=graph_weight)
        self.attention_branch: AttentionBranch | None = None
        self.local_branch: LocalBranch | None = None
        if attention is not None:
            attentions = [attention() for _ in range(layers)]
            self.attention_branch = AttentionBranch(
                dim_encoded, dim, attentions, attention_branch, act=act, dropout=dropout
            )
        if local is not None:
            self.local_branch = LocalBranch(dim_encoded, dim, local, local_branch, act=act, dropout=dropout)
        self.graph_weight = graph_weight
        self.aggregate = aggregate
        width = dim if self.attention_branch is None else self.attention_branch.width
        if local is not None and attention is not None and aggregate == "cat":
            width += dim
        elif local is not None and width != dim:
            raise ArgumentError(
                ("attention_jump", "aggregate", "local"),
                "attention_jump cat makes the attention branch wider than the local one, to which it cannot be added; "
                "set aggregate to cat, or leave the local branch out",
            )
        self.head = head(width)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        x, e, batch = self.encode(batch)
        return self.head(self.mix(x, e, batch), batch)

    def forward_blockwise(self, graph: NodeBlocks) -> Tensor:
        """The predictions of :meth:`forward` with bounded memory; see :class:`.BlockwiseModel`."""
        blocks = Blockwise(graph, self)
        e = None if self.edge_encoder is None else blocks.edges(self.edge_encoder)
        x = blocks.nodes(self.encoder)
        states = [branch.forward_blockwise(x, e, blocks) for branch in self._branches()]
        return as_dense(blocks.rows(self._predict, *states, part=self.head).tensor)

    def mix(self, x: Features, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """Input of the head: (N, dim), or wider with a ``cat``."""
        return self._mixed([branch(x, e, batch) for branch in self._branches()])

    def _branches(self) -> list[AttentionBranch | LocalBranch]:
        """The branches that are not left out, the local one first."""
        return [branch for branch in (self.local_branch, self.attention_branch) if branch is not None]

    def _predict(self, *states: Tensor, batch: GraphBatch) -> Tensor:
        return self.head(self._mixed(list(states)), batch)

    def _mixed(self, states: list[Tensor]) -> Tensor:
        """Input of the head, from the states of the branches."""
        if len(states) == 1:
            return states[0]
        h_local, h_attention = states
        if self.aggregate == "cat":
            return torch.cat([h_attention, h_local], dim=1)
        return between(h_attention, h_local, self.graph_weight)
