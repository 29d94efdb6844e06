"""Message passing and attention in parallel: the block of GraphGPS and of Exphormer.

Rampasek et al., https://arxiv.org/abs/2205.12454; Shirzad et al., https://arxiv.org/abs/2303.06147.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import ClassVar

from torch import Tensor, nn

from graphbench.contract import broken
from graphbench.layers.contract import Attention, Block, LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import make_norm
from graphbench.layers.normed import Normed, feed_forward_norm, normed_sum
from graphbench.ops.fan_out import fan_out
from graphbench.structures import GraphBatch
from graphbench.structures.side_stream import BRANCH, has_side_streams, join_side, on_side


class GPSBlock(Block):
    """Parallel sublayers on the same state, whose sum goes through a feed-forward network.

    Equations::

        h_p = norm_p(h + drop(sublayer_p(h, e)))        for every sublayer p
        h'  = norm(x + ffn(x)),   x = sum over p of h_p

    A local layer that adds its residual itself (``has_residual``: GatedGCN) is normalised once more and nothing else.
    Edge states go from sublayer to sublayer and from block to block.

    Args:
        dim: channels of nodes.
        sublayers: local layers and attentions; None for one that is left out.
        edges: name of the edge set that each sublayer reads in place of the edges, None for the edges themselves.
        dropout: probability of dropping an entry after each sublayer and inside the feed-forward network.
        local_dropout: that after local layers; None: ``dropout``.
        act: activation of the feed-forward network.
        norm: ``"batch"``, ``"layer"`` (per graph), ``"graph"`` (per graph and channel) or ``"none"``.

    Shape:
        h (N, dim), e (E, dim_edge) or None -> the same, and the batch for the next block.

    Differences from the paper: none known. As in the released code a sublayer left out still owns its norm, which
    counts among the parameters and gets no gradient; published parameter counts include it.

    Sublayers are ``branches[i].part``: these two attribute names are part of the parameter names in stored checkpoints.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: int,
        sublayers: Sequence[LocalLayer | Attention | None],
        *,
        edges: Sequence[str | None] | None = None,
        dropout: float = 0.0,
        local_dropout: float | None = None,
        act: str = "relu",
        norm: str = "batch",
    ) -> None:
        super().__init__()
        edges = edges or [None] * len(sublayers)
        after_local = dropout if local_dropout is None else local_dropout
        self.branches: Modules[SubLayer] = Modules(
            SubLayer(
                layer,
                make_norm(norm, dim),
                dropout=after_local if isinstance(layer, LocalLayer) else dropout,
                edges=edge_set,
            )
            for layer, edge_set in zip(sublayers, edges, strict=True)
        )
        self.feed_forward = FeedForward(dim, act=act, dropout=dropout)
        self.norm_out = make_norm(norm, dim)

    @property
    def sublayers(self) -> list[LocalLayer | Attention | None]:
        """The layers that run in parallel, None for one that is left out."""
        return [branch.part for branch in self.branches]

    def _has_independent_parts(self) -> bool:
        """Whether no attention reads what a local layer makes, and no layer another set of pairs."""
        parts = [branch.part for branch in self.branches if branch.part is not None]
        attentions = [part for part in parts if isinstance(part, Attention)]
        return (
            0 < len(attentions) < len(parts)
            and not any(attention.may_read_edge_states() for attention in attentions)
            and all(branch.edges is None for branch in self.branches)
        )

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """Node states (N, dim), edge states, and the batch for the next block."""
        outputs: list[Normed] = []
        present = [branch for branch in self.branches if branch.part is not None]
        states = iter(fan_out(h, sum(1 + branch.adds_residual for branch in present)))
        apart = has_side_streams() and self._has_independent_parts()
        for branch in present:
            residual, state = next(states) if branch.adds_residual else None, next(states)
            beside = apart and isinstance(branch.part, LocalLayer)
            with on_side(BRANCH, state, residual, e) if beside else nullcontext():
                output, e, batch = branch.output(state, e, batch, residual)
            outputs.append(output)
        if apart:
            join_side(BRANCH, e, *(each for output in outputs for each in (output.h, output.added)))
        x = normed_sum(outputs, batch) if outputs else h
        return feed_forward_norm(self.norm_out, self.feed_forward, x, batch), e, batch


class SubLayer(nn.Module):
    """One layer of a block with its dropout, residual and norm.

    Args:
        layer: a local layer or an attention, kept as ``part``; None for one that is left out, whose norm exists all
            the same.
        norm: called as ``norm(h, batch)``.
        dropout: probability of dropping an entry of what the layer returns.
        edges: edge set that the layer reads; its hidden states are ``state.edge_states[name]``, or the attributes of
            the set where there are none yet.
    """

    def __init__(
        self, layer: LocalLayer | Attention | None, norm: nn.Module, *, dropout: float, edges: str | None = None
    ) -> None:
        super().__init__()
        self.part = layer
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.edges = edges
        self.adds_residual = not (isinstance(layer, LocalLayer) and layer.has_residual)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """The output (N, dim), and edge states and batch for the next sublayer."""
        output, e, batch = self.output(h, e, batch)
        return normed_sum([output], batch), e, batch

    def output(
        self, h: Tensor, e: Tensor | None, batch: GraphBatch, residual: Tensor | None = None
    ) -> tuple[Normed, Tensor | None, GraphBatch]:
        """Output (N, dim) with its norm still to be computed, and edge states and batch for the next sublayer.

        ``residual`` is the same state as ``h``, handed over apart so that gradients can be added at once.
        """
        assert self.part is not None
        if self.edges is None:
            new, e, batch = self.part.step(h, e, batch)
        else:
            new, batch = self._on_edge_set(h, batch, self.edges)
        if not self.adds_residual:
            return Normed(self.norm, new), e, batch
        if new.shape[1] != h.shape[1]:  # one column would be added to all
            raise broken(type(self.part).forward, f"node states {tuple(h.shape)}", new)
        old = h if residual is None else residual
        if h.device.type == "cpu":  # masks are drawn in the order of the layers
            return Normed(self.norm, old + self.dropout(new)), e, batch
        return Normed(self.norm, old, added=new, added_dropout=self.dropout), e, batch

    def _on_edge_set(self, h: Tensor, batch: GraphBatch, name: str) -> tuple[Tensor, GraphBatch]:
        """The layer on another set of pairs, whose states are kept apart from those of the edges."""
        assert self.part is not None
        pairs = batch.on_edges(name)
        e = batch.state.edge_states.get(name, pairs.edge_attr)
        new, e_new, pairs = self.part.step(h, e, pairs)
        batch = batch.with_state(pairs.state)
        if e_new is not None and e_new is not e:
            batch = batch.with_state(edge_states={**batch.state.edge_states, name: e_new})
        return new, batch
