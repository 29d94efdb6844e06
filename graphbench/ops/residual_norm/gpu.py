"""Batch normalisation and what stands around it in Triton kernels: one or two forward, one or two backward (README)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphbench.ops.gpu_launch import constants_of, draw_seed, has_kernels, span_of, unit_stride, whole_tiles, wide_of
from graphbench.ops.gpu_tiles import TRITON
from graphbench.ops.residual_norm import cpu, gpu_kernels, gpu_lists
from graphbench.ops.residual_norm.normalization import Normalization, NormInput
from graphbench.structures.capacity import RealRows
from graphbench.structures.first_order import first_order

OLDEST = (3, 6)
"""Triton whose kernels take lists of tensors of several types; older ones normalise one input after the other."""
# Rows up to which one program goes through all of them for its channels; most shares of more rows, and what a share is
# a multiple of.
FEW, SHARES, SHARE = 2048, 128, 128
# (rows, channels) of a tile: of few rows most, for channels so few that there are programs enough; 32 bytes are what
# memory gives at a time. A thread has 32 entries of a tile; with more threads than 256 it has too few registers.
NARROW, BROAD, ENTRIES = (1024, 8), (128, 32), 32


class _Kernels(NamedTuple):
    """Kernels of one step: for one input, and for a list of inputs in one launch."""

    one: Any
    several: Any


_SHARE_MOMENTS = _Kernels(gpu_kernels.share_moments, gpu_lists.share_moments)
_FORWARD = _Kernels(gpu_kernels.residual_norm_forward, gpu_lists.residual_norm_forward)
_SHARE_GRADIENT_SUMS = _Kernels(gpu_kernels.share_gradient_sums, gpu_lists.share_gradient_sums)
_BACKWARD = _Kernels(gpu_kernels.residual_norm_backward, gpu_lists.residual_norm_backward)


def residual_norms(inputs: Sequence[NormInput], summed: bool) -> list[Tensor]:
    """See :func:`graphbench.ops.residual_norm.residual_norms`; ``summed``: the sum of the outputs alone.

    Gradients in evaluation, a single row, and dropout of everything go through torch code.
    """
    reached = [_reaches(each) for each in inputs]
    if len(inputs) > 1 and not (all(reached) and _alike(inputs, summed)):
        outputs = [residual_norms([each], False)[0] for each in inputs]
        return [reduce(torch.add, outputs)] if summed else outputs
    if not reached[0]:
        return cpu.residual_norms(inputs, summed)
    tensors: list[Tensor | None] = []
    for each in inputs:
        fused = each.fused
        rows = [None if x is None else unit_stride(x) for x in (each.h, fused.added, fused.residual)]
        tensors += [*rows, each.norm.weight.contiguous(), each.norm.bias.contiguous()]
    result: tuple[Tensor, ...] = _ResidualNorms.apply([_Launch.of(x) for x in inputs], summed, *tensors)  # type: ignore[no-untyped-call]
    return list(result)


def _reaches(given: NormInput) -> bool:
    h, norm, fused = given.h, given.norm, given.fused
    in_place = norm.running_mean.is_contiguous() and norm.running_var.is_contiguous()
    capable = has_kernels("residual_norm", h) and h.numel() > 0 and len(h) > 1 and in_place
    differentiated = not norm.training and torch.is_grad_enabled()
    return capable and not differentiated and 1.0 not in (fused.added_dropout, fused.dropout)


def _alike(inputs: Sequence[NormInput], summed: bool) -> bool:
    """Whether one launch serves all: of a sum the first input alone may have a residual."""
    kinds = {(x.h.shape[1], wide_of(x.h.dtype), x.norm.training) for x in inputs}
    in_place = not summed or all(x.fused.residual is None for x in inputs[1:])
    return TRITON >= OLDEST and len(kinds) == 1 and in_place


@dataclass(frozen=True, eq=False)
class _Launch:
    """Arguments of a launch that get no gradient.

    Attributes:
        norm: running statistics and numbers.
        relu: whether the normalised rows go through ReLU.
        p: probability of dropping an entry of what is added.
        q: probability of dropping an entry of what is normalised.
        real: rows that count; None: all.
        seed: (2,) of p and q.
    """

    norm: Normalization
    relu: bool
    p: float
    q: float
    real: RealRows | None
    seed: Tensor

    @classmethod
    def of(cls, given: NormInput) -> _Launch:
        """Launch for an input, with a seed drawn."""
        norm, fused = given.norm, given.fused
        p, q = (fused.added_dropout if fused.added is not None else 0.0), fused.dropout
        seed = draw_seed(given.h.device, max(p, q))
        return cls(norm, fused.act == "relu", p, q, given.real if norm.training else None, seed)

    def mask(self, unread: Tensor) -> Tensor:
        """(R,) which rows count; ``unread`` where all do."""
        return unread if self.real is None else self.real.mask.contiguous()


class _Rows:
    """Shares of rows and constants that the launches of several inputs have in common.

    Args:
        inputs: rows (R, d) of each.
    """

    def __init__(self, inputs: Sequence[Tensor]) -> None:
        width = inputs[0].shape[1]
        longest = max(len(h) for h in inputs)
        self._known = constants(width, inputs[0].dtype, longest)
        self._columns = -(-width // self._known["SPAN"])
        self._whole = longest <= min(FEW, self._known["ROWS"])
        # Few rows are one share. Each of many has whole tiles, so that there may be fewer than SHARES.
        self.shares = 1 if longest <= FEW else -(-longest // whole_tiles(longest, SHARES, SHARE))

    def share(self, h: Tensor) -> int:
        """Rows of a share of an input: those of all programs cover every input, whichever the longest one is."""
        return len(h) if self.shares == 1 else whole_tiles(len(h), self.shares, SHARE)

    def stage(self, staged: bool) -> dict[str, Any]:
        """Whether shares have been summed before, whether one tile has all rows, and room for all shares."""
        return {"STAGED": staged, "WHOLE": self._whole, "SHARES": span_of(self.shares) if staged else 1}

    def launch(
        self,
        kernels: _Kernels,
        arguments: Sequence[Sequence[Any]],
        flags: Sequence[dict[str, Any]],
        in_sequence: bool | None = None,
        **common: Any,
    ) -> None:
        """The kernel for one input, or that for several: each its arguments and its flags."""
        grid = (self.shares, self._columns)
        if len(arguments) == 1:
            kernels.one[grid](*arguments[0], **flags[0], **common, **self._known)
            return
        if in_sequence is not None:
            common["IN_SEQUENCE"] = in_sequence
        lists = {flag: tuple(each[flag] for each in flags) for flag in flags[0]}
        kernels.several[(*grid, 1 if in_sequence else len(arguments))](
            *zip(*arguments, strict=True), **lists, **common, **self._known
        )


def constants(width: int, dtype: torch.dtype, rows: int) -> dict[str, Any]:
    """Constants that depend on the shape of the rows."""
    most, columns = NARROW if rows <= FEW else BROAD
    tile = min(most, span_of(rows))
    warps = max(4, tile * min(columns, span_of(width)) // (32 * ENTRIES))
    return constants_of(width, dtype, tile, columns, warps)


class _ResidualNorms(torch.autograd.Function):
    """Saves its inputs and three numbers per channel. Five tensors each: h, added, residual, weight, bias."""

    @staticmethod
    def forward(ctx: Any, launches: Sequence[_Launch], summed: bool, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        inputs: list[Any] = [tensors[i : i + 5] for i in range(0, len(tensors), 5)]
        common = _Rows([h for h, *_ in inputs])
        training, staged = launches[0].norm.training, launches[0].norm.training and common.shares > 1
        read, written, moments, flags, saved = [], [], [], [], []
        outputs = _outputs(inputs, summed)
        for i, (launch, (h, added, residual, weight, bias), out) in enumerate(
            zip(launches, inputs, outputs, strict=True)
        ):
            norm, width = launch.norm, h.shape[1]
            statistics = h.new_empty(3, width, dtype=wide_of(h.dtype))
            parts = statistics.new_empty(common.shares, 3, width) if staged else statistics
            plus = h if added is None else added
            numbers = (len(h), common.share(h), h.stride(0), plus.stride(0))
            # Of a sum every input but the first has what came before as its residual.
            before = out if summed and i else residual
            read.append((h, plus, launch.mask(statistics), launch.seed, parts, *numbers))
            moments.append({"ADDED": added is not None, "P": float(launch.p), "MASKED": launch.real is not None})
            written.append((
                h, plus, h if before is None else before, launch.mask(statistics), launch.seed, weight, bias,
                norm.running_mean, norm.running_var, parts, statistics, out, *numbers,
                0 if before is None else before.stride(0),
            ))  # fmt: skip
            flags.append(
                moments[-1]
                | {"RESIDUAL": before is not None, "RELU": launch.relu, "Q": float(launch.q)}
                | {"EPS": norm.eps, "MOMENTUM": norm.momentum}
            )
            saved += [h, added, weight, bias, statistics]
        with torch.cuda.device_of(inputs[0][0]):
            if staged:
                common.launch(_SHARE_MOMENTS, read, moments)
            common.launch(_FORWARD, written, flags, in_sequence=summed, TRAINING=training, **common.stage(staged))
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(False)
        ctx.launches, ctx.summed = launches, summed
        ctx.residual_types = [None if residual is None else residual.dtype for _, _, residual, *_ in inputs]
        return tuple(outputs[:1] if summed else outputs)

    @staticmethod
    @first_order
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = [ctx.saved_tensors[i : i + 5] for i in range(0, len(ctx.saved_tensors), 5)]
        if ctx.summed:
            grads = grads * len(saved)
        differentiated = {i: unit_stride(grad) for i, grad in enumerate(grads) if grad is not None}
        gradients: list[tuple[Tensor | None, ...]] = [(None,) * 5] * len(saved)
        if not differentiated:
            return None, None, *(x for each in gradients for x in each)
        common = _Rows([saved[i][0] for i in differentiated])
        sums, rows, known = [], [], []
        for i, grad in differentiated.items():
            launch, (h, added, weight, bias, statistics), of_residual = ctx.launches[i], saved[i], ctx.residual_types[i]
            apart = added is not None and (launch.p > 0.0 or added.dtype != h.dtype)
            dh, plus = h.new_empty(h.shape), h if added is None else added
            dadded = added.new_empty(added.shape) if apart else dh
            dweight, dbias = torch.empty_like(weight), torch.empty_like(bias)
            parts = statistics.new_empty(common.shares, 2, h.shape[1]) if common.shares > 1 else statistics
            numbers = (len(h), common.share(h), h.stride(0), plus.stride(0), grad.stride(0))
            sums.append((h, plus, launch.seed, weight, bias, statistics, grad, parts, *numbers))
            rows.append((
                h, plus, launch.mask(statistics), launch.seed, weight, bias, statistics, grad, parts, dh, dadded,
                dweight, dbias, *numbers,
            ))  # fmt: skip
            known.append({"ADDED": added is not None, "RELU": launch.relu, "P": float(launch.p), "Q": float(launch.q)})
            known[-1] |= {"MASKED": launch.real is not None, "APART": apart}
            handed_on = None if of_residual is None else grad.to(of_residual)
            gradients[i] = (dh, None if added is None else dadded, handed_on, dweight, dbias)
        with torch.cuda.device_of(grad):
            if common.shares > 1:
                of_sums = [{name: each[name] for name in ("ADDED", "RELU", "P", "Q")} for each in known]
                common.launch(_SHARE_GRADIENT_SUMS, sums, of_sums)
            common.launch(_BACKWARD, rows, known, **common.stage(common.shares > 1))
        return None, None, *(x for each in gradients for x in each)


def _outputs(inputs: Sequence[Any], summed: bool) -> list[Tensor]:
    """Room for what comes out, for a sum the same for all inputs."""
    kinds = [_widest([x.dtype for x in rows if x is not None]) for *rows, _, _ in inputs]
    if summed:
        return [inputs[0][0].new_empty(inputs[0][0].shape, dtype=_widest(kinds))] * len(inputs)
    return [each[0].new_empty(each[0].shape, dtype=kind) for each, kind in zip(inputs, kinds, strict=True)]


def _widest(types: Sequence[torch.dtype]) -> torch.dtype:
    widest = types[0]
    for other in types[1:]:
        widest = torch.promote_types(widest, other)
    return widest
