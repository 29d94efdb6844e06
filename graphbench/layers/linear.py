"""Linear maps with fewer kernels on a device: several of the same rows as one product, ReLU within the product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graphbench.ops.backend import first_order


def joint_linear(h: Tensor, maps: Sequence[nn.Linear]) -> list[Tensor]:
    """``[lin(h) for lin in maps]``, on a device as one product with all weights.

    There every product is a kernel forward and three backward, and the gradients of ``h`` are added one by one: what is
    computed costs less than what is launched. The results are parts of one tensor.

    Args:
        h: (N, d).
        maps: with bias, from d channels.
    """
    biases: list[Tensor] = [lin.bias for lin in maps if lin.bias is not None]
    if h.device.type == "cpu" or len(biases) < len(maps):
        return [lin(h) for lin in maps]
    weights: list[Tensor] = [lin.weight for lin in maps]
    weight, bias = torch.cat(weights), torch.cat(biases)
    return list(nn.functional.linear(h, weight, bias).split([lin.out_features for lin in maps], dim=1))


def activated_linear(h: Tensor, lin: nn.Linear, act: nn.Module) -> Tensor:
    """``act(lin(h))``; on a device ReLU is applied by the kernel of the product.

    Args:
        h: (N, d).
        lin: map from d channels.
        act: activation.
    """
    fused = isinstance(act, nn.ReLU) and lin.bias is not None and h.dim() == 2 and h.device.type != "cpu"
    if not fused or torch.is_autocast_enabled(h.device.type):
        activated: Tensor = act(lin(h))
        return activated
    result: Tensor = LinearRelu.apply(h, lin.weight, lin.bias)  # type: ignore[no-untyped-call]
    return result


class LinearRelu(torch.autograd.Function):
    """``relu(h W^T + b)``, differentiated from its output."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(N, out)."""
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
