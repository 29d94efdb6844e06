"""Linear maps by torch's products; on other devices the kernel of the product applies ReLU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench.ops.backend import first_order


def linear(h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """See :func:`graphbench.ops.linear.linear`."""
    if not relu:
        return F.linear(h, weight, bias)
    if h.device.type == "cpu" or bias is None or torch.is_autocast_enabled(h.device.type):
        return torch.relu(F.linear(h, weight, bias))
    result: Tensor = LinearRelu.apply(h, weight, bias)  # type: ignore[no-untyped-call]
    return result


class LinearRelu(torch.autograd.Function):
    """``relu(h W^T + b)``, differentiated from its output."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(R, f)."""
        out = torch._addmm_activation(bias, h, weight.t())
        ctx.save_for_backward(h, weight, out)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Of rows, weight and bias."""
        h, weight, out = ctx.saved_tensors
        grad = torch.ops.aten.threshold_backward(grad, out, 0)
        of_rows = grad @ weight if ctx.needs_input_grad[0] else None
        return of_rows, grad.t() @ h, grad.sum(0)
