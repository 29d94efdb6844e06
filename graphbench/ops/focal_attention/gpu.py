"""Focal attention in Triton kernels: no padding, no mask and no weights in memory (README, "On a GPU").

Notation: N rows, H heads, P pairs, T kinds of a relation, d and e widths.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphbench.ops.focal_attention import dense
from graphbench.ops.focal_attention.gpu_kernels import focal_attention_backward, focal_attention_forward
from graphbench.ops.focal_attention.scope import Relation, Scope
from graphbench.ops.gpu_launch import (
    WIDEST,
    attention_constants,
    draw_seed,
    empty_parts,
    has_kernels,
    loadable,
    output_of,
    parts_of,
    row_tiles,
    span_of,
    wide_of,
)
from graphbench.structures import Ragged
from graphbench.structures.capacity import CapacityRagged
from graphbench.structures.first_order import first_order
from graphbench.structures.pairs import UNREACHABLE


def focal_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scope: Scope,
    relations: tuple[Relation, ...],
    bias: Tensor | None,
    p: float,
    packed: Tensor | None = None,
) -> Tensor:
    """See :func:`graphbench.ops.focal_attention.focal_attention`.

    ``packed`` is (N, 3, H, d), of which q, k and v are views, or None.
    Half precision is read and written as it is and computed in float32. Lists of neighbours, several relations, more
    than 128 kinds or channels of a head, and devices older than sm_80 go through the torch code.
    """
    if q.numel() == 0 or v.numel() == 0:
        return v * 0
    capable = has_kernels("focal_attention", q)
    kinds = max((len(table) for r in relations for table in r.tables if table is not None), default=1)
    too_wide = max(q.shape[2], v.shape[2], kinds) > WIDEST
    if not capable or too_wide or len(relations) > 1 or (scope.is_limited and not scope.has_blocks) or p == 1:
        return dense.focal_attention(q, k, v, scope, relations, bias, p)
    seed = draw_seed(q.device, p)
    with torch.autocast(q.device.type, enabled=False):
        relation = relations[0] if relations else None
        term = None if relation is None else _term(q, k, relation)
        value = None if relation is None else relation.value
        inputs = (packed.contiguous(), None, None) if packed is not None else [x.contiguous() for x in (q, k, v)]
        bias = None if bias is None else bias.contiguous()
        index = None if relation is None else relation.index.contiguous()
        launch = _Launch(scope, index, kinds, value is not None, p, seed)
        out, sums = _Attention.apply(*inputs, term, bias, launch)  # type: ignore[no-untyped-call]
        if value is not None:
            mixed = torch.matmul(sums.transpose(0, 1), value.to(sums.dtype).transpose(0, 1)).transpose(0, 1)
            out = (out + mixed).to(v.dtype)
    return out


def _term(q: Tensor, k: Tensor, relation: Relation) -> Tensor | None:
    """(N, H, T) what every kind adds to the scores of a row."""
    wide, term = wide_of(q.dtype), None
    for x, table in ((q, relation.query), (k, relation.key)):
        if table is not None:
            part = torch.matmul(x.to(wide).transpose(0, 1), table.to(wide).permute(1, 2, 0))
            term = part if term is None else term + part
    return None if term is None else (term * q.shape[2] ** -0.5).transpose(0, 1).contiguous()


@dataclass(frozen=True, eq=False)
class _Launch:
    """Arguments of a call, except its differentiable inputs.

    Attributes:
        scope: the batch, hops of its pairs, limits of the heads.
        index: (P,) relation of every pair, or None.
        kinds: T.
        sums: whether weights are summed by kind.
        p: probability of dropout.
        seed: seed of dropout.
    """

    scope: Scope
    index: Tensor | None
    kinds: int
    sums: bool
    p: float
    seed: Tensor

    @property
    def ragged(self) -> Ragged:
        """The partition of the rows."""
        return self.scope.ragged

    def pair_ptr(self, bias: Tensor | None) -> Tensor:
        """(G+1,) first pair of every graph, where anything about pairs is read."""
        reads = bias is not None or self.index is not None or self.scope.is_limited
        return self.ragged.pair_ptr if reads else self.ragged.ptr

    def arguments(
        self, q: Tensor, k: Tensor, v: Tensor, term: Tensor | None, bias: Tensor | None, unread: Tensor
    ) -> tuple[Tensor, ...]:
        """Arguments that all kernels begin with; ``unread`` stands for what is not there."""
        max_hops, wide = _on_device(self.scope.max_hops, q.device), wide_of(v.dtype)
        index = None if self.index is None else loadable(self.index, wide)
        kinds, term, bias = (unread if x is None else x for x in (index, term, bias))
        hops = loadable(self.scope.hops.contiguous(), wide) if self.scope.is_limited else unread
        return q, k, v, hops, kinds, term, bias, max_hops, self.ragged.ptr

    def constants(
        self, q: Tensor, v: Tensor, term: Tensor | None, bias: Tensor | None, parts: int = 1
    ) -> dict[str, Any]:
        """Constants that are known when a kernel is compiled."""
        return attention_constants(q, v, self.ragged, self.p, parts) | {
            "KINDS": self.kinds,
            "SPAN_T": span_of(self.kinds),
            "LIMITED": self.scope.is_limited,
            "LOST": self.scope.sees_unreachable,
            "BIASED": bias is not None,
            "TERM": term is not None,
            "SUMS": self.sums,
        }


@functools.cache  # recorded graphs read what is kept here
def _on_device(max_hops: tuple[int | None, ...], device: torch.device) -> Tensor:
    limits = [UNREACHABLE if limit is None else limit for limit in max_hops]
    return torch.tensor(limits, dtype=torch.int32).to(device)  # waits: trainings on other streams read it, too


def _room_for(bias: Tensor, ragged: Ragged) -> Tensor:
    """Room for its gradient: 0 where a padded batch has pairs that belong to no graph, which no program writes."""
    return torch.zeros_like(bias) if isinstance(ragged, CapacityRagged) else torch.empty_like(bias)


class _Attention(torch.autograd.Function):
    """(N, H, e) weighted values and (N, H, T) weights summed by kind. Saves its inputs, these, two numbers per row."""

    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,
        k: Tensor | None,
        v: Tensor | None,
        term: Tensor | None,
        bias: Tensor | None,
        launch: _Launch,
    ) -> tuple[Tensor, Tensor]:
        inputs = (qkv, k, v)
        (q, k, v), parts = parts_of(*inputs)
        wide = wide_of(v.dtype)
        constants = launch.constants(q, v, term, bias, parts)
        ragged = launch.ragged
        tiles = ragged.derived(row_tiles, constants["ROWS"])
        (out, exact), normalizer = output_of(v), v.new_empty(*q.shape[:2], 2, dtype=wide)
        sums = v.new_empty(*q.shape[:2], launch.kinds if launch.sums else 0, dtype=wide)
        with torch.cuda.device_of(q):
            focal_attention_forward[len(tiles), q.shape[1]](
                *launch.arguments(q, k, v, term, bias, normalizer), launch.pair_ptr(bias), tiles, out, exact, sums,
                normalizer, launch.seed, **constants,
            )  # fmt: skip
        ctx.save_for_backward(*inputs, term, bias, exact, sums, normalizer)
        ctx.launch = launch
        ctx.set_materialize_grads(False)
        return out, sums

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor | None, grad_sums: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, term, bias, out, sums, normalizer = ctx.saved_tensors
        launch, wide, gradients = ctx.launch, normalizer.dtype, empty_parts(*inputs)
        (q, k, v), parts = parts_of(*inputs)
        (dq, dk, dv), _ = parts_of(*gradients)
        constants = launch.constants(q, v, term, bias, parts)
        grad = v.new_zeros(v.shape) if grad is None else grad.contiguous()
        if grad_sums is None:  # zeros are a launch; without sums nobody reads them
            grad_sums = torch.zeros_like(sums) if launch.sums else sums
        grad_sums = grad_sums.to(wide).contiguous()
        dterm = None if term is None else torch.empty_like(term)
        ragged = launch.ragged
        dbias = _room_for(bias, ragged) if ctx.needs_input_grad[4] else None
        tiles = ragged.derived(row_tiles, constants["ROWS"])
        with torch.cuda.device_of(q):
            focal_attention_backward[len(tiles), q.shape[1], 2](
                *launch.arguments(q, k, v, term, bias, normalizer), launch.pair_ptr(bias), tiles, out, sums, grad,
                grad_sums, normalizer, dq, dk, dv, normalizer if dterm is None else dterm,
                normalizer if dbias is None else dbias, launch.seed, GRAD_BIAS=dbias is not None, **constants,
            )  # fmt: skip
        return *gradients, dterm, dbias, None
