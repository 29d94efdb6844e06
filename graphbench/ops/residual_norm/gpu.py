"""Batch normalisation and what stands around it in Triton kernels: one or two forward, one or two backward (README)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

try:
    from graphbench.ops.gpu_launch import constants_of, draw_seed, has_kernels, unit_stride, wide_of
except ImportError as missing:
    raise ImportError("backend 'gpu' of residual_norm needs Triton: pip install triton") from missing

from graphbench.ops.backend import first_order
from graphbench.ops.residual_norm import cpu, gpu_kernels
from graphbench.ops.residual_norm.normalization import Normalization, Surroundings
from graphbench.structures.capacity import RealRows

# Rows up to which one program goes through all of them for its channels; most shares of more rows, and what a share is
# a multiple of.
FEW, SHARES, SHARE = 2048, 64, 256
# (rows, channels, warps) of a tile: of few rows narrow ones, so that there are programs enough; 32 bytes are what
# memory gives at a time.
NARROW, BROAD = (256, 8, 8), (64, 32, 4)


def residual_norm(h: Tensor, norm: Normalization, around: Surroundings, real: RealRows | None) -> Tensor:
    """See :func:`graphbench.ops.residual_norm.residual_norm`.

    Gradients in evaluation, a single row, and dropout of everything go through torch code.

    Raises:
        ValueError: the tensors lie on a device that Triton cannot reach.
    """
    capable = has_kernels("residual_norm", h) and h.numel() > 0
    differentiated = not norm.training and torch.is_grad_enabled()
    if not capable or differentiated or len(h) == 1 or 1.0 in (around.added_dropout, around.dropout):
        return cpu.residual_norm(h, norm, around, real)
    added, residual = (None if x is None else unit_stride(x) for x in (around.added, around.residual))
    p, q = (around.added_dropout if added is not None else 0.0), around.dropout
    seed = draw_seed(h.device, max(p, q))
    launch = _Launch(norm, around.act == "relu", p, q, real if norm.training else None, seed)
    result: Tensor = _ResidualNorm.apply(unit_stride(h), added, residual, norm.weight, norm.bias, launch)  # type: ignore[no-untyped-call]
    return result


@dataclass(frozen=True, eq=False)
class _Launch:
    """What does not get a gradient.

    Attributes:
        norm: running statistics and numbers.
        relu: whether the normalised rows go through ReLU.
        p: probability of dropping an entry of what is added.
        q: the same of what is normalised.
        real: rows that count; None: all.
        seed: (2,) of p and q.
    """

    norm: Normalization
    relu: bool
    p: float
    q: float
    real: RealRows | None
    seed: Tensor

    def constants(self, h: Tensor, added: Tensor | None) -> dict[str, Any]:
        """What all kernels know when they are compiled."""
        flags = {"ADDED": added is not None, "P": float(self.p), "MASKED": self.real is not None}
        return flags | constants(h.shape[1], h.dtype, len(h))

    def mask(self, unread: Tensor) -> Tensor:
        """(R,) which rows count; ``unread`` where all do."""
        return unread if self.real is None else self.real.mask


def constants(width: int, dtype: torch.dtype, rows: int) -> dict[str, Any]:
    """What depends on the shape of the rows."""
    return constants_of(width, dtype, *(NARROW if rows <= FEW else BROAD))


def share_of(rows: int) -> tuple[int, int]:
    """(number of shares, rows of a share)."""
    if rows <= FEW:
        return 1, rows
    share = -(-rows // (SHARES * SHARE)) * SHARE
    return -(-rows // share), share


class _ResidualNorm(torch.autograd.Function):
    """Saves its inputs and three numbers per channel."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        added: Tensor | None,
        residual: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        launch: _Launch,
    ) -> Tensor:
        norm, known, wide = launch.norm, launch.constants(h, added), wide_of(h.dtype)
        (shares, share), width = share_of(len(h)), h.shape[1]
        types = [x.dtype for x in (h, added, residual) if x is not None]
        out = h.new_empty(h.shape, dtype=_widest(types))
        statistics = h.new_empty(3, width, dtype=wide)
        staged = norm.training and shares > 1
        parts = h.new_empty(shares, 3, width, dtype=wide) if staged else statistics
        plus, numbers = (h if added is None else added), (len(h), share)
        strides = (h.stride(0), plus.stride(0))
        grid = (shares, -(-width // known["SPAN"]))
        with torch.cuda.device_of(h):
            if staged:
                gpu_kernels.share_moments[grid](
                    h, plus, launch.mask(statistics), launch.seed, parts, *numbers, *strides, **known
                )
            gpu_kernels.forward[grid](
                h, plus, h if residual is None else residual, launch.mask(statistics), launch.seed, weight, bias,
                norm.running_mean, norm.running_var, parts, statistics, out, *numbers, *strides,
                0 if residual is None else residual.stride(0), TRAINING=norm.training, STAGED=staged, EPS=norm.eps,
                MOMENTUM=norm.momentum, RESIDUAL=residual is not None, RELU=launch.relu, Q=float(launch.q), **known,
            )  # fmt: skip
        ctx.save_for_backward(h, added, weight, bias, statistics)
        ctx.launch, ctx.residual_type = launch, None if residual is None else residual.dtype
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, added, weight, bias, statistics = ctx.saved_tensors
        launch, of_residual = ctx.launch, ctx.residual_type
        known, grad, (shares, share) = launch.constants(h, added), unit_stride(grad), share_of(len(h))
        apart = added is not None and (launch.p > 0.0 or added.dtype != h.dtype)
        dh, plus = h.new_empty(h.shape), h if added is None else added
        dadded = added.new_empty(added.shape) if apart else dh
        dweight, dbias = torch.empty_like(weight), torch.empty_like(bias)
        parts = statistics.new_empty(shares, 2, h.shape[1]) if shares > 1 else statistics
        numbers = (len(h), share, h.stride(0), plus.stride(0), grad.stride(0))
        grid, flags = (shares, -(-h.shape[1] // known["SPAN"])), {"RELU": launch.relu, "Q": float(launch.q)}
        unmasked = {name: value for name, value in known.items() if name != "MASKED"}
        with torch.cuda.device_of(h):
            if shares > 1:
                gpu_kernels.share_gradient_sums[grid](
                    h, plus, launch.seed, weight, bias, statistics, grad, parts, *numbers, **flags, **unmasked
                )
            gpu_kernels.backward[grid](
                h, plus, launch.mask(statistics), launch.seed, weight, bias, statistics, grad, parts, dh, dadded,
                dweight, dbias, *numbers, STAGED=shares > 1, APART=apart, **flags, **known,
            )  # fmt: skip
        of_added = dadded if added is not None else None
        return dh, of_added, None if of_residual is None else grad.to(of_residual), dweight, dbias, None


def _widest(types: list[torch.dtype]) -> torch.dtype:
    widest = types[0]
    for other in types[1:]:
        widest = torch.promote_types(widest, other)
    return widest
