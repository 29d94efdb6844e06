"""Number formats of a training: type of the weights, type that products are computed in, scale of the gradients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

_WEIGHTS = {"bf16-true": torch.bfloat16, "16-true": torch.float16, "64-true": torch.float64}
_PRODUCTS = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


class Precision:
    """One of the names of the key ``precision``, with the meaning that Lightning gave them.

    Args:
        name: ``32-true``, ``bf16-true``, ``16-true``, ``64-true`` (weights of that type), ``bf16-mixed`` or
            ``16-mixed`` (weights of 32 bits, autocast). Gradients of float16 are scaled, so that they do not underflow.
        device: device that computes.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        self.name = name
        self.weights = _WEIGHTS.get(name)
        self._products, self._device = _PRODUCTS.get(name), device
        self._scaler = torch.amp.GradScaler(device.type) if name == "16-mixed" else None

    def forward_context(self) -> AbstractContextManager[Any]:
        """Within it models are called."""
        if self._products is not None:
            return torch.autocast(self._device.type, dtype=self._products)
        return nullcontext() if self.weights is None else _default_type(self.weights)

    def convert_module(self, module: nn.Module) -> nn.Module:
        """The module with weights of the type."""
        return module if self.weights is None else module.to(self.weights)

    def convert_output(self, output: Tensor) -> Tensor:
        """Output of a model, in the default type outside of :meth:`forward_context`."""
        converts = self._products is not None or self.weights is not None
        return output.to(torch.get_default_dtype()) if converts and output.is_floating_point() else output

    @property
    def scales_losses(self) -> bool:
        """Whether losses are differentiated times a scale, by which gradients are divided before the step."""
        return self._scaler is not None

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss to be differentiated."""
        return loss if self._scaler is None else self._scaler.scale(loss)

    def unscale(self, optimizer: Optimizer) -> None:
        """Divides the gradients by the scale, before they are clipped."""
        if self._scaler is not None:
            self._scaler.unscale_(optimizer)

    def step(self, optimizer: Optimizer) -> None:
        """The optimiser's step; left out where a scaled gradient is not finite."""
        if self._scaler is None:
            optimizer.step()
        else:
            self._scaler.step(optimizer)
            self._scaler.update()

    def state_dict(self) -> dict[str, Any]:
        """The scale."""
        return {} if self._scaler is None else self._scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores :meth:`state_dict`, between two steps: one that was broken off is forgotten."""
        if self._scaler is not None:
            self._scaler.load_state_dict(state)
            self._scaler._per_optimizer_states.clear()


@contextmanager
def _default_type(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
