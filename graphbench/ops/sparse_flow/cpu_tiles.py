"""Operands, scratch and rows left over of sparse flow on tiles, for its forward and backward pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from graphbench.ops.dropout.cpu import RandomKeep
from graphbench.ops.sparse_flow.refined import RefinedRows
from graphbench.ops.sparse_flow.solver import positive
from graphbench.structures import Bucket


class Operands(NamedTuple):
    """Operands that the flows of a bucket follow from, heads first.

    Attributes:
        q_Bid: queries of the resistance.
        k_Bjd: keys of the resistance.
        qf_Bid: queries of the friction.
        kf_Bjd: keys of the friction.
        lam_B11: weight of the friction, positive.
        key_mask: (B, 1, j) 1 for keys and 0 for padding, None without padding.
        padding: (B, 1, j) 0 for keys and minus infinity for padding, None without padding.
        scale: factor of the scores.
    """

    q_Bid: Tensor
    k_Bjd: Tensor
    qf_Bid: Tensor
    kf_Bjd: Tensor
    lam_B11: Tensor
    key_mask: Tensor | None
    padding: Tensor | None
    scale: float

    @classmethod
    def of(cls, bucket: Bucket, packed: list[Tensor], lam: Tensor) -> Operands:
        """Operands of a bucket, from q, k, q_friction and k_friction in the padded layout and (G,) lam."""
        q_Bid, k_Bjd, qf_Bid, kf_Bjd = (bucket.heads_first(x) for x in packed)
        heads, mask = packed[0].shape[1], bucket.mask
        lam_B11 = positive(lam[list(bucket.graphs)])[:, None].expand(-1, heads).reshape(-1, 1, 1)
        key_mask = None if mask is None else mask.to(q_Bid.dtype).repeat_interleave(heads, 0).unsqueeze(1)
        padding = None if key_mask is None else key_mask.log()
        return cls(q_Bid, k_Bjd, qf_Bid, kf_Bjd, lam_B11, key_mask, padding, 1 / math.sqrt(q_Bid.shape[2]))

    def weights_(self, batch: slice, rows: slice, w: Tensor, f: Tensor, scratch: Tensor) -> None:
        """Writes softmax(s) and softmax(t) of a tile, (B, i, j)."""
        for q_Bid, k_Bjd, out in ((self.q_Bid, self.k_Bjd, w), (self.qf_Bid, self.kf_Bjd, f)):
            keys = k_Bjd[batch].transpose(1, 2)
            if self.padding is None:
                scratch.baddbmm_(q_Bid[batch, rows], keys, beta=0, alpha=self.scale)
            else:
                torch.baddbmm(self.padding[batch], q_Bid[batch, rows], keys, alpha=self.scale, out=scratch)
            torch.softmax(scratch, 2, out=out)

    def refined(self, b: int, i: Tensor, alpha: float) -> RefinedRows:
        """Some rows of a graph and head, solved in float64."""
        s, t = (
            self.scale * (q[b, i].double() @ k[b].double().T)
            for q, k in ((self.q_Bid, self.k_Bjd), (self.qf_Bid, self.kf_Bjd))
        )
        if self.key_mask is not None:
            padding = self.key_mask[b] == 0
            s, t = s.masked_fill(padding, -math.inf), t.masked_fill(padding, math.inf)
        return RefinedRows.solve(s, t, self.lam_B11[b, 0, 0].double(), alpha)


class Buffers:
    """Scratch for the tiles of one pass, so that they stay in the same, cached place."""

    def __init__(self, like: Tensor) -> None:
        self._like, self._flat = like, like.new_empty(0)

    def take(self, count: int, operands: Operands, batch: slice, rows: slice) -> Iterator[Tensor]:
        """So many (B, i, j) tensors of the shape of a tile, not initialised."""
        shape = (batch.stop - batch.start, rows.stop - rows.start, operands.k_Bjd.shape[1])
        size = shape[0] * shape[1] * shape[2]
        if self._flat.numel() < count * size:
            self._flat = self._like.new_empty(count * size)
        return (self._flat[i * size : (i + 1) * size].view(shape) for i in range(count))


def left_over_rows(
    operands: Operands, left_over: Tensor, alpha: float, batch: slice, rows: slice
) -> Iterator[tuple[Tensor, tuple[int, Tensor], RefinedRows]]:
    """Rows that :func:`solve` has left over: numbers in the flattened tile, in the bucket, and what float64 gives."""
    if not len(left_over):
        return
    height = rows.stop - rows.start
    graph_head = left_over // height
    for number in graph_head.unique().tolist():
        in_tile = left_over[graph_head == number]
        b, i = batch.start + number, rows.start + in_tile % height
        yield in_tile, (b, i), operands.refined(b, i, alpha)


def next_mask(keep: RandomKeep, out: Tensor) -> Tensor:
    """The next 1 and 0 of the stream, which is drawn on the host."""
    if out.device.type == "cpu":
        return keep.fill_(out)
    return out.copy_(keep.fill_(torch.empty(out.shape, dtype=out.dtype)))
