"""Several processes that train together, launched and joined by Lightning Fabric."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TypeVar

from lightning_fabric import Fabric as LightningFabric
from lightning_fabric.wrappers import _FabricModule
from torch import Tensor, nn

from graphbench.train.fabric import Fabric
from graphbench.train.launcher import DataParallel
from graphbench.train.precision import Precision

T = TypeVar("T")


class Processes(Fabric):
    """Data-parallel training; Lightning knows launchers and schedulers, PyTorch's DDP exchanges the gradients.

    Args:
        accelerator: ``cpu``, ``cuda`` (or ``gpu``), ``mps``, ``auto``.
        devices: processes on this machine, or numbers of its devices.
        timeout: time that a process waits for others.
        precision: name of the number format.
    """

    def __init__(self, accelerator: str, devices: int | list[int], timeout: timedelta, precision: str) -> None:
        # A part switched off in a GPS block still owns parameters, which then never get a gradient.
        strategy = DataParallel(find_unused_parameters=True, timeout=timeout)
        self._lightning = LightningFabric(accelerator=accelerator, devices=devices, strategy=strategy)
        self._wrapped: _FabricModule | None = None
        super().__init__(self._lightning.device, Precision(precision, self._lightning.device))

    @property
    def world_size(self) -> int:  # type: ignore[override]
        """Number of processes."""
        return self._lightning.world_size

    @property
    def global_rank(self) -> int:  # type: ignore[override]
        """Number of this process."""
        return self._lightning.global_rank

    def launch(self) -> None:
        """Starts the other processes, or joins those that a scheduler started."""
        self._lightning.launch()
        self.device = self._lightning.device

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module in DDP."""
        self._wrapped = self._lightning.setup_module(module)
        return self._wrapped

    def gradient_sync(self, enabled: bool) -> AbstractContextManager[None]:
        """Within it backward passes exchange gradients, or leave that to a later one."""
        if self._wrapped is None:
            return nullcontext()
        return self._lightning.no_backward_sync(self._wrapped, enabled=not enabled)

    def backward(self, loss: Tensor) -> None:
        """Adds the gradients of a loss."""
        self._lightning.backward(self.precision.scaled(loss))

    def broadcast(self, item: T) -> T:
        """Item of the first process."""
        return self._lightning.broadcast(item)
