"""Gradients of several processes averaged behind a captured step, not inside the backward pass.

DDP's hooks exchange gradients while others are still computed, in an order that all processes share. Captured steps do
not: processes meet other classes of batches at other times, and recording one does its work several times. So a step
leaves its gradients in one buffer, captured or not, and the processes exchange that once before every update.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.train.distributed import gather_objects
from graphbench.train.fabric import Fabric


class GradientExchange:
    """One buffer per number format, whose parts are the parameters' gradients from now on.

    Args:
        model: whose parameters have the gradients of one backward pass. Those that have none in any process, because
            nothing depends on them, get none.
        fabric: fabric of several processes, all of which are here.
    """

    def __init__(self, model: nn.Module, fabric: Fabric) -> None:
        parameters = list(model.parameters())
        known = gather_objects([parameter.grad is not None for parameter in parameters], fabric)
        used = [parameter for parameter, *flags in zip(parameters, *known, strict=True) if any(flags)]
        self._processes = fabric.world_size
        self._buffers: list[Tensor] = []
        self.gradients: list[Tensor] = []
        for dtype in {parameter.dtype: None for parameter in used}:
            members = [parameter for parameter in used if parameter.dtype == dtype]
            buffer = members[0].new_zeros(sum(parameter.numel() for parameter in members), requires_grad=False)
            self._buffers.append(buffer)
            for parameter, part in zip(members, buffer.split([each.numel() for each in members]), strict=True):
                # Fused optimisers go through both memories in order.
                parameter.grad = part.as_strided(parameter.shape, parameter.stride())
                self.gradients.append(parameter.grad)

    def average(self) -> None:
        """Means over the processes, each of which must call it equally often."""
        for buffer in self._buffers:
            torch.distributed.all_reduce(buffer)
            buffer.div_(self._processes)

    def forget(self) -> None:
        """Zeros, in the same memory."""
        torch._foreach_zero_(self._buffers)
