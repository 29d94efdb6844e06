"""Device, number format and processes of a training.

One process with one device needs no launcher, no wrapper and no communication: :class:`Fabric` is that. Several are
:class:`graphbench.train.processes.Processes`, by Lightning Fabric, whose import takes longer (PyTorch's compiler is
among what it imports) than everything else until the first batch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from graphbench.structures.late_sums import late_sums
from graphbench.structures.unit_gradient import unit_gradient
from graphbench.train.gradient_clipping import clipped_gradients
from graphbench.train.precision import Precision

T = TypeVar("T")
ModuleT = TypeVar("ModuleT", bound=nn.Module)
Forward = Callable[[Any], tuple[Tensor, Tensor | None]]


class Fabric:
    """A training in this process, on one device.

    Args:
        device: device of the model and its batches.
        precision: the number format.
    """

    world_size = 1
    global_rank = 0

    def __init__(self, device: torch.device, precision: Precision) -> None:
        self.device = device
        self.precision = precision

    @property
    def is_global_zero(self) -> bool:
        """Whether this is the first process, which writes."""
        return self.global_rank == 0

    def launch(self) -> None:
        """Starts the other processes."""
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)

    def setup(self, module: nn.Module) -> Forward:
        """The forward pass of a training, after the module has been converted and moved.

        Args:
            module: returns a prediction and an auxiliary loss or None.
        """
        return self.in_precision(self.wrap(self.place(module)))

    def in_precision(self, module: nn.Module) -> Forward:
        """The forward pass of a placed module, which no other process takes part in unless it is wrapped."""
        precision = self.precision

        def forward(batch: Any) -> tuple[Tensor, Tensor | None]:
            with precision.forward_context():
                prediction, auxiliary = module(batch)
            return precision.convert_output(prediction), None if auxiliary is None else precision.convert_output(
                auxiliary
            )

        return forward

    def place(self, module: ModuleT) -> ModuleT:
        """The module itself, with weights of the number format on the device."""
        self.precision.convert_module(module)
        return module.to(self.device)

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module, with gradients that are the means of all processes."""
        return module

    def gradient_sync(self, enabled: bool) -> AbstractContextManager[None]:
        """Within it backward passes exchange gradients, or leave that to a later one."""
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Adds the gradients of a loss, scaled where the number format asks for it."""
        scaled = self.precision.scaled(loss)
        # A given gradient spares a GPU a launch; a CPU it would only cost the import of SymPy.
        given = not (scaled.is_cpu or scaled.dim())
        with late_sums(scaled):
            scaled.backward(unit_gradient(scaled.dtype, scaled.device) if given else None)

    def clipped_gradients(self, optimizer: Optimizer, max_norm: float) -> AbstractContextManager[None]:
        """Within it the optimiser moves by gradients that are shrunk together to a norm.

        Args:
            optimizer: optimizer whose parameters have gradients.
            max_norm: largest norm of all of them together.
        """
        self.precision.unscale(optimizer)
        return clipped_gradients(optimizer, max_norm, by_optimizer=not self.precision.scales_losses)

    def broadcast(self, item: T) -> T:
        """Item of the first process."""
        return item
