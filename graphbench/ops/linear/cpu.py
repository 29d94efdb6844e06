"""Linear maps by torch's products; on other devices the kernel of the product applies ReLU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench.ops.backend import first_order


def linear_and_rows(h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.linear.linear_and_rows`."""
    plain = h.device.type == "cpu" or torch.compiler.is_compiling()
    if plain or torch.is_autocast_enabled(h.device.type):
        out = F.linear(h, weight, bias)
        return (torch.relu(out) if relu else out), h
    result: tuple[Tensor, Tensor] = Linear.apply(h, weight, bias, relu)  # type: ignore[no-untyped-call]
    return result


def _product(h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """Forward pass in one kernel, but for ReLU without bias."""
    if bias is None:
        out = torch.mm(h, weight.t())
        return out.relu_() if relu else out
    return torch._addmm_activation(bias, h, weight.t()) if relu else torch.addmm(bias, h, weight.t())


class Linear(torch.autograd.Function):
    """Saves rows and weight, with ReLU the output, from which it is differentiated."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> tuple[Tensor, Tensor]:
        """The product, and the rows."""
        out = _product(h, weight, bias, relu)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(h, weight, out if relu else None)
        return out, h.view_as(h)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor | None, of_rows: Tensor | None) -> tuple[Tensor | None, ...]:
        """Of the rows, weight and bias."""
        if grad is None:
            return of_rows, None, None, None
        h, weight, out = ctx.saved_tensors
        if out is not None:
            grad = torch.ops.aten.threshold_backward(grad, out, 0)
        if ctx.needs_input_grad[0]:
            of_rows = grad @ weight if of_rows is None else torch.addmm(of_rows, grad, weight)
        return of_rows, grad.t() @ h, grad.sum(0) if ctx.needs_input_grad[2] else None, None
