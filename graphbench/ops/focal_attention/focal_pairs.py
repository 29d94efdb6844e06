"""Masks and relations of the pairs of a bucket, in the layout of its scores."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.ops.bucket_pairs import BucketPairs
from graphbench.ops.focal_attention.scope import Scope, visible
from graphbench.structures import Bucket, PairBlocks, Ragged


class FocalPairs(BucketPairs):
    """:class:`~graphbench.ops.bucket_pairs.BucketPairs` that know who sees whom.

    Args:
        scope: pairs that the heads see.
        bucket: bucket of one of the layouts of its partition.
        heads: H.
        dtype: type of the scores.
    """

    def __init__(self, scope: Scope, bucket: Bucket, heads: int, dtype: torch.dtype) -> None:
        super().__init__(scope.ragged, bucket, heads, dtype)
        self._scope = scope

    def kinds(self, index: Tensor, rows: slice) -> Tensor:
        """(B, 1, i, j) int64 from (P,), any kind where there is padding."""
        return self.values(index, rows).long().unsqueeze(1)

    def mask_(self, scores: Tensor, batch: slice, rows: slice) -> None:
        """Minus infinity where a head does not see."""
        heads, scores_BHij = self.heads(batch), self.by_head(scores)
        for group, max_hops in self._scope.head_groups:
            first, last = max(group.start, heads.start), min(group.stop, heads.stop)
            if max_hops is not None and first < last:
                scores_BHij[:, first - heads.start : last - heads.start] += self._mask(max_hops)[:, :, rows]

    def _mask(self, max_hops: int) -> Tensor:
        scope = self._scope
        assert isinstance(scope.distances, PairBlocks)
        # Kept with the distances: it serves all layers and both passes.
        return scope.distances.derived(_mask, scope.ragged, self._bucket, max_hops, scope.sees_unreachable, self._dtype)


def _mask(
    distances: PairBlocks, ragged: Ragged, bucket: Bucket, max_hops: int, sees_unreachable: bool, dtype: torch.dtype
) -> Tensor:
    """(B, 1, L, L), 0 where a head of this limit sees and minus infinity elsewhere; a padding query sees all."""
    hops = BucketPairs(ragged, bucket, 1, dtype).values(distances.distance, slice(0, bucket.length))
    seen = visible(hops, max_hops, sees_unreachable)
    mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, -torch.inf)
    return mask.unsqueeze(1)
