"""Message passing and attention side by side: the block of GraphGPS and of Exphormer.

Rampasek et al., https://arxiv.org/abs/2205.12454; Shirzad et al., https://arxiv.org/abs/2303.06147.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import make_norm
from graphbench.structures import GraphBatch


class GPSBlock(nn.Module):
    """Any number of parts read the same state; their sum goes through a feed-forward part.

    Equations::

        h_p = norm_p(h + drop(part_p(h, e)))        for every part p
        h'  = norm(x + ffn(x)),   x = sum over p of h_p

    A part is a local layer ``(h, e, batch) -> (h', e')`` or an attention ``(h, e, batch) -> h'`` (one with
    ``carries_state`` returns ``(h', batch')``). A local layer that adds its residual itself (``residual_inside``:
    GatedGCN) is normalised once more and nothing else. Edge states go from part to part and from block to block.

    Args:
        dim: channels of nodes.
        parts: the layers; None for a part left out.
        edges: name of the edge set that each part reads in place of the edges, None for the edges themselves.
        dropout: probability of dropping an entry after each part and inside the feed-forward part.
        act: activation of the feed-forward part.
        norm: ``"batch"``, ``"layer"`` (per graph), ``"graph"`` (per graph and channel) or ``"none"``.

    Shape:
        h (N, dim), e (E, dim_edge) or None -> the same, and the batch for the next block.

    Differences from the paper: none known. As in the released code a part left out still owns its norm, which
    counts among the parameters and gets no gradient; published parameter counts include it.
    """

    def __init__(
        self,
        dim: int,
        parts: Sequence[nn.Module | None],
        *,
        edges: Sequence[str | None] | None = None,
        dropout: float = 0.0,
        act: str = "relu",
        norm: str = "batch",
    ) -> None:
        super().__init__()
        edges = edges or [None] * len(parts)
        self.branches = nn.ModuleList(
            Branch(part, make_norm(norm, dim), dropout=dropout, edges=each)
            for part, each in zip(parts, edges, strict=True)
        )
        self.feed_forward = FeedForward(dim, act=act, dropout=dropout)
        self.norm_out = make_norm(norm, dim)

    @property
    def parts(self) -> list[nn.Module | None]:
        """The layers side by side, None for one left out."""
        return [branch.part for branch in self.branches]

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node and edge states, and the batch with what the parts leave for the next block."""
        outputs = []
        for branch in self.branches:
            if branch.part is not None:
                h_part, e, batch = branch(h, e, batch)
                outputs.append(h_part)
        x = sum(outputs[1:], outputs[0]) if outputs else h
        return self.norm_out(x + self.feed_forward(x), batch), e, batch


class Branch(nn.Module):
    """One part of a block with its dropout, residual and norm.

    Args:
        part: a local layer or an attention, see :class:`GPSBlock`; None for a part left out.
        norm: called as ``norm(h, batch)``.
        dropout: probability of dropping an entry of what the part returns.
        edges: edge set that the part reads; what the model knows about its pairs is ``state.edge_states[name]``, else
            the set's attributes.
    """

    def __init__(self, part: nn.Module | None, norm: nn.Module, *, dropout: float, edges: str | None = None) -> None:
        super().__init__()
        self.part = part
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.edges = edges
        self.is_local = hasattr(part, "residual_inside")
        self.adds_residual = not getattr(part, "residual_inside", False)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """The part's contribution to the sum, the edge states and the batch for the next part."""
        seen, e_seen = batch, e
        if self.edges is not None:
            seen = batch.on_edges(self.edges)
            e_seen = batch.state.edge_states.get(self.edges, seen.edge_attr)
        new = self.part(h, e_seen, seen)
        if self.is_local:
            new, e_new = new
            if self.edges is None:
                e = e_new
            else:
                batch = batch.with_state(edge_states={**batch.state.edge_states, self.edges: e_new})
        elif isinstance(new, tuple):  # an attention that carries state
            new, seen = new
            batch = batch.with_state(seen.state)
        if self.adds_residual:
            new = h + self.dropout(new)
        return self.norm(new, batch), e, batch
