"""Products over tiles, and numbers per pair in the layout of a bucket's scores, for attentions over all pairs.

Notation: B graphs of a bucket, H heads, L rows of the longest, i query rows, j key rows, P pairs of the batch.
"""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor

from graphbench.structures import Bucket, Ragged


def scaled(q: Tensor) -> Tensor:
    """Rows divided by the root of their width."""
    return q * (1.0 / math.sqrt(q.shape[-1]))


def accumulate(total: Tensor, rows: slice, a: Tensor, b: Tensor) -> None:
    """``total`` becomes the product ``a b`` at the first query rows and grows by it at the others."""
    beta = 0 if rows.start == 0 else 1
    if total.stride(2) == 1:
        total.baddbmm_(a, b, beta=beta)
    else:  # channels first
        total.transpose(1, 2).baddbmm_(b.transpose(1, 2), a.transpose(1, 2), beta=beta)


def product(a: Tensor, b: Tensor, out: Tensor) -> None:
    """Writes the product ``a b``, (B, i, d) with rows or channels first in memory."""
    if out.stride(2) == 1:
        torch.bmm(a, b, out=out)
    else:
        torch.bmm(b.transpose(1, 2), a.transpose(1, 2), out=out.transpose(1, 2))


class BucketPairs:
    """Numbers per pair, (P, ...), as the scores of a bucket have them, and back.

    Args:
        ragged: the partition of the rows.
        bucket: bucket of one of its layouts.
        heads: H.
        dtype: type of the scores.
    """

    def __init__(self, ragged: Ragged, bucket: Bucket, heads: int, dtype: torch.dtype) -> None:
        self._ragged, self._bucket, self._heads, self._dtype = ragged, bucket, heads, dtype

    @cached_property
    def padding(self) -> Tensor | None:
        """(B * H, 1, L), 0 for real keys and minus infinity for padding; None where every graph has L rows."""
        padding = self._bucket.padding(self._dtype)
        if padding is None:
            return None
        return padding.expand(-1, self._heads, 1, -1).reshape(-1, 1, self._bucket.length)

    def heads(self, batch: slice) -> slice:
        """The heads of a tile: some for one graph, all for several."""
        return batch if len(self._bucket.graphs) == 1 else slice(0, self._heads)

    def by_head(self, x: Tensor) -> Tensor:
        """(B, H, ...) view of (B * H, ...)."""
        return x.view(len(self._bucket.graphs), -1, *x.shape[1:])

    def values(self, x: Tensor, rows: slice) -> Tensor:
        """(B, i, L, ...) from (P, ...); cells of padding repeat the first pair of their graph."""
        if self._span is not None:
            length = self._bucket.length
            return x[self._span].view(1, length, length, *x.shape[1:])[:, rows]
        return x[self._index[:, rows]]

    def bias(self, bias: Tensor, batch: slice, rows: slice) -> Tensor:
        """(B, H, i, j) from (P, H); 0 for padding queries, whose softmax minus infinity alone would make NaN."""
        added = self.values(bias[:, self.heads(batch)], rows)
        if self._bucket.mask is not None:
            added = added.masked_fill(~self._bucket.mask[:, rows, None, None], 0.0)
        return added.permute(0, 3, 1, 2).to(self._dtype)

    def add_to_bias(self, grad_scores: Tensor, batch: slice, rows: slice, grad_bias: Tensor) -> None:
        """Adds the gradient of a tile of scores; the gradient of padding is zero and lands anywhere."""
        grad_BijH = self.by_head(grad_scores).permute(0, 2, 3, 1)
        if self._span is not None:
            length = self._bucket.length
            square = grad_bias[self._span].view(length, length, -1)
            square[rows, :, self.heads(batch)] += grad_BijH[0]
        else:
            grad_bias.index_add_(0, self._index[:, rows].reshape(-1), grad_BijH.reshape(-1, self._heads))

    @cached_property
    def _span(self) -> slice | None:
        """The pairs of a single graph are a slice: no index, and half the time for a large graph."""
        if len(self._bucket.graphs) > 1:
            return None
        (graph,), starts = self._bucket.graphs, self._ragged.pair_starts
        return slice(starts[graph], starts[graph + 1])

    @cached_property
    def _index(self) -> Tensor:
        return self._ragged.pair_index(self._bucket)
