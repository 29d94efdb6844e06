"""Losses over entries in one Triton kernel, gradient included (README)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.entrywise_loss import cpu
from graphbench.ops.entrywise_loss.gpu_kernels import loss_and_gradient
from graphbench.ops.entrywise_loss.kind import KINDS, Kind
from graphbench.ops.gpu_launch import has_kernels, loadable, triton_type, wide_of
from graphbench.structures.first_order import first_order
from graphbench.structures.unit_gradient import unit_gradient

# Entries that one program goes through, and those that it looks at together.
MOST, ENTRIES, WARPS = 1 << 16, 1024, 8


def entrywise_loss(pred: Tensor, true: Tensor, kind: Kind, mean: bool, rows: Tensor | None, unknown: bool) -> Tensor:
    """See :func:`graphbench.ops.entrywise_loss.entrywise_loss`; more than 65,536 entries go through torch code.

    Half precision does so, too, and targets that have a gradient.
    """
    capable = has_kernels("entrywise_loss", pred) and 0 < pred.numel() <= MOST and not true.requires_grad
    if not capable or pred.dtype not in (torch.float32, torch.float64):
        return cpu.entrywise_loss(pred, true, kind, mean, rows, unknown)
    rows = None if rows is None else rows.contiguous()
    true = loadable(true.contiguous(), wide_of(pred.dtype))
    return _Loss.apply(pred.contiguous(), true, rows, constants(pred, kind, mean, rows, unknown))  # type: ignore[no-untyped-call]


def constants(pred: Tensor, kind: Kind, mean: bool, rows: Tensor | None, unknown: bool) -> dict[str, Any]:
    """Constants that are known when the kernel is compiled."""
    return {
        "KIND": KINDS.index(kind),
        "MEAN": mean,
        "COLUMNS": pred.numel() // len(pred),
        "MASKED": rows is not None,
        "UNKNOWN": unknown,
        "ENTRIES": ENTRIES,
        "ACC": triton_type(wide_of(pred.dtype)),
        "num_warps": WARPS,
        "enable_fp_fusion": True,
    }


class _Loss(torch.autograd.Function):
    """Saves the gradient, which the forward pass knows."""

    @staticmethod
    def forward(ctx: Any, pred: Tensor, true: Tensor, rows: Tensor | None, known: dict[str, Any]) -> Tensor:
        loss, wanted = pred.new_empty(()), ctx.needs_input_grad[0]
        dpred = torch.empty_like(pred) if wanted else pred
        with torch.cuda.device_of(pred):
            loss_and_gradient[(1,)](
                pred, true, pred if rows is None else rows, loss, dpred, pred.numel(), GRADIENT=wanted, **known
            )
        ctx.save_for_backward(dpred if wanted else None)
        return loss

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (dpred,) = ctx.saved_tensors
        begins = grad is unit_gradient(grad.dtype, grad.device)
        return (dpred if begins else grad * dpred), None, None, None
