"""Learning rates that lie on the device, where a captured step reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim import Optimizer


class DeviceRates:
    """Learning rates as tensors, which a captured optimizer reads; outside the optimizer keeps its numbers.

    Args:
        optimizer: optimizer whose groups' ``lr`` are the rates.
        device: device of the tensors.
    """

    def __init__(self, optimizer: Optimizer, device: torch.device) -> None:
        self._optimizer = optimizer
        self._device = device
        self._tensors = [torch.tensor(group["lr"], device=device) for group in optimizer.param_groups]
        self._values = [float(group["lr"]) for group in optimizer.param_groups]

    def refresh(self) -> None:
        """Hands rates that have changed to the device."""
        for i, group in enumerate(self._optimizer.param_groups):
            if group["lr"] != self._values[i]:
                self._values[i] = group["lr"]
                self._tensors[i].fill_(group["lr"])

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside, the optimizer has the tensors in place of its rates."""
        self.refresh()
        # With "capturable" an optimizer that is not being captured refuses devices but GPUs.
        flag = self._device.type == "cuda"
        keys = ("lr", "capturable")
        before: list[dict[str, Any]] = [{key: group[key] for key in keys if key in group} for group in self._groups]
        for group, rate in zip(self._groups, self._tensors, strict=True):
            group["lr"] = rate
            if "capturable" in group:
                group["capturable"] = flag
        try:
            yield
        finally:
            for group, values in zip(self._groups, before, strict=True):
                group.update(values)

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return self._optimizer.param_groups
