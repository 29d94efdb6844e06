"""What is known about the pairs of a chunk, in the layout of its scores."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from graphbench.ops.blocks import Chunk, pair_index
from graphbench.ops.focal_attention.scope import Scope

if TYPE_CHECKING:
    from graphbench.structures import PairBlocks

# Masks of the chunks of a batch; they serve all layers and both passes.
_MASKS: WeakKeyDictionary[PairBlocks, dict[tuple[object, ...], Tensor]] = WeakKeyDictionary()


class PairsOfChunk:
    """Masks, relations and bias of the pairs of a chunk.

    Args:
        scope: reach of the heads.
        chunk: some graphs, padded to the longest.
        heads: H.
        dtype: of the scores.
    """

    def __init__(self, scope: Scope, chunk: Chunk, heads: int, dtype: torch.dtype) -> None:
        self._scope, self._chunk, self._dtype, self._heads = scope, chunk, dtype, heads
        sizes, graphs, length = scope.ragged.sizes, chunk.graphs, chunk.length
        self._span = self._places = None
        if len(graphs) == 1:
            # One graph is a slice: no index, and half the time for a large graph.
            first = sum(size * size for size in sizes[: graphs[0]])
            self._span = slice(first, first + length**2)
        else:
            places = pair_index(graphs, length, sizes)
            self._places = places.to(scope.hops.device, non_blocking=True)

    @property
    def padding(self) -> Tensor | None:
        """(B * H, 1, L), 0 for real keys and minus infinity for padding; None where every graph has L rows."""
        padding, chunk = self._chunk.padding, self._chunk
        if padding is None:
            return None
        return padding.to(self._dtype).expand(-1, self._heads, 1, chunk.length).reshape(-1, 1, chunk.length)

    def heads(self, batch: slice) -> slice:
        """The heads of a block: some for one graph, all for several."""
        return batch if len(self._chunk.graphs) == 1 else slice(0, self._heads)

    def by_head(self, each: Tensor) -> Tensor:
        """(B, H, ...) view of (B * H, ...)."""
        return each.view(len(self._chunk.graphs), -1, *each.shape[1:])

    def kinds(self, index: Tensor, rows: slice) -> Tensor:
        """(B, 1, i, j) int64 from (P,), any kind where there is padding."""
        return self._square(index, rows).long().unsqueeze(1)

    def bias(self, bias: Tensor, batch: slice, rows: slice) -> Tensor:
        """(B, H, i, j) from (P, H)."""
        return self._square(bias[:, self.heads(batch)], rows).permute(0, 3, 1, 2).to(self._dtype)

    def add_to_bias(self, change: Tensor, batch: slice, rows: slice, grad_bias: Tensor) -> None:
        """Adds the gradient of a block of scores; the gradient of padding is zero and lands anywhere."""
        change_BijH = self.by_head(change).permute(0, 2, 3, 1)
        if self._span is not None:
            length = self._chunk.length
            block = grad_bias[self._span].view(length, length, -1)
            block[rows, :, self.heads(batch)] += change_BijH[0]
        else:
            assert self._places is not None
            grad_bias.index_add_(0, self._places[:, rows].reshape(-1), change_BijH.reshape(-1, self._heads))

    def mask_(self, scores: Tensor, batch: slice, rows: slice) -> None:
        """Minus infinity where a head does not see."""
        own, scores_BHij = self.heads(batch), self.by_head(scores)
        for run, reach in self._scope.runs:
            first, last = max(run.start, own.start), min(run.stop, own.stop)
            if reach is not None and first < last:
                scores_BHij[:, first - own.start : last - own.start] += self._mask(reach)[:, :, rows]

    def _mask(self, reach: int) -> Tensor:
        """(B, 1, L, L), 0 where a head of this reach sees and minus infinity elsewhere; a padding query sees all."""
        key = (self._chunk.start, self._chunk.graphs, reach, self._scope.sees_unreachable, self._dtype)
        masks = _MASKS.setdefault(self._scope.near, {})  # type: ignore[arg-type]
        if key not in masks:
            seen = self._scope.visible(self._square(self._scope.hops, slice(0, self._chunk.length)), reach)
            mask = torch.zeros(seen.shape, dtype=self._dtype, device=seen.device).masked_fill_(~seen, -torch.inf)
            masks[key] = mask.unsqueeze(1)
        return masks[key]

    def _square(self, each: Tensor, rows: slice) -> Tensor:
        """(B, i, L, ...) from (P, ...); cells of padding repeat the first pair of their graph, which sees itself."""
        if self._span is not None:
            length = self._chunk.length
            return each[self._span].view(1, length, length, *each.shape[1:])[:, rows]
        assert self._places is not None
        return each[self._places[:, rows]]
